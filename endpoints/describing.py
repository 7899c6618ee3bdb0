"""What a statement would return: prepared and planned as the reader, never run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg
from psycopg.pq import ExecStatus

from endpoints.execution import ReaderSession, arming_statement, failure_of
from endpoints.gate import GateConnection, gate_pool, roll_back
from endpoints.outcomes import Column, Statement
from logsources.connections import owner_connection


def describe_statement(statement: Statement, session: ReaderSession) -> tuple[Column, ...]:
    """PREPARE a statement, check the reader's privileges and return its result columns; the statement is not run.

    Raises as `run_statement` does.
    """
    try:
        with gate_pool().connection() as connection:
            try:
                with _reading(connection, session):
                    fields = _prepare(connection, statement)
                    _plan(connection, argument_count=len(statement.arguments))
            finally:
                # A prepared statement outlives its transaction. Where preparing failed there is none: the answer is
                # not looked at. Behind psycopg's back, which would lose count of its own prepared statements.
                connection.pgconn.exec_(b"DEALLOCATE described")
        return _columns(fields)
    except psycopg.Error as error:
        raise failure_of(error, session) from error


@contextmanager
def _reading(connection: GateConnection, session: ReaderSession) -> Iterator[None]:
    try:
        connection.execute("BEGIN READ ONLY")
        connection.execute(*arming_statement(session))
        yield
    finally:
        roll_back(connection)


def _prepare(connection: GateConnection, statement: Statement) -> list[tuple[str, int, int]]:
    """Prepare the statement as `described` and return name, type and type modifier of its result columns."""
    prepared = connection.pgconn.prepare(b"described", statement.sql.encode())
    if prepared.status != ExecStatus.COMMAND_OK:
        raise psycopg.errors.error_from_result(prepared)
    description = connection.pgconn.describe_prepared(b"described")
    if description.status != ExecStatus.COMMAND_OK:
        raise psycopg.errors.error_from_result(description)
    return [
        ((description.fname(index) or b"").decode(), description.ftype(index), description.fmod(index))
        for index in range(description.nfields)
    ]


def _plan(connection: GateConnection, *, argument_count: int) -> None:
    """EXPLAIN the statement `described`: PREPARE looks at no privilege, the start of the executor at all of them."""
    nulls = f"({', '.join(['NULL'] * argument_count)})" if argument_count else ""
    # A generic plan: NULL must not be computed with, it stands for an argument that is not known yet.
    connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    try:
        connection.execute(f"EXPLAIN EXECUTE described{nulls}")
    except psycopg.DataError:
        # Partitions are pruned by the NULLs all the same, after the privileges were checked; with real arguments
        # the same expression may well have a value.
        return


def _columns(fields: Sequence[tuple[str, int, int]]) -> tuple[Column, ...]:
    """Name the types of result columns. As the owner: readers need no catalog functions."""
    with owner_connection() as connection:
        types = connection.execute(
            "SELECT format_type(type, modifier)"
            " FROM unnest(%s::oid[], %s::int[]) WITH ORDINALITY AS field (type, modifier, position) ORDER BY position",
            ([oid for _, oid, _ in fields], [modifier for _, _, modifier in fields]),
        ).fetchall()
    return tuple(Column(name=name, type=type_) for (name, _, _), (type_,) in zip(fields, types, strict=True))
