"""What a statement would return: prepared and planned as the reader, never run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import generators
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from config.deadlines import answer_within
from endpoints.errors import DatabaseUnavailable
from endpoints.log_database.execution import on_primary, run_once
from endpoints.log_database.gate import GateConnection, GatePool, roll_back
from endpoints.log_database.round_trips import Transaction, column_types
from endpoints.log_database.sessions import ReaderSession, session_settings_statement
from endpoints.results.outcomes import Column, Rows, Statement
from endpoints.sql.parameter_uses import NumberedUses
from logsources.databases import owner_connection
from logsources.session_marks import ask_for_mark

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult


NAMED_WITHIN_SECONDS: Final = 5.0

Field = tuple[str, int, int]  # name, type and type modifier of a result column


@dataclass(frozen=True, slots=True)
class Description:
    """A statement's result columns, and EXPLAIN (FORMAT JSON) of its generic plan where that can be made."""

    columns: tuple[Column, ...]
    plan: bytes | None


def describe_statement(statement: Statement, session: ReaderSession) -> tuple[Column, ...]:
    """PREPARE a statement, check the reader's privileges and return its result columns; the statement is not run.

    Raises as `run_statement` does.
    """
    return describe_with_plan(statement, session).columns


def describe_with_plan(statement: Statement, session: ReaderSession) -> Description:
    """Return what `describe_statement` does, and the plan for arguments not yet known. Raises as it does."""

    def describe(pool: GatePool) -> Description:
        fields, plan = _described(pool, statement, session)
        return Description(named_columns(fields), plan)

    return on_primary(describe, again=describe, session=session)


def _described(pool: GatePool, statement: Statement, session: ReaderSession) -> tuple[list[Field], bytes | None]:
    with pool.connection() as connection:
        try:
            with _reading(connection, session):
                fields = _prepare(connection, statement)
                plan = _plan(connection, argument_count=len(statement.arguments))
        finally:
            _deallocate(connection)
    return fields, plan


@contextmanager
def _reading(connection: GateConnection, session: ReaderSession) -> Iterator[None]:
    try:
        connection.execute("BEGIN READ ONLY")
        connection.require_own_session(ask_for_mark(connection))
        arming, bound = session_settings_statement(session, topology=connection.topology)
        connection.execute(arming, [text.decode() for text in bound])
        yield
    finally:
        roll_back(connection)


def _prepare(connection: GateConnection, statement: Statement) -> list[Field]:
    """Prepare the statement as `described` and return its result columns."""
    # Sent by hand and waited for by the connection, which notices a server that hangs.
    connection.pgconn.send_prepare(b"described", statement.sql.encode())
    _answer(connection)
    connection.pgconn.send_describe_prepared(b"described")
    return fields_of(_answer(connection))


def fields_of(result: PGresult) -> list[Field]:
    """Return the fields of a result or of the description of one."""
    return [
        ((result.fname(index) or b"").decode(), result.ftype(index), result.fmod(index))
        for index in range(result.nfields)
    ]


def _answer(connection: GateConnection) -> PGresult:
    """Return PostgreSQL's answer to what was sent last. Raises psycopg.Error when it is a refusal."""
    result: PGresult
    (result,) = connection.wait(generators.execute(connection.pgconn))
    if result.status != ExecStatus.COMMAND_OK:
        raise psycopg.errors.error_from_result(result)
    return result


def _deallocate(connection: GateConnection) -> None:
    """Drop the prepared statement, which outlives its transaction; where preparing failed there is none."""
    # Behind psycopg's back, which would lose count of its own prepared statements.
    try:
        connection.pgconn.send_query(b"DEALLOCATE described")
        _answer(connection)
    except psycopg.errors.InvalidSqlStatementName:
        return
    except psycopg.OperationalError:
        connection.close()  # it died, which is told by what failed before


def _plan(connection: GateConnection, *, argument_count: int) -> bytes | None:
    """EXPLAIN the statement `described`: PREPARE looks at no privilege, the start of the executor at all of them."""
    nulls = f"({', '.join(['NULL'] * argument_count)})" if argument_count else ""
    connection.execute(f"SET LOCAL {connection.topology.setting_for_describing}")
    try:
        row = connection.execute(f"EXPLAIN (FORMAT JSON) EXECUTE described{nulls}").fetchone()
    except psycopg.DataError:
        # Partitions are pruned by the NULLs all the same, after the privileges were checked; with real arguments
        # the same expression may well have a value.
        return None
    plan: bytes | None = row[0] if row else None
    return plan


def named_columns(fields: Sequence[Field]) -> tuple[Column, ...]:
    """Return result columns with the names of their types. As the owner: readers need no catalog functions.

    Raises DatabaseUnavailable when the log database does not answer within NAMED_WITHIN_SECONDS.
    """
    try:
        with answer_within(NAMED_WITHIN_SECONDS), owner_connection() as connection:
            types = connection.execute(
                "SELECT format_type(type, modifier) FROM unnest(%s::oid[], %s::int[])"
                " WITH ORDINALITY AS field (type, modifier, position) ORDER BY position",
                ([oid for _, oid, _ in fields], [modifier for _, _, modifier in fields]),
            ).fetchall()
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable from error
    return tuple(Column(name=name, type=type_) for (name, _, _), (type_,) in zip(fields, types, strict=True))


# --- Types of parameters ----------------------------------------------------------------------------------------------
# PostgreSQL tells the type of a parameter without one from its use (manual, "Frontend/Backend Protocol",
# ParameterDescription). It names the parameters it cannot tell one at a time, as in "data type of parameter $3".
_UNTOLD: Final = frozenset({"42P18", "42P08"})  # indeterminate_datatype, ambiguous_parameter
_PLACEHOLDER: Final = re.compile(r"\$([0-9]+)")
MAX_UNTOLD: Final = 50  # each costs a round trip


def parameter_types(numbered: NumberedUses, session: ReaderSession) -> dict[int, str]:
    """Return PostgreSQL's name for the type of each parameter of a statement, without those that it cannot tell.

    Raises as `run_statement` does; StatementFailed also if more than MAX_UNTOLD cannot be told.
    """

    def told(pool: GatePool) -> dict[int, str]:
        with pool.connection() as connection, _reading(connection, session):
            return _told_types(connection, numbered)

    return on_primary(told, again=told, session=session)


def _told_types(connection: GateConnection, numbered: NumberedUses) -> dict[int, str]:
    as_text = set(numbered.untold)
    connection.execute("SAVEPOINT untyped")
    for _ in range(MAX_UNTOLD):
        try:
            types = _types_of_unnamed(connection, numbered.sql(as_text))
        except psycopg.ProgrammingError as error:
            untold = _PLACEHOLDER.search(error.diag.message_primary or "")
            if error.sqlstate not in _UNTOLD or untold is None:
                raise
            connection.execute("ROLLBACK TO SAVEPOINT untyped")
            as_text.add(int(untold[1]))
            continue
        return {number: name for number, name in enumerate(types, start=1) if number not in as_text and name}
    raise psycopg.errors.IndeterminateDatatype(f"more than {MAX_UNTOLD} parameters have no type")


def _types_of_unnamed(connection: GateConnection, sql: str) -> list[str]:
    connection.pgconn.send_prepare(b"", sql.encode())
    _answer(connection)
    connection.pgconn.send_describe_prepared(b"")
    described = _answer(connection)
    return [_type_name(described.param_type(index)) for index in range(described.nparams)]


def _type_name(oid: int) -> str:
    """Return ``int4`` or ``int4[]``; "" for a type that is not PostgreSQL's own."""
    info = psycopg.postgres.types.get(oid)
    if info is None:
        return ""
    return f"{info.name}[]" if oid == info.array_oid else info.name


# --- Trials -----------------------------------------------------------------------------------------------------------
# Statements tried for an operator: run like those of a call, their columns with types.
@dataclass(frozen=True, slots=True)
class Trial:
    """What a tried statement returned; `columns` name the types of `rows.columns`."""

    rows: Rows
    columns: tuple[Column, ...]


def try_statement(statement: Statement, session: ReaderSession, *, max_rows: int, max_bytes: int) -> Trial:
    """Run one statement that asks for at most `max_rows + 1` rows and return the first `max_rows`.

    In the one armed, read-only transaction that `run_statement` uses. Raises as `run_statement` does.
    """

    def attempt(pool: GatePool) -> Transaction:
        # Tried once: kept as a prepared statement it would only push out those of calls.
        return run_once(pool, statement, session, max_bytes, may_keep=False)

    started = perf_counter()
    _, result, rows = on_primary(attempt, again=attempt, session=session)
    seconds = perf_counter() - started
    fields = fields_of(result)
    return Trial(
        rows=Rows(
            columns=tuple(name for name, _, _ in fields),
            rows=rows.first(max_rows),
            truncated=len(rows) > max_rows,
            database_seconds=seconds,
            types=column_types(result),
        ),
        columns=named_columns(fields),
    )
