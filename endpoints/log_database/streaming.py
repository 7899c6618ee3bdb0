"""Rows of any number, given on while they arrive: each stream has a connection that is opened and closed for it.

It runs as every other statement does (`execution`): the same read-only transaction, armed with the same role, tenant
and limits. Only the current chunk is in memory. PostgreSQL stops by itself while nobody takes more rows (flow control
of the socket), so its statement timeout also counts the time of a slow reader; what the stream waits for PostgreSQL has
a budget of its own.

Few streams run at once. They take no connection and no turn of ordinary calls.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, Final

import psycopg
from django.conf import settings
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.waiting import Ready, Wait

from endpoints.errors import Overloaded, QueryTimeout
from endpoints.log_database.execution import failure_of, on_some_server
from endpoints.log_database.gate import GateConnection, GatePool
from endpoints.log_database.round_trips import RoundTrip, column_names, column_types, load_rows, send_queued
from endpoints.log_database.sessions import ReaderSession, session_settings_statement
from endpoints.results.encoding import CHUNK_ROWS
from endpoints.results.outcomes import ColumnType, Statement
from endpoints.results.positions import NO_POSITION

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

CANCEL_SECONDS: Final = 2.0
RETRY_AFTER_SECONDS: Final = 5
_MARK, _STATEMENT = 1, 3  # their places: BEGIN comes first, the arming between them

Chunk = list[tuple[Any, ...]]

# --- Places -----------------------------------------------------------------------------------------------------------
_lock = threading.Lock()
_running = 0


@contextmanager
def stream_place() -> Iterator[None]:
    """Count a stream of this process. Raises Overloaded at once if there are ENDPOINTS_STREAMS of them."""
    global _running
    with _lock:
        if _running >= settings.ENDPOINTS_STREAMS:
            message = f"As many streams as may run at once are running. Try again in {RETRY_AFTER_SECONDS} s."
            raise Overloaded(message, retry_after_seconds=RETRY_AFTER_SECONDS)
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1


# --- Rows -------------------------------------------------------------------------------------------------------------
class ArrivingRows:
    """The rows of one statement, a chunk at a time; used by one thread at a time, and closed at the end.

    All waits for PostgreSQL together may take `wait_seconds`, and all rows must be there within the statement timeout
    of the session.
    """

    def __init__(self, connection: GateConnection, session: ReaderSession, *, wait_seconds: float) -> None:
        self._connection = connection
        self._session = session
        self._wait_seconds = wait_seconds
        self._waits_left = wait_seconds
        self._ends_at = monotonic() + session.statement_timeout_seconds
        self._next: PGresult | None = None
        self.columns: tuple[str, ...] = ()
        self.types: Sequence[ColumnType] = ()
        self.database_seconds = 0.0  # until the first rows

    def begin(self, arming: tuple[str, tuple[bytes, ...]], statement: Statement) -> None:
        """Send the transaction and wait for its first rows. Raises psycopg.Error and QueryTimeout."""
        started = perf_counter()
        trip = RoundTrip(self._connection)
        trip.send(*arming, keep=None)
        trip.send(statement.sql, statement.arguments, keep=None)
        trip.send_plain(b"ROLLBACK")
        self._connection.pgconn.pipeline_sync()
        first = self._wait_for(_first_result(self._connection, self._deadline()))
        self.columns = column_names(first)
        self.types = column_types(first)
        self._next = first
        self.database_seconds = perf_counter() - started

    def __iter__(self) -> ArrivingRows:
        return self

    def __next__(self) -> Chunk:
        """Return the next chunk. Raises StatementFailed, QueryTimeout and DatabaseUnavailable."""
        result, self._next = self._next, None
        try:
            result = result or self._wait_for(_next_result(self._connection.pgconn, self._deadline()))
            if result.status == ExecStatus.TUPLES_CHUNK:
                return load_rows(result)
            if result.status != ExecStatus.TUPLES_OK:  # a stream must never end unless PostgreSQL has said so
                raise psycopg.OperationalError("the rows have no end")
        except psycopg.Error as error:
            raise failure_of(error, self._session) from error
        self._next = result
        raise StopIteration

    def close(self) -> None:
        """End the statement, also in PostgreSQL, and the connection; never raises."""
        if not self._connection.closed:
            with suppress(psycopg.Error):
                if self._connection.info.transaction_status == TransactionStatus.ACTIVE:
                    # A statement that sends no rows at the moment would not notice that nobody wants them.
                    self._connection.cancel_safe(timeout=CANCEL_SECONDS)
            self._connection.close()

    def _deadline(self) -> float:
        return min(monotonic() + self._waits_left, self._ends_at)

    def _wait_for(self, result: Generator[Wait, Ready, PGresult]) -> PGresult:
        began = monotonic()
        try:
            return self._connection.wait(result)
        except _OutOfTime:
            is_over = monotonic() >= self._ends_at
            raise QueryTimeout(self._session.statement_timeout_seconds if is_over else self._wait_seconds) from None
        finally:
            self._waits_left -= monotonic() - began


def open_rows(
    statement: Statement, session: ReaderSession, *, wait_seconds: float, awaited: int | None = None
) -> ArrivingRows:
    """Run one statement and return its rows as they arrive, once the first ones have; the caller closes them.

    Which server runs it, and `awaited`, are as for `run_statement`. Raises StatementFailed, QueryTimeout,
    DatabaseUnavailable, and CallEnded if nobody wants the result of this thread's call any more.
    """

    def attempt(pool: GatePool) -> ArrivingRows:
        return _open_on(pool, statement, session, wait_seconds, awaited)

    return on_some_server(attempt, again=attempt, session=session, awaited=awaited)


def _open_on(
    pool: GatePool, statement: Statement, session: ReaderSession, wait_seconds: float, awaited: int | None
) -> ArrivingRows:
    if pool.least_position:
        awaited = max(awaited or NO_POSITION, pool.least_position)
    connection = pool.connect_apart(statement_seconds=session.statement_timeout_seconds)
    rows = ArrivingRows(connection, session, wait_seconds=wait_seconds)
    try:
        topology = connection.topology
        rows.begin(session_settings_statement(session, statement.sql, topology=topology, awaited=awaited), statement)
    except BaseException as error:
        reason = connection.take_reason() if isinstance(error, psycopg.errors.QueryCanceled) else None
        rows.close()
        if reason is not None:
            raise reason from error
        raise
    return rows


class _OutOfTime(Exception):
    """PostgreSQL sent nothing until the deadline."""


def _first_result(connection: GateConnection, deadline: float) -> Generator[Wait, Ready, PGresult]:
    """Return the first chunk of the statement, or its end if it has no rows; for `Connection.wait`."""
    yield from send_queued(connection.pgconn)
    finished = 0
    while True:
        result = yield from _any_result(connection.pgconn, deadline)
        if result is None:  # between two commands
            finished += 1
            if finished == _STATEMENT:
                connection.pgconn.set_chunked_rows_mode(CHUNK_ROWS)
        elif finished == _STATEMENT:
            return _unless_failed(result)
        elif finished == _MARK:
            connection.require_own_session(result)
        else:
            _unless_failed(result)


def _next_result(pgconn: PGconn, deadline: float) -> Generator[Wait, Ready, PGresult]:
    result = yield from _any_result(pgconn, deadline)
    if result is None:
        raise psycopg.OperationalError("the rows have no end")
    return _unless_failed(result)


def _any_result(pgconn: PGconn, deadline: float) -> Generator[Wait, Ready, PGresult | None]:
    while pgconn.is_busy():
        while not (yield Wait.R):
            if monotonic() >= deadline:
                raise _OutOfTime
        pgconn.consume_input()
    return pgconn.get_result()


def _unless_failed(result: PGresult) -> PGresult:
    if result.status == ExecStatus.FATAL_ERROR:
        raise psycopg.errors.error_from_result(result)
    return result
