"""Prepare a consumer's own SQL or LQL: checked (wall 1), to run as sandbox_reader over the version's views (wall 2)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Final, Generic, TypeVar
from uuid import UUID

import structlog
from django.conf import settings

from config import logs
from endpoints.calling.prepared_queries import (
    INVALID_REGULAR_EXPRESSION,
    PreparedQuery,
    Sandbox,
    is_of_budget,
    offset_in_statement,
    over_budget,
    sandboxed_query,
)
from endpoints.calling.result_notes import field_notes, lql_notes
from endpoints.definition import PublishedTable, Version
from endpoints.dialects import DIALECTS, UsedFields
from endpoints.errors import EndpointError, InvalidLQL, InvalidSQL, RequestTooLarge
from endpoints.log_database.execution import StatementFailed, first_invalid_regular_expression
from endpoints.log_database.sessions import ReaderSession
from endpoints.lql import parse_lql, print_lql
from endpoints.lql.counting import Counting, lower_counting
from endpoints.lql.lowering import LIMITS, LoweredQuery, LQLTable, Stretch, choose_table, lower
from endpoints.lql.refusals import refusal, shortened
from endpoints.lql.rules import ChartColumn, Rules
from endpoints.results.outcomes import BoundValue, TimestampForm
from endpoints.sql.lexemes import line_and_column
from endpoints.sql.sandbox import CheckedQuery, SandboxLimits, SandboxTable, check_sandbox_query
from endpoints.sql.sqlstates import INSUFFICIENT_PRIVILEGE, UNDEFINED_TABLE, explain, name_at

Checked = tuple[CheckedQuery, UsedFields | None]  # the fields that a text in another dialect names


# --- Remembering ------------------------------------------------------------------------------------------------------
# Earlier results, for callers that compute the same again: pure results only, bounded in number and in bytes.
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

_LARGEST_PART: Final = 16  # one value takes at most this part of the room for all of them


class Remembered(Generic[Key, Value]):
    """Results by their inputs, for all threads of a process; when it is full, it forgets everything.

    Unlike functools.lru_cache it takes what need not be part of the key from `make`, counts bytes, and keeps no order:
    a hit is one look-up.
    """

    def __init__(self, capacity: int, *, max_bytes: int) -> None:
        self._capacity = capacity
        self._max_bytes = max_bytes
        self._bytes = 0
        self._values: dict[Key, Value] = {}
        self._lock = threading.Lock()

    def get(self, key: Key, make: Callable[[], Value], *, size: int) -> Value:
        """Return the value of this key, made if it is not known; errors of `make` are raised, not remembered.

        `size` is about how many bytes key and value take; a large value is made again each time.
        """
        try:
            return self._values[key]
        except KeyError:
            value = make()
        if size > self._max_bytes // _LARGEST_PART:
            return value
        with self._lock:
            if len(self._values) >= self._capacity or self._bytes + size > self._max_bytes:
                self._values.clear()
                self._bytes = 0
            if key not in self._values:
                self._bytes += size
            self._values[key] = value
        return value


# --- Sandbox queries --------------------------------------------------------------------------------------------------
logger = structlog.get_logger(__name__)

_CheckKey = tuple[UUID, int, str, tuple[PublishedTable, ...], int]
_remembered: Final[Remembered[_CheckKey, Checked]] = Remembered(capacity=200, max_bytes=16 * 1024 * 1024)
_BYTES_PER_CHARACTER: Final = 24  # of a text with its tokens: 230 KiB for 9 KiB, 340 KiB for a translated 6 KiB


def prepare_sql(endpoint: Version, sql: str, arguments: Mapping[str, BoundValue], sandbox: Sandbox) -> PreparedQuery:
    """Return what runs for a consumer's SQL over these sandbox tables. Raises SandboxViolation or RequestTooLarge."""
    checked, fields = check_query(endpoint, sql, sandbox.tables)

    def offset(failure: StatementFailed) -> int | None:
        return None if failure.position is None else checked.original_offset(offset_in_statement(failure.position))

    def lacks_a_table(failure: StatementFailed) -> bool:
        at = offset(failure)
        if failure.sqlstate != UNDEFINED_TABLE or at is None:
            return False
        return name_at(sql, at).strip('"').lower() in {table.name.lower() for table in sandbox.tables}

    query = sandboxed_query(
        endpoint,
        arguments,
        sandbox,
        language="sql",
        statement=checked.statement(arguments, max_rows=endpoint.max_rows),
        argument_names=checked.parameter_names,
        refusal=lambda failure, _: _refusal_of_sql(failure, sql, offset(failure), sandbox.tables),
        offset=offset,
        lacks_a_table=lacks_a_table,
    )
    if fields is None:
        return query
    notes = partial(field_notes, fields, session=query.session)
    return replace(query, notes=notes, selects_fields=True)


def check_query(endpoint: Version, sql: str, tables: Sequence[PublishedTable]) -> Checked:
    """Return what runs for a consumer's SQL over these tables. Raises SandboxViolation or RequestTooLarge."""
    if not endpoint.version:  # a draft: another one may have the same id
        return _check(endpoint, sql, tables)
    # Dashboards send the same texts again and again; the check depends on nothing else.
    key = (endpoint.pk, endpoint.version, sql, tuple(tables), settings.ENDPOINTS_SANDBOX_MAX_SQL_BYTES)
    return _remembered.get(key, lambda: _check(endpoint, sql, tables), size=_BYTES_PER_CHARACTER * len(sql))


def _check(endpoint: Version, sql: str, tables: Sequence[PublishedTable]) -> Checked:
    limits = SandboxLimits(bytes=settings.ENDPOINTS_SANDBOX_MAX_SQL_BYTES)
    if dialect := DIALECTS.get(endpoint.sandbox_dialect):
        return dialect.check(
            sql,
            tables={table.name: table.columns for table in tables},
            parameters=endpoint.parameters,
            timestamps_as=TimestampForm(endpoint.timestamps_as),
            limits=limits,
        )
    sandbox_tables = [SandboxTable(table.name, tuple(column.name for column in table.columns)) for table in tables]
    return check_sandbox_query(sql, tables=sandbox_tables, parameters=endpoint.parameters, limits=limits), None


def _refusal_of_sql(
    failure: StatementFailed, sql: str, offset: int | None, tables: Sequence[PublishedTable]
) -> EndpointError:
    """Return the error for the consumer."""
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


# --- Lql queries ------------------------------------------------------------------------------------------------------


def read_lql(lql: str) -> Rules:
    """Return the rules of a consumer's text; its canonical form goes into the log line of the call.

    Raises InvalidLQL, and RequestTooLarge if the text is over the limit.
    """
    limit = settings.ENDPOINTS_SANDBOX_MAX_SQL_BYTES
    if len(lql.encode("utf-8", "surrogatepass")) > limit:
        raise RequestTooLarge(f"A sandbox query may have at most {limit} bytes.")
    rules, canonical = _read(lql)
    logs.bind(lql=canonical)
    return rules


@lru_cache(maxsize=256)  # dashboards send the same few texts again and again
def _read(lql: str) -> tuple[Rules, str]:
    rules = parse_lql(lql)
    return rules, print_lql(rules)


def prepare_lql(
    endpoint: Version,
    lql: str,
    arguments: Mapping[str, BoundValue],
    sandbox: Sandbox,
    *,
    stretch: Stretch | None = None,
    counting: Counting | None = None,
) -> PreparedQuery:
    """Return what runs for a consumer's LQL over one of these sandbox tables. Raises InvalidLQL or RequestTooLarge.

    Relative times are those of the moment of this call. With a `stretch` it returns the rows of a tail, with a
    `counting` the counts of the rows that match.
    """
    rules = read_lql(lql)
    lql_tables = [LQLTable(table.name, table.columns) for table in sandbox.tables]
    table = choose_table(rules, lql_tables, default=endpoint.default_sandbox_table)
    now = datetime.now(UTC)
    if counting is None:
        chart_column = ChartColumn(endpoint.lql_chart_column)
        lowered = lower(rules, table, now=now, chart_column=chart_column, stretch=stretch)
    else:
        lowered = lower_counting(rules, table, counting, now=now)
    checked = check_sandbox_query(
        lowered.sql,
        tables=[SandboxTable(table.name, tuple(column.name for column in table.columns)) for table in sandbox.tables],
        parameters=lowered.parameters,
        limits=LIMITS,
    )
    query = sandboxed_query(
        endpoint,
        arguments,
        sandbox,
        language="lql",
        statement=checked.statement(lowered.arguments, max_rows=endpoint.max_rows),
        argument_names=checked.parameter_names,
        refusal=lambda failure, session: _refusal_of_lql(failure, rules, lowered, session),
        offset=lambda failure: None,  # the SQL is the service's own
        lacks_a_table=lambda failure: failure.sqlstate == UNDEFINED_TABLE,
    )
    if stretch is None and counting is None:
        query = replace(query, notes=lambda rows: lql_notes(rules, table, rows, query.session))
    return replace(query, selects_fields=True)


def _refusal_of_lql(
    failure: StatementFailed, rules: Rules, lowered: LoweredQuery, session: ReaderSession
) -> EndpointError:
    """Return the error for the consumer. Only a pattern of their text can fail."""
    if failure.sqlstate == INVALID_REGULAR_EXPRESSION:
        patterns = [pattern for pattern, _ in lowered.regular_expressions]
        index = first_invalid_regular_expression(patterns, session)
        if index is not None:
            pattern, position = lowered.regular_expressions[index]
            reason = f"`{shortened(pattern)}` is not a regular expression that PostgreSQL can read"
            return refusal(rules.text, position, reason, found=pattern)
    log = logger.error if failure.sqlstate == INSUFFICIENT_PRIVILEGE else logger.warning
    log("lql_query_failed", sqlstate=failure.sqlstate)
    if is_of_budget(failure):
        return over_budget("lql")
    return InvalidLQL(f"PostgreSQL could not run the query (SQLSTATE {failure.sqlstate}).")
