"""Run a request on the log database and encode the rows: the work that the cache saves."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Final, TypeVar

import structlog

from config.deadlines import answer_within
from endpoints.access.change_marker import changing
from endpoints.cache import QueryRequest
from endpoints.calling.consumer_queries import prepare_lql, prepare_sql
from endpoints.calling.pages import awaited_by_page, finished_page, place_of, prepare_page
from endpoints.calling.prepared_queries import (
    PreparedQuery,
    Sandbox,
    max_result_bytes,
    over_budget,
    prepare_stored_query,
)
from endpoints.definition import PublishedTable, Version
from endpoints.errors import EndpointError, SandboxDisabled, StoredQueryFailed
from endpoints.guarantees import sandbox_refusal
from endpoints.log_database.execution import StatementFailed
from endpoints.log_database.publishing import PublishingError, publish_sandbox, sandbox_schema
from endpoints.models import Endpoint
from endpoints.results.encoding import encode_rows
from endpoints.results.outcomes import Outcome, OverBudget, Rows, TimestampForm
from endpoints.results.positions import ON_PRIMARY
from endpoints.sql.page_queries import own_limit

# --- Sandboxes --------------------------------------------------------------------------------------------------------
# The sandbox of a version: the schema with its tables, published at its first use, if the guarantees hold.
logger = structlog.get_logger(__name__)

PUBLISHED_WITHIN_SECONDS: Final = 10.0  # a call waits for it, and it may wait for locks


def refuse_unguarded_sandbox() -> None:
    """Raise SandboxDisabled while the log database does not keep the guarantees of the sandbox."""
    refusal = sandbox_refusal()
    if refusal is not None:
        raise SandboxDisabled(refusal)


def sandbox_of(endpoint: Version) -> Sandbox:
    """Return the version's sandbox; one that has never been published is published now.

    Raises StoredQueryFailed if its CTEs cannot be published, and DatabaseUnavailable.
    """
    return Sandbox(sandbox_schema(endpoint), _tables(endpoint))


def publish(endpoint: Version) -> tuple[PublishedTable, ...]:
    """Create the schema of this version, which a restored or new log database does not have."""
    try:
        with answer_within(PUBLISHED_WITHIN_SECONDS):
            tables = publish_sandbox(endpoint)
    except PublishingError as error:
        logger.error("sandbox_not_published", reason=error.message)
        raise StoredQueryFailed from error
    logger.info("sandbox_published", tables=[table.name for table in tables])
    return tables


def _tables(endpoint: Version) -> tuple[PublishedTable, ...]:
    if endpoint.sandbox_tables:
        return endpoint.sandbox_tables
    published = publish(endpoint)
    row = Endpoint.objects.filter(pk=endpoint.pk, version=endpoint.version)
    with changing():  # the next call of every process reads the row again
        row.update(sandbox_tables=[table.to_json() for table in published])
    return published


# --- Producing --------------------------------------------------------------------------------------------------------
T = TypeVar("T")
# How a prepared query is run: with the position of the log that it awaits. Raises StatementFailed.
Run = Callable[[PreparedQuery, "int | None"], T]


def produce(endpoint: Version, request: QueryRequest, *, on_primary: bool = False) -> Outcome:
    """Run the request over this version of the endpoint and return its encoded result. Raises an EndpointError."""
    awaited = ON_PRIMARY if on_primary else None
    try:
        if request.page is None:
            query, rows = run_request(endpoint, request, PreparedQuery.run, awaited)
        else:
            query, rows = _run_page(endpoint, request, awaited)
        notes = query.notes(rows)
        started = perf_counter()
        body = encode_rows(
            rows,
            request.format,
            redact=request.redact,
            timestamps_as=TimestampForm(endpoint.timestamps_as),
            max_bytes=max_result_bytes(request.sandbox_language),
        )
    except OverBudget as error:
        raise over_budget(request.sandbox_language) from error
    return Outcome(
        body=body,
        format=request.format,
        row_count=len(rows.rows),
        truncated=rows.truncated,
        database_seconds=rows.database_seconds,
        encoding_seconds=perf_counter() - started,
        notes=notes,
        next_page=rows.next_page or "",
        at_own_limit=not rows.truncated and _is_at_own_limit(endpoint, request, len(rows.rows)),
    )


def _is_at_own_limit(endpoint: Version, request: QueryRequest, row_count: int) -> bool:
    """Tell whether the stored query stopped at its own LIMIT, as far as its text says; a page has a next one instead.

    To know whether there are more rows, the query would have to run again.
    """
    if not row_count or request.sandbox_language or request.page is not None:
        return False
    limit = own_limit(endpoint.sql)
    if isinstance(limit, str):
        sent = request.arguments.get(limit)
        limit = int(sent) if isinstance(sent, str) and sent.isdecimal() else None
    return limit is not None and row_count >= limit


def prepare_consumers_query(endpoint: Version, request: QueryRequest, sandbox: Sandbox) -> PreparedQuery:
    """Return what runs for a consumer's own `sql` or `lql`. Raises SandboxViolation, InvalidLQL or RequestTooLarge."""
    prepare = prepare_sql if request.sandbox_language == "sql" else prepare_lql
    return prepare(endpoint, request.sandbox_text, request.arguments, sandbox)


def run_request(endpoint: Version, request: QueryRequest, run: Run[T], awaited: int | None) -> tuple[PreparedQuery, T]:
    """Prepare what the request asks for and run it; return both. Raises an EndpointError."""
    if request.sandbox_language:
        refuse_unguarded_sandbox()
        query = prepare_consumers_query(endpoint, request, sandbox_of(endpoint))
    else:
        query = prepare_stored_query(endpoint, request.arguments)
    return query, _run_prepared(endpoint, query, run, awaited)


def _run_page(endpoint: Version, request: QueryRequest, awaited: int | None) -> tuple[PreparedQuery, Rows]:
    place = place_of(endpoint, request)
    query = prepare_page(endpoint, request, place)
    rows = _run_prepared(endpoint, query, PreparedQuery.run, awaited_by_page(place, awaited))
    return query, finished_page(endpoint, request, place, rows)


def _run_prepared(endpoint: Version, query: PreparedQuery, run: Run[T], awaited: int | None) -> T:
    try:
        return _run_where_published(endpoint, query, run, awaited)
    except StatementFailed as failure:
        raise refusal_of(query, failure) from failure


def refusal_of(query: PreparedQuery, failure: StatementFailed) -> EndpointError:
    """Return what the caller gets for a failure; that of a stored query is logged for its operator.

    Raises InvalidParameters if an argument is at fault.
    """
    refusal = query.refusal(failure)
    if not query.language:
        logger.error("stored_query_failed", sqlstate=failure.sqlstate, reason=failure.loggable_message)
    return refusal


def run_sandboxed(endpoint: Version, prepare: Callable[[Sandbox], PreparedQuery]) -> Rows:
    """Run what is prepared over the sandbox of this version. Raises an EndpointError, and OverBudget."""
    refuse_unguarded_sandbox()
    return _run_prepared(endpoint, prepare(sandbox_of(endpoint)), PreparedQuery.run, None)


def _run_where_published(endpoint: Version, query: PreparedQuery, run: Run[T], awaited: int | None) -> T:
    try:
        return run(query, awaited)
    except StatementFailed as failure:
        if not query.lacks_a_table(failure):
            raise
    # The log database was restored or created again, without the schemas of the versions that Django knows.
    publish(endpoint)
    return run(query, awaited)
