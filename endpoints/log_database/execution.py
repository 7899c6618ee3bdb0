"""Statements run as a least-privileged reader in one read-only round trip on a connection of the gate pool.

    BEGIN READ ONLY
    SHOW logs.session                     -- the connection's mark: is it still in its own session?
    SELECT logs_private.log_position(…),  -- if it counts how new the rows are; an error on a standby that is behind
           set_config(…, true)            -- scope, tenant, arguments, limits, search path; the role last
    <statement>                           -- server-side binding, never the simple protocol
    ROLLBACK                              -- undoes anything that the query did to its session

If the state of a connection is in doubt, it is closed. PostgreSQL's own messages stay in `StatementFailed`, for the
log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from time import perf_counter
from typing import Final, TypeVar

import psycopg
import structlog

from config import tracing
from config.deadlines import NoAnswer
from endpoints.errors import DatabaseUnavailable, QueryTimeout
from endpoints.log_database.cancelling import REQUEST_SECONDS
from endpoints.log_database.gate import GateConnection, GatePool, roll_back
from endpoints.log_database.round_trips import (
    FetchBudget,
    Keeping,
    Transaction,
    column_names,
    column_types,
    run_transaction,
)
from endpoints.log_database.servers import log_servers
from endpoints.log_database.sessions import ReaderSession, session_settings_statement, with_trace
from endpoints.results.encoding import UNBOUNDED
from endpoints.results.outcomes import OverBudget, Rows, Statement
from endpoints.results.positions import NO_POSITION, ON_PRIMARY, read_position
from logsources.roles import POSITION_NOT_REPLAYED, SANDBOX_READER
from logsources.session_marks import SharedSession

# A value counts as at least so much against a budget: in JSON few are shorter than `"a":12,`.
BYTES_OF_VALUE: Final = 8
LONGEST_KEPT_QUERY: Final = 2_500  # characters

T = TypeVar("T")
Attempt = Callable[[GatePool], T]

logger = structlog.get_logger(__name__)

_QUOTED = re.compile(r'".*"', re.DOTALL)
_NUMBER = re.compile(r"[-+]?\b[0-9][0-9a-zA-Z.:+-]*")
LOCK_NOT_AVAILABLE: Final = "55P03"  # within lock_timeout: a table is being changed
# SQLSTATE classes and codes that say "the server is not there for us", PostgreSQL appendix A.
_UNAVAILABLE_CLASSES = ("08", "57P", "53300")
# A standby has not replayed what the primary has: the awaited position, the schema of a new version, one of its views.
# Or replay and a statement stood in each other's way (manual, "Handling Query Conflicts"): one of them was cancelled.
_FAILURES_OF_STANDBYS = frozenset((POSITION_NOT_REPLAYED, "3F000", "42P01", "40001", "40P01", LOCK_NOT_AVAILABLE))


class StatementFailed(Exception):
    """PostgreSQL refused or aborted a statement. The text may contain row values: for the log, never for a caller."""

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

    @property
    def message_without_values(self) -> str:
        """PostgreSQL's message without what may be a row's value: quotations and numbers, but names in the SQL."""
        message = self.primary_message
        if self.sqlstate.startswith("P0"):
            message = "a function raised an error"  # in words of its own
        if not self.sqlstate.startswith("42"):
            message = _NUMBER.sub("…", _QUOTED.sub('"…"', message))
        return f"{message} (SQLSTATE {self.sqlstate})"


def run_statement(
    statement: Statement,
    session: ReaderSession,
    *,
    max_rows: int,
    max_bytes: int = UNBOUNDED,
    awaited: int | None = None,
) -> Rows:
    """Run one statement that asks for at most `max_rows + 1` rows and return the first `max_rows`.

    It runs on a standby that has replayed the log up to the awaited position, or else on the primary. With None the
    rows have no position: asking for it takes ten microseconds. Raises StatementFailed, QueryTimeout, Overloaded or
    DatabaseUnavailable, and OverBudget if the encoded rows will certainly have more than `max_bytes`.
    """
    started = perf_counter()
    armed, result, rows = on_some_server(
        lambda pool: run_once(pool, statement, session, max_bytes, awaited=awaited),
        again=lambda pool: run_once(pool, statement, session, max_bytes, awaited=awaited, may_keep=False),
        session=session,
        awaited=awaited,
    )
    return Rows(
        columns=column_names(result),
        rows=rows.first(max_rows),
        truncated=len(rows) > max_rows,
        database_seconds=perf_counter() - started,
        types=column_types(result),
        position=NO_POSITION if awaited is None else read_position(armed.decode()),
    )


def on_some_server(attempt: Attempt[T], *, again: Attempt[T], session: ReaderSession, awaited: int | None = None) -> T:
    """Return what the attempt returns on a standby, or else on the primary. Raises as `on_primary` does."""
    standby = None if awaited == ON_PRIMARY else log_servers().standby()
    if standby is None:
        return on_primary(attempt, again=again, session=session)
    try:
        return attempt(standby)
    except DatabaseUnavailable as error:
        reason = f"{type(error).__name__}: {error}"
    except psycopg.Error as error:
        if not _primary_may_do_better(error):
            raise failure_of(error, session) from error
        reason = f"{error.sqlstate}: {type(error).__name__}"
    logger.info("sent_to_primary", standby=standby.name, reason=reason)
    return on_primary(attempt, again=again, session=session)


def on_primary(attempt: Attempt[T], *, again: Attempt[T], session: ReaderSession) -> T:
    """Return the result of `attempt`, or of `again` if a fresh connection may do better; neither may change anything.

    Raises the exception that `failure_of` makes from an error of psycopg, Overloaded and DatabaseUnavailable.
    """
    servers = log_servers()
    pool = servers.primary()
    try:
        return attempt(pool)
    except psycopg.Error as error:
        successor = servers.successor_of(pool) if error.sqlstate in _FAILURES_OF_STANDBYS else None
        if successor is None and not _may_be_sent_again(error):
            raise failure_of(error, session) from error
    # Usually the connection died with a restarted server, or a log table was altered.
    pool.discard_broken()
    try:
        return again(successor or pool)
    except psycopg.Error as repeated:
        raise failure_of(repeated, session) from repeated


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


def run_once(
    pool: GatePool,
    statement: Statement,
    session: ReaderSession,
    max_bytes: int,
    *,
    awaited: int | None = None,
    may_keep: bool = True,
) -> Transaction:
    """Run a statement on one connection of the pool; it may stay prepared there.

    Raises psycopg.Error, OverBudget, Overloaded and DatabaseUnavailable.
    """
    with lent_connection(pool, session) as connection:
        if pool.least_position:
            awaited = max(awaited or NO_POSITION, pool.least_position)
        arming = session_settings_statement(session, statement.sql, topology=connection.topology, awaited=awaited)
        if trace_id := tracing.trace_id_of_request.get():
            arming = with_trace(arming, trace_id)
        sent = (statement.sql, statement.arguments)
        keep = _keeping(connection, statement, session) if may_keep and connection.topology.keeps_statements else None
        budget = fetch_budget(session, max_bytes)
        try:
            with nullcontext() if tracing.statement is None else tracing.statement(connection):
                return run_transaction(connection, arming, sent, keep=keep, budget=budget)
        except OverBudget:
            with suppress(psycopg.Error):  # without it PostgreSQL would look for more rows, to its timeout
                connection.cancel_safe(timeout=REQUEST_SECONDS)
            connection.close()
            raise
        except psycopg.Error as error:
            roll_back(connection)
            if _is_stale(error):
                connection.close()  # with this statement it would fail again and again
            raise


def fetch_budget(session: ReaderSession, max_bytes: int) -> FetchBudget:
    """Return the limits on arrival for a result that may have so many bytes when encoded."""
    # Encoding seldom makes a text shorter, and never by half; a sandbox query counts its own bytes.
    text_bytes = None if session.role == SANDBOX_READER else 2 * max_bytes
    return FetchBudget(values=max_bytes // BYTES_OF_VALUE, text_bytes=text_bytes)


def lent_connection(pool: GatePool, session: ReaderSession) -> AbstractContextManager[GateConnection]:
    """Lend a connection of the pool for a statement of this session. Raises Overloaded and DatabaseUnavailable."""
    lend = pool.sandbox_connection if session.role == SANDBOX_READER else pool.connection
    return lend(statement_seconds=session.statement_timeout_seconds)


def _keeping(connection: GateConnection, statement: Statement, session: ReaderSession) -> Keeping | None:
    # Other planner settings give another plan, another schema other tables.
    key = (session.planner_settings, session.search_path, statement.sql)
    if session.role != SANDBOX_READER:
        return Keeping(connection.kept_statements, key)
    # The longer a consumer's text, the more tables it can name, and each makes the plan larger.
    return Keeping(connection.kept_queries, key) if len(statement.sql) <= LONGEST_KEPT_QUERY else None


def failure_of(error: psycopg.Error, session: ReaderSession) -> Exception:
    """Return the exception for an error of psycopg: QueryTimeout, DatabaseUnavailable or StatementFailed."""
    if isinstance(error, psycopg.errors.QueryCanceled):
        return QueryTimeout(session.statement_timeout_seconds)
    if isinstance(error, psycopg.OperationalError) and _is_unavailable(error):
        return DatabaseUnavailable(reason=str(error) if isinstance(error, SharedSession) else "")
    # The former primary is a standby now, and there is no other; or a table is locked, because it is being changed.
    if error.sqlstate in (POSITION_NOT_REPLAYED, LOCK_NOT_AVAILABLE):
        return DatabaseUnavailable()
    return StatementFailed(error)


def _may_be_sent_again(error: psycopg.Error) -> bool:
    """Tell whether a read-only statement may succeed on a fresh connection."""
    if isinstance(error, (NoAnswer, SharedSession)):
        return False  # a server that hangs has already used the call's time; a pooler shares every session
    return _is_stale(error) or (isinstance(error, psycopg.OperationalError) and _is_unavailable(error))


def _primary_may_do_better(error: psycopg.Error) -> bool:
    """Tell whether a statement that failed on a standby may succeed on the primary."""
    return error.sqlstate in _FAILURES_OF_STANDBYS or isinstance(error, NoAnswer) or _may_be_sent_again(error)


def _is_stale(error: psycopg.Error) -> bool:
    """Tell whether the statement was prepared before its table was altered."""
    # PostgreSQL has no SQLSTATE of its own for that.
    return error.sqlstate == "0A000" and "cached plan" in str(error)


def _is_unavailable(error: psycopg.Error) -> bool:
    return error.sqlstate is None or error.sqlstate.startswith(_UNAVAILABLE_CLASSES)
