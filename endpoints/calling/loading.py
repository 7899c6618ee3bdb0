"""Load rows that a shipper sends: find their log source, store all of them or none, answer once they are on disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import psycopg
import structlog
from django.conf import settings
from psycopg import errors as postgres_errors

from config.deadlines import NoAnswer
from endpoints.access.secrets import Caller
from endpoints.errors import (
    DatabaseUnavailable,
    EndpointError,
    InternalError,
    InvalidRequest,
    InvalidRows,
    LoadNotAllowed,
    LogSourceNotFound,
    Overloaded,
    RequestTooLarge,
)
from endpoints.log_database.execution import StatementFailed
from endpoints.log_database.load_pool import load_pool
from logsources.batches import (
    STATEMENT_TIMEOUT_SECONDS,
    BadRowAt,
    BadRows,
    Batch,
    BatchRefused,
    BatchReport,
    RowReader,
    load_batch,
    read_batch,
)
from logsources.json_batches import TooManyRows, read_rows
from logsources.ndjson import BadJSON
from logsources.otlp.records import BadOTLP
from logsources.rolling import RolledSource
from logsources.services import KNOWN_SOURCES, UnknownSource
from logsources.storing import ProjectMoved

logger = structlog.get_logger(__name__)

# SQLSTATE classes and codes of an unavailable server: lost connections, shutdown, no room, a standby that
# takes no writes (PostgreSQL appendix A).
_UNAVAILABLE = ("08", "53", "57P", "58", "25006")
# Sent again at once, on the same server: the other transaction is over by then.
_LOST_RACES = (postgres_errors.DeadlockDetected, postgres_errors.SerializationFailure)
# The table was dropped, or created again with another shape, since the registry was read.
_CHANGED_TABLE = (
    postgres_errors.UndefinedTable,
    postgres_errors.UndefinedColumn,
    ProjectMoved,
)


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """Where rows are sent: one of our log sources by its own name or UUID, or by what the producer calls it."""

    source: str = ""
    producer_name: str = ""


@dataclass(frozen=True, slots=True)
class Load:
    """A body of rows; `reader` knows its form, `sending` distinguishes equal bodies that should both be stored.

    `receive` reads the body and returns what makes rows of it, which takes many times its memory: each is called when
    it is its turn. Both may raise an EndpointError. `default_project` is the caller's, for rows that name none; without
    it the log source's counts.
    """

    target: LoadTarget
    receive: Callable[[], Callable[[], bytes]]
    default_project: str = ""
    sending: str = ""
    skip_bad_rows: bool = False
    reader: RowReader = read_rows


@dataclass(frozen=True, slots=True)
class LoadedRows:
    """The result of a load whose rows are on disk, and visible to calls on the primary.

    `without_timestamp` of the loaded rows have the time of their arrival; in `with_replacements` of the sent ones
    U+FFFD stands for what text cannot hold.
    """

    source: str
    loaded: int
    already_there: int
    bad_rows: int = 0
    listed_bad_rows: tuple[BadRowAt, ...] = ()
    without_timestamp: int = 0
    with_replacements: int = 0


def check_load(target: LoadTarget, *, caller: Caller) -> LoadTarget:
    """Check that a load may be sent there, before its body is read, and return the log source by its own name.

    A load that names no source goes to the one that the caller may load into, if there is exactly one.
    Raises LoadNotAllowed, InvalidRequest, LogSourceNotFound, and django.db.Error if nothing is known about the log
    sources.
    """
    if not caller.may_load:
        raise LoadNotAllowed
    if target == LoadTarget() and len(caller.load_sources) == 1:
        target = LoadTarget(source=next(iter(caller.load_sources)))
    if bool(target.source) == bool(target.producer_name):
        raise InvalidRequest(
            "Name the log source with `source`, or with `source_name` as its producer calls it, not both."
        )
    try:
        name = _find_source(target).shape.name
    except LogSourceNotFound:
        if not caller.load_sources:
            raise
        name = ""  # a limited caller learns nothing of other log sources
    if caller.load_sources and name not in caller.load_sources:
        raise LoadNotAllowed("This access token may not load rows into this log source.")
    return LoadTarget(source=name)


def load_sent_rows(load: Load) -> LoadedRows:
    """Store the rows and return the result once they are committed to disk; call `check_load` before.

    Raises InvalidRequest for a body that cannot be read, RequestTooLarge, InvalidRows, LogSourceNotFound, Overloaded
    and DatabaseUnavailable: nothing is stored then, as far as anybody knows. Sending it again never doubles a row.
    """
    pool = load_pool()
    with pool.place():
        expand = load.receive()
        with pool.turn():
            source, report = _store_body(load, expand())
    return LoadedRows(
        source.shape.name,
        report.loaded,
        report.already_there,
        report.bad_rows.count,
        report.bad_rows.listed,
        report.without_timestamp,
        report.with_replacements,
    )


def _store_body(load: Load, body: bytes) -> tuple[RolledSource, BatchReport]:
    source = _find_source(load.target)
    try:
        return source, _store(source, _read(load, body, source), skip_bad_rows=load.skip_bad_rows)
    except _TableChanged:
        KNOWN_SOURCES.forget()
    source = _find_source(load.target)
    return source, _store(source, _read(load, body, source), skip_bad_rows=load.skip_bad_rows)


def _find_source(target: LoadTarget) -> RolledSource:
    try:
        if target.source:
            return KNOWN_SOURCES.named(target.source)
        return KNOWN_SOURCES.of_producer(target.producer_name)
    except UnknownSource as error:
        raise LogSourceNotFound from error


def _read(load: Load, body: bytes, source: RolledSource) -> Batch:
    now, max_rows = datetime.now(UTC), settings.ENDPOINTS_MAX_LOAD_ROWS
    try:
        return read_batch(
            body,
            project_path=source.shape.project_path,
            now=now,
            default_project=load.default_project or source.default_project,
            sending=load.sending,
            max_rows=max_rows,
            max_row_bytes=settings.ENDPOINTS_MAX_ROW_BYTES,
            reader=load.reader,
        )
    except TooManyRows as fault:
        raise RequestTooLarge(f"A load may have at most {fault.limit} {fault.what}; send several loads.") from None
    except (BadJSON, BadOTLP) as fault:
        raise InvalidRequest(f"The rows cannot be read: {fault.reason}.") from None


class _TableChanged(Exception):
    """The log table is not what the registry said it was a moment ago."""


def _store(source: RolledSource, batch: Batch, *, skip_bad_rows: bool) -> BatchReport:
    try:
        return _on_living_connection(source, batch, skip_bad_rows=skip_bad_rows)
    except BatchRefused as refused:
        raise _invalid_rows(refused.bad_rows, rows=refused.rows) from None
    except _CHANGED_TABLE as error:
        raise _TableChanged from error
    except psycopg.Error as error:
        raise _failure_of(error) from error


def _on_living_connection(source: RolledSource, batch: Batch, *, skip_bad_rows: bool) -> BatchReport:
    """Store a batch, with a second attempt if a connection died or a race was lost: rows are never doubled."""

    def attempt() -> BatchReport:
        with load_pool().connection(statement_seconds=STATEMENT_TIMEOUT_SECONDS) as conn:
            return load_batch(conn, source, batch, skip_bad_rows=skip_bad_rows, topology=conn.topology)

    try:
        return attempt()
    except _LOST_RACES:
        return attempt()
    except psycopg.OperationalError as error:
        # A server that hangs has had the load's time already.
        if isinstance(error, NoAnswer) or not _is_unavailable(error):
            raise
    load_pool().discard_broken()
    return attempt()


def _invalid_rows(bad_rows: BadRows, *, rows: int) -> InvalidRows:
    listed = "" if bad_rows.count == len(bad_rows.listed) else f"; the first {len(bad_rows.listed)} are in details"
    return InvalidRows(
        f"{bad_rows.count} of {rows} rows cannot be stored, so none was stored{listed}.",
        details=[{"index": bad_row.index, "reason": bad_row.reason} for bad_row in bad_rows.listed],
    )


def _failure_of(error: psycopg.Error) -> EndpointError:
    if isinstance(error, (postgres_errors.LockNotAvailable, postgres_errors.QueryCanceled, *_LOST_RACES)):
        return Overloaded()
    if _is_unavailable(error):
        return DatabaseUnavailable()
    # Without the exception itself: PostgreSQL quotes values of rows in it.
    logger.error("load_failed", reason=str(StatementFailed(error)))
    return InternalError()


def _is_unavailable(error: psycopg.Error) -> bool:
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate.startswith(_UNAVAILABLE)
