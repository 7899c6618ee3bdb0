"""The gate pool: statements run as a least-privileged reader in one read-only round trip.

    BEGIN READ ONLY
    SELECT set_config(…, true)            -- scope, tenant, time limit, search path, and last the role
    <statement>                           -- server-side binding, never the simple protocol
    ROLLBACK                              -- nothing a query does to its session survives

A connection whose state is in doubt is closed. PostgreSQL's own messages stay in `StatementFailed`, for the log.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import psycopg
from django.conf import settings
from psycopg import Connection, RawCursor
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg_pool import ConnectionPool, PoolTimeout

from endpoints.encoding import register_loaders
from endpoints.errors import DatabaseUnavailable, Overloaded, QueryTimeout
from endpoints.outcomes import BoundValue, Column, Rows, Statement
from logsources.connections import owner_connection

QUERY_READER = "query_reader"
GateConnection = Connection[tuple[Any, ...]]

_QUOTED = re.compile(r'".*"', re.DOTALL)
# SQLSTATE classes and codes that say "the server is not there for us", PostgreSQL appendix A.
_UNAVAILABLE_CLASSES = ("08", "57P", "53300")


@dataclass(frozen=True, slots=True)
class ReaderSession:
    """As whom and under which limits a statement runs.

    `tenant` is the project whose rows PostgreSQL shows; None shows the rows of every project.
    """

    role: str
    search_path: str
    statement_timeout_seconds: float
    tenant: str | None


class StatementFailed(Exception):
    """PostgreSQL refused or aborted a statement. Its text may hold row values: for the log, never for a caller."""

    def __init__(self, error: psycopg.Error) -> None:
        self.sqlstate = error.sqlstate or ""
        self.primary_message = error.diag.message_primary or ""
        self.hint = error.diag.message_hint or ""
        self.position = int(error.diag.statement_position) if error.diag.statement_position else None
        super().__init__(f"{self.sqlstate} {self.loggable_message}")

    @property
    def loggable_message(self) -> str:
        """PostgreSQL's message without the row values that data errors (classes 22 and 23) quote."""
        if self.sqlstate.startswith(("22", "23")):
            return _QUOTED.sub('"…"', self.primary_message)
        return self.primary_message


class GatePool:
    """Connections of the gate login, opened on first use, bounded in number and in the wait for one."""

    def __init__(self, conninfo: dict[str, Any], *, size: int, wait_seconds: float) -> None:
        self._size = size
        self._wait_seconds = wait_seconds
        self._in_use = 0
        self._lock = threading.Lock()
        self._pool: ConnectionPool[GateConnection] = ConnectionPool(
            kwargs={
                "connect_timeout": 3,
                "options": "-c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres -c bytea_output=hex"
                " -c default_transaction_read_only=on",
                **conninfo,
                "autocommit": True,
                "cursor_factory": RawCursor,
            },
            min_size=1,
            max_size=size,
            timeout=wait_seconds,
            max_idle=300,
            reconnect_timeout=5,
            configure=_configure,
            open=True,
            name="gate",
        )

    @contextmanager
    def connection(self) -> Iterator[GateConnection]:
        """Lend a connection; raises Overloaded when all stay busy, DatabaseUnavailable when none can be made."""
        try:
            connection = self._pool.getconn(timeout=self._wait_seconds)
        except PoolTimeout as error:
            raise (Overloaded() if self._in_use >= self._size else DatabaseUnavailable()) from error
        with self._lock:
            self._in_use += 1
        try:
            yield connection
        finally:
            with self._lock:
                self._in_use -= 1
            if connection.info.transaction_status != TransactionStatus.IDLE:
                connection.close()
            self._pool.putconn(connection)

    def discard_broken(self) -> None:
        """Replace idle connections that died with the server, so that a retry meets a live one."""
        self._pool.check()

    def close(self) -> None:
        self._pool.close()


def _configure(connection: GateConnection) -> None:
    """Prepare a new connection; a server that reads strings or encodes text otherwise is refused."""
    if connection.info.parameter_status("standard_conforming_strings") != "on":
        raise psycopg.OperationalError("the log database must have standard_conforming_strings = on")
    if connection.info.encoding != "utf-8":
        raise psycopg.OperationalError("the log database must talk UTF8")
    register_loaders(connection)
    connection.prepare_threshold = 1


_pool: GatePool | None = None
_pool_lock = threading.Lock()


def gate_pool() -> GatePool:
    """Return this process's pool, made on first use (after a server has forked its workers)."""
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = GatePool(
                settings.LOGS_GATE,
                size=settings.ENDPOINTS_POOL_SIZE,
                wait_seconds=settings.ENDPOINTS_POOL_WAIT_SECONDS,
            )
        return _pool


def close_gate_pool() -> None:
    """Close this process's pool; the next statement opens a new one."""
    global _pool
    with _pool_lock:
        if _pool is not None:
            _pool.close()
            _pool = None


def run_statement(statement: Statement, session: ReaderSession, *, max_rows: int) -> Rows:
    """Run one statement that asks for at most `max_rows + 1` rows and return the first `max_rows`.

    Raises StatementFailed, QueryTimeout, Overloaded or DatabaseUnavailable.
    """
    started = perf_counter()
    try:
        columns, rows = _run_once(statement, session)
    except psycopg.OperationalError as error:
        if not _is_unavailable(error):
            raise _failure(error, session) from error
        # A read-only statement may be sent again: the usual cause is a connection that died with a restarted server.
        gate_pool().discard_broken()
        try:
            columns, rows = _run_once(statement, session)
        except psycopg.Error as repeated:
            raise _failure(repeated, session) from repeated
    except psycopg.Error as error:
        raise _failure(error, session) from error
    return Rows(
        columns=columns,
        rows=rows[:max_rows],
        truncated=len(rows) > max_rows,
        database_seconds=perf_counter() - started,
    )


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
        raise _failure(error, session) from error


def first_invalid_regular_expression(candidates: Sequence[str], session: ReaderSession) -> int | None:
    """Return the index of the first text that PostgreSQL does not accept as a regular expression, or None."""
    for index, candidate in enumerate(candidates):
        try:
            run_statement(Statement("SELECT '' ~ ($1::text)", (candidate,)), session, max_rows=1)
        except StatementFailed as failure:
            if failure.sqlstate == "2201B":
                return index
            raise
    return None


def _run_once(statement: Statement, session: ReaderSession) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    with gate_pool().connection() as connection:
        try:
            with connection.pipeline():
                connection.execute("BEGIN READ ONLY")
                connection.execute(*_session_settings(session))
                cursor = connection.execute(statement.sql, statement.arguments)
                connection.execute("ROLLBACK")
            rows = cursor.fetchall()
        except psycopg.Error:
            _roll_back(connection)
            raise
        return tuple(column.name for column in cursor.description or ()), rows


@contextmanager
def _reading(connection: GateConnection, session: ReaderSession) -> Iterator[None]:
    try:
        connection.execute("BEGIN READ ONLY")
        connection.execute(*_session_settings(session))
        yield
    finally:
        _roll_back(connection)


def _roll_back(connection: GateConnection) -> None:
    """End a failed transaction; a connection that can't even do that is closed and so never reused."""
    try:
        if connection.info.transaction_status != TransactionStatus.IDLE:
            connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()


def _session_settings(session: ReaderSession) -> tuple[str, tuple[BoundValue, ...]]:
    """Return the SELECT that arms the transaction; the role comes last, for it may not set the others."""
    timeout = f"{round(session.statement_timeout_seconds * 1000)}ms"
    scope, tenant = ("every_project", "") if session.tenant is None else ("tenant", f"={session.tenant}")
    return (
        "SELECT set_config('statement_timeout', $1, true), set_config('search_path', $2, true),"
        " set_config('logs.scope', $3, true), set_config('logs.tenant', $4, true), set_config('role', $5, true)",
        (timeout, session.search_path, scope, tenant, session.role),
    )


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


def _is_unavailable(error: psycopg.Error) -> bool:
    return error.sqlstate is None or error.sqlstate.startswith(_UNAVAILABLE_CLASSES)


def _failure(error: psycopg.Error, session: ReaderSession) -> Exception:
    if isinstance(error, psycopg.errors.QueryCanceled):
        return QueryTimeout(session.statement_timeout_seconds)
    if isinstance(error, psycopg.OperationalError) and _is_unavailable(error):
        return DatabaseUnavailable()
    return StatementFailed(error)
