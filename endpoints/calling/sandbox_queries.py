"""Prepare a consumer's own SQL: checked (wall 1), to run as sandbox_reader over the version's views (wall 2)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from uuid import UUID

import structlog
from django.conf import settings

from endpoints.calling.prepared_queries import (
    PreparedQuery,
    Sandbox,
    is_of_budget,
    offset_in_statement,
    over_budget,
    sandboxed_query,
)
from endpoints.calling.remembering import Remembered
from endpoints.definition import PublishedTable, Version
from endpoints.errors import EndpointError, InvalidSQL
from endpoints.log_database.execution import StatementFailed
from endpoints.results.outcomes import BoundValue, SandboxDialect
from endpoints.sql.lexemes import line_and_column
from endpoints.sql.sandbox import CheckedQuery, SandboxLimits, SandboxTable, check_sandbox_query
from endpoints.sql.sqlstates import INSUFFICIENT_PRIVILEGE, UNDEFINED_TABLE, explain, name_at

if TYPE_CHECKING:
    from endpoints.dialects.bigquery import CheckedTranslation

    Checked = CheckedQuery | CheckedTranslation

logger = structlog.get_logger(__name__)

_CheckKey = tuple[UUID, int, str, tuple[PublishedTable, ...], int]
_remembered: Final[Remembered[_CheckKey, Checked]] = Remembered(capacity=200, max_bytes=16 * 1024 * 1024)
_BYTES_PER_CHARACTER: Final = 24  # of a text with its tokens: 230 KiB for 9 KiB, 340 KiB for a translated 6 KiB


def prepare_sql(endpoint: Version, sql: str, arguments: Mapping[str, BoundValue], sandbox: Sandbox) -> PreparedQuery:
    """Return what runs for a consumer's SQL over these sandbox tables. Raises SandboxViolation or RequestTooLarge."""
    checked = check_query(endpoint, sql, sandbox.tables)

    def offset(failure: StatementFailed) -> int | None:
        return None if failure.position is None else checked.original_offset(offset_in_statement(failure.position))

    def lacks_a_table(failure: StatementFailed) -> bool:
        at = offset(failure)
        if failure.sqlstate != UNDEFINED_TABLE or at is None:
            return False
        return name_at(sql, at).strip('"').lower() in {table.name.lower() for table in sandbox.tables}

    return sandboxed_query(
        endpoint,
        arguments,
        sandbox,
        language="sql",
        statement=checked.statement(arguments, max_rows=endpoint.max_rows),
        argument_names=checked.parameter_names,
        refusal=lambda failure, _: _refusal(failure, sql, offset(failure), sandbox.tables),
        offset=offset,
        lacks_a_table=lacks_a_table,
    )


def check_query(endpoint: Version, sql: str, tables: Sequence[PublishedTable]) -> Checked:
    """Return what runs for a consumer's SQL over these tables. Raises SandboxViolation or RequestTooLarge."""
    if not endpoint.version:  # a draft: another one may have the same id
        return _check(endpoint, sql, tables)
    # Dashboards send the same texts again and again; the check depends on nothing else.
    key = (endpoint.pk, endpoint.version, sql, tuple(tables), settings.ENDPOINTS_SANDBOX_MAX_SQL_BYTES)
    return _remembered.get(key, lambda: _check(endpoint, sql, tables), size=_BYTES_PER_CHARACTER * len(sql))


def _check(endpoint: Version, sql: str, tables: Sequence[PublishedTable]) -> Checked:
    limits = SandboxLimits(bytes=settings.ENDPOINTS_SANDBOX_MAX_SQL_BYTES)
    if endpoint.sandbox_dialect == SandboxDialect.BIGQUERY:
        # A quarter of a second and 20 MB, for what most installations never use.
        from endpoints.dialects.bigquery import TranslationBug, check_bigquery, log_table

        # Each unnest is an item of FROM, and a query over several log tables has dozens of them.
        limits = replace(limits, from_items=64, from_items_per_select=24)
        log_tables = [log_table(table.name, table.columns) for table in tables]
        try:
            return check_bigquery(sql, tables=log_tables, parameters=endpoint.parameters, limits=limits)
        except TranslationBug as bug:
            # The fingerprint tells whether two reports are about the same text, which itself is not for the log.
            fingerprint = hashlib.sha256(sql.encode("utf-8", "surrogatepass")).hexdigest()[:16]
            logger.error("bigquery_translation_failed", cause=bug.cause, place=bug.place, fingerprint=fingerprint)
            raise
    return check_sandbox_query(
        sql,
        tables=[SandboxTable(table.name, tuple(column.name for column in table.columns)) for table in tables],
        parameters=endpoint.parameters,
        limits=limits,
    )


def _refusal(failure: StatementFailed, sql: str, offset: int | None, tables: Sequence[PublishedTable]) -> EndpointError:
    """Return what the consumer is told."""
    log = logger.error if failure.sqlstate == INSUFFICIENT_PRIVILEGE else logger.info
    log("sandbox_query_failed", sqlstate=failure.sqlstate)
    if is_of_budget(failure):
        return over_budget("sql")
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
