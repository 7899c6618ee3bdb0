"""Run a consumer's own query: checked (wall 1), then as sandbox_reader over the version's views alone (wall 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog
from django.conf import settings

from endpoints.errors import InvalidSQL, SandboxDisabled, StoredQueryFailed
from endpoints.execution import StatementFailed, run_statement
from endpoints.guarantees import sandbox_refusal
from endpoints.models import Endpoint
from endpoints.outcomes import BoundValue, Rows, Statement
from endpoints.publishing import PublishedTable, PublishingError, publish_sandbox, sandbox_schema
from endpoints.services.sessions import (
    INVALID_REGULAR_EXPRESSION,
    refuse_invalid_regular_expression,
    sandbox_session,
)
from endpoints.sql.lexemes import line_and_column
from endpoints.sql.sandbox import CheckedQuery, SandboxLimits, SandboxTable, check_sandbox_query
from endpoints.sql.size_limit import is_over_budget, limit_bytes
from endpoints.sql.sqlstates import INSUFFICIENT_PRIVILEGE, UNDEFINED_TABLE, explain, name_at

logger = structlog.get_logger(__name__)

_MEBIBYTE: Final = 1024 * 1024


def run_sandbox_query(endpoint: Endpoint, sql: str, *, arguments: Mapping[str, BoundValue]) -> Rows:
    """Run a consumer's SQL over the sandbox tables of this version and return its rows, at most max rows.

    Raises SandboxDisabled while the log database does not keep what the sandbox relies on, SandboxViolation,
    RequestTooLarge, InvalidSQL, InvalidParameters, StoredQueryFailed, QueryTimeout, Overloaded or DatabaseUnavailable.
    """
    refusal = sandbox_refusal()
    if refusal is not None:
        raise SandboxDisabled(refusal)
    tables = sandbox_tables(endpoint)
    checked = check_sandbox_query(
        sql,
        tables=[SandboxTable(table.name, tuple(column.name for column in table.columns)) for table in tables],
        parameters=endpoint.parameters_of_version,
        limits=SandboxLimits(bytes=settings.ENDPOINTS_SANDBOX_MAX_SQL_BYTES),
    )
    statement = checked.statement(arguments, max_rows=endpoint.max_rows)
    try:
        return _run(endpoint, statement, arguments)
    except StatementFailed as failure:
        if not _lacks_a_table(failure, checked, sql, tables):
            raise _refusal(failure, checked, sql, endpoint, arguments, tables) from failure
    # A log database that was restored or made anew lacks the schemas of the versions that Django knows.
    _publish(endpoint)
    try:
        return _run(endpoint, statement, arguments)
    except StatementFailed as failure:
        raise _refusal(failure, checked, sql, endpoint, arguments, tables) from failure


def sandbox_tables(endpoint: Endpoint) -> tuple[PublishedTable, ...]:
    """Return the version's sandbox tables; one that has never been published is published now.

    Raises StoredQueryFailed where its CTEs cannot be published, and DatabaseUnavailable.
    """
    if not endpoint.sandbox_tables:
        published = _publish(endpoint)
        endpoint.sandbox_tables = [table.to_json() for table in published]
        version = Endpoint.objects.filter(pk=endpoint.pk, version=endpoint.version)
        version.update(sandbox_tables=endpoint.sandbox_tables)
        return published
    return tuple(PublishedTable.from_json(table) for table in endpoint.sandbox_tables)


def _publish(endpoint: Endpoint) -> tuple[PublishedTable, ...]:
    try:
        tables = publish_sandbox(endpoint)
    except PublishingError as error:
        logger.error("sandbox_not_published", reason=error.message)
        raise StoredQueryFailed from error
    logger.info("sandbox_published", tables=[table.name for table in tables])
    return tables


def _run(endpoint: Endpoint, statement: Statement, arguments: Mapping[str, BoundValue]) -> Rows:
    session = sandbox_session(endpoint, sandbox_schema(endpoint), arguments)
    limited, _ = limit_bytes(statement.sql, max_bytes=settings.ENDPOINTS_SANDBOX_MAX_BYTES)
    rows = run_statement(Statement(limited, statement.arguments), session, max_rows=endpoint.max_rows)
    # The last column is the sentinel of the byte budget.
    return replace(rows, columns=rows.columns[:-1], rows=[row[:-1] for row in rows.rows])


def _offset(failure: StatementFailed, checked: CheckedQuery) -> int | None:
    """Return the offset in the consumer's text that PostgreSQL's error points to."""
    if failure.position is None:
        return None
    _, moved = limit_bytes("", max_bytes=settings.ENDPOINTS_SANDBOX_MAX_BYTES)
    return checked.original_offset(failure.position - 1 - moved)


def _lacks_a_table(failure: StatementFailed, checked: CheckedQuery, sql: str, tables: Sequence[PublishedTable]) -> bool:
    offset = _offset(failure, checked)
    if failure.sqlstate != UNDEFINED_TABLE or offset is None:
        return False
    return name_at(sql, offset).strip('"').lower() in {table.name.lower() for table in tables}


def _refusal(
    failure: StatementFailed,
    checked: CheckedQuery,
    sql: str,
    endpoint: Endpoint,
    arguments: Mapping[str, BoundValue],
    tables: Sequence[PublishedTable],
) -> InvalidSQL:
    """Return what the consumer is told; raises InvalidParameters when an argument of theirs is to blame."""
    if failure.sqlstate == INVALID_REGULAR_EXPRESSION:
        session = sandbox_session(endpoint, sandbox_schema(endpoint), arguments)
        refuse_invalid_regular_expression(endpoint.parameters_of_version, arguments, session)
    log = logger.error if failure.sqlstate == INSUFFICIENT_PRIVILEGE else logger.info
    log("sandbox_query_failed", sqlstate=failure.sqlstate)
    if is_over_budget(failure.sqlstate, failure.primary_message):
        size = f"{settings.ENDPOINTS_SANDBOX_MAX_BYTES / _MEBIBYTE:g} MiB"
        hint = "Select fewer columns or rows."
        return InvalidSQL(f"The result is larger than {size}. {hint}", details=[{"hint": hint}])
    offset = _offset(failure, checked)
    name = name_at(sql, offset) if offset is not None else ""
    columns = (column.name for table in tables for column in table.columns)
    explanation = explain(failure.sqlstate, name=name, known_names=columns)
    if explanation is None:
        logger.warning("sandbox_sqlstate_unknown", sqlstate=failure.sqlstate)
        return InvalidSQL(f"PostgreSQL could not run the query (SQLSTATE {failure.sqlstate}).")
    return _invalid_sql(explanation.message, explanation.hint, sql, offset)


def _invalid_sql(message: str, hint: str, sql: str, offset: int | None) -> InvalidSQL:
    detail: dict[str, object] = {"reason": message}
    place = ""
    if offset is not None:
        detail["line"], detail["column"] = line, column = line_and_column(sql, offset)
        place = f"Line {line}, column {column}: "
    if hint:
        detail["hint"] = hint
    return InvalidSQL(f"{place}{message}{' ' if hint else ''}{hint}", details=[detail])
