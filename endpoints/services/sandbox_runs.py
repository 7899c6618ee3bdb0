"""Run what came through the sandbox's checker: as sandbox_reader over the version's views, under a byte budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import structlog
from django.conf import settings

from config.deadlines import answer_within
from endpoints.definition import PublishedTable, Version
from endpoints.errors import (
    EndpointError,
    InvalidLQL,
    InvalidSQL,
    ResultTooLarge,
    SandboxDisabled,
    StoredQueryFailed,
)
from endpoints.execution import StatementFailed, run_statement
from endpoints.generation import changing
from endpoints.guarantees import sandbox_refusal
from endpoints.models import Endpoint
from endpoints.outcomes import BoundValue, Rows, Statement
from endpoints.publishing import PublishingError, publish_sandbox, sandbox_schema
from endpoints.services.sessions import sandbox_session
from endpoints.sql.size_limit import is_over_budget, limit_bytes

logger = structlog.get_logger(__name__)

PUBLISHED_WITHIN_SECONDS: Final = 10.0  # a call waits for it, and it may wait for locks
_MEBIBYTE: Final = 1024 * 1024
_OVER_BUDGET: Final[Mapping[str, type[EndpointError]]] = {"": ResultTooLarge, "sql": InvalidSQL, "lql": InvalidLQL}


def refuse_unguarded_sandbox() -> None:
    """Raise SandboxDisabled while the log database does not keep what the sandbox relies on."""
    refusal = sandbox_refusal()
    if refusal is not None:
        raise SandboxDisabled(refusal)


def sandbox_tables(endpoint: Version) -> tuple[PublishedTable, ...]:
    """Return the version's sandbox tables; one that has never been published is published now.

    Raises StoredQueryFailed where its CTEs cannot be published, and DatabaseUnavailable.
    """
    if endpoint.sandbox_tables:
        return endpoint.sandbox_tables
    published = _publish(endpoint)
    row = Endpoint.objects.filter(pk=endpoint.pk, version=endpoint.version)
    with changing():  # the next call of every process reads the row anew
        row.update(sandbox_tables=[table.to_json() for table in published])
    return published


def run_published(
    endpoint: Version,
    statement: Statement,
    arguments: Mapping[str, BoundValue],
    *,
    lacks_a_table: Callable[[StatementFailed], bool],
) -> Rows:
    """Run a checked statement over the views of this version, which read the call's `arguments` themselves.

    A failure for which `lacks_a_table` is true is a log database that was restored or made anew, without the schemas
    of the versions that Django knows: the schema is made and the statement sent once more.

    Raises StatementFailed, StoredQueryFailed, QueryTimeout, Overloaded or DatabaseUnavailable.
    """
    try:
        return _run(endpoint, statement, arguments)
    except StatementFailed as failure:
        if not lacks_a_table(failure):
            raise
    _publish(endpoint)
    return _run(endpoint, statement, arguments)


def within_budget(statement: Statement) -> Statement:
    """Return the statement under the byte budget; its last column is the budget's own."""
    limited, _ = limit_bytes(statement.sql, max_bytes=settings.ENDPOINTS_SANDBOX_MAX_BYTES)
    return Statement(limited, statement.arguments)


def without_budget_column(rows: Rows) -> Rows:
    """Return what a statement under the byte budget returned as the consumer asked for it."""
    return replace(rows, columns=rows.columns[:-1])


def offset_in_statement(position: int) -> int:
    """Return the 0-based offset in the statement that a position which PostgreSQL tells (1-based) stands for."""
    _, moved = limit_bytes("", max_bytes=settings.ENDPOINTS_SANDBOX_MAX_BYTES)
    return position - 1 - moved


def max_result_bytes(language: str) -> int:
    """Return the budget of an encoded result: of a sandbox query in `sql` or `lql`, or of the stored one ("")."""
    limit: int = settings.ENDPOINTS_SANDBOX_MAX_BYTES if language else settings.ENDPOINTS_MAX_RESULT_BYTES
    return limit


def over_budget(language: str) -> EndpointError:
    """Return what the caller is told of a result over its budget, whoever found that it is."""
    error = _OVER_BUDGET[language]
    hint = "Select fewer columns or rows." if language else "Ask for fewer rows, such as those of a shorter time."
    reason = f"The result is larger than {max_result_bytes(language) / _MEBIBYTE:g} MiB."
    return error(f"{reason} {hint}", details=[{"hint": hint}])


def is_of_budget(failure: StatementFailed) -> bool:
    """Tell whether a statement failed because its result is over the byte budget."""
    return is_over_budget(failure.sqlstate, failure.primary_message)


def _publish(endpoint: Version) -> tuple[PublishedTable, ...]:
    try:
        with answer_within(PUBLISHED_WITHIN_SECONDS):
            tables = publish_sandbox(endpoint)
    except PublishingError as error:
        logger.error("sandbox_not_published", reason=error.message)
        raise StoredQueryFailed from error
    logger.info("sandbox_published", tables=[table.name for table in tables])
    return tables


def _run(endpoint: Version, statement: Statement, arguments: Mapping[str, BoundValue]) -> Rows:
    session = sandbox_session(endpoint, sandbox_schema(endpoint), arguments)
    max_bytes = settings.ENDPOINTS_SANDBOX_MAX_BYTES
    rows = run_statement(within_budget(statement), session, max_rows=endpoint.max_rows, max_bytes=max_bytes)
    return without_budget_column(rows)
