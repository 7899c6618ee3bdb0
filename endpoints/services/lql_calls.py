"""Run a consumer's LQL: read into rules, lowered to SQL over one sandbox table, and from there on a sandbox query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache

import structlog
from django.conf import settings

from endpoints.definition import PublishedTable, Version
from endpoints.errors import EndpointError, InvalidLQL, RequestTooLarge
from endpoints.execution import StatementFailed, first_invalid_regular_expression
from endpoints.lql import parse_lql, print_lql
from endpoints.lql.lowering import LoweredQuery, LQLTable, choose_table, lower
from endpoints.lql.refusals import refusal, shortened
from endpoints.lql.rules import Rules
from endpoints.outcomes import BoundValue, Rows
from endpoints.publishing import sandbox_schema
from endpoints.services.sandbox_runs import (
    is_of_budget,
    over_budget,
    refuse_unguarded_sandbox,
    run_published,
    sandbox_tables,
)
from endpoints.services.sessions import (
    INVALID_REGULAR_EXPRESSION,
    refuse_invalid_regular_expression,
    sandbox_session,
)
from endpoints.sql.sandbox import CheckedQuery, SandboxTable, check_sandbox_query
from endpoints.sql.sqlstates import INSUFFICIENT_PRIVILEGE, UNDEFINED_TABLE

logger = structlog.get_logger(__name__)


def read_lql(lql: str) -> Rules:
    """Return the rules of a consumer's text; its canonical form goes into the log line of the call.

    Raises InvalidLQL, and RequestTooLarge where the text is over the limit.
    """
    limit = settings.ENDPOINTS_SANDBOX_MAX_SQL_BYTES
    if len(lql.encode("utf-8", "surrogatepass")) > limit:
        raise RequestTooLarge(f"A sandbox query has at most {limit} bytes.")
    rules, canonical = _read(lql)
    structlog.contextvars.bind_contextvars(lql=canonical)
    return rules


@lru_cache(maxsize=256)  # dashboards send the same few texts again and again
def _read(lql: str) -> tuple[Rules, str]:
    rules = parse_lql(lql)
    return rules, print_lql(rules)


def run_lql_query(endpoint: Version, rules: Rules, *, arguments: Mapping[str, BoundValue]) -> Rows:
    """Run a query over one sandbox table of this version and return its rows, at most max rows.

    Relative times are those of the moment of this call. Raises SandboxDisabled, InvalidLQL, StoredQueryFailed,
    QueryTimeout, Overloaded or DatabaseUnavailable.
    """
    refuse_unguarded_sandbox()
    tables = sandbox_tables(endpoint)
    lowered, checked = lower_query(endpoint, rules, tables)
    statement = checked.statement(lowered.arguments, max_rows=endpoint.max_rows)
    try:
        return run_published(
            endpoint, statement, arguments, lacks_a_table=lambda failure: failure.sqlstate == UNDEFINED_TABLE
        )
    except StatementFailed as failure:
        raise refusal_of(failure, rules, lowered, endpoint, arguments) from failure


def lower_query(endpoint: Version, rules: Rules, tables: Sequence[PublishedTable]) -> tuple[LoweredQuery, CheckedQuery]:
    """Return the rules as SQL over one of these tables, and what runs for it. Raises InvalidLQL."""
    lql_tables = [LQLTable(table.name, table.columns) for table in tables]
    table = choose_table(rules, lql_tables, default=endpoint.default_sandbox_table)
    lowered = lower(rules, table, now=datetime.now(UTC))
    checked = check_sandbox_query(
        lowered.sql,
        tables=[SandboxTable(table.name, tuple(column.name for column in table.columns)) for table in tables],
        parameters=lowered.parameters,
    )
    return lowered, checked


def refusal_of(
    failure: StatementFailed,
    rules: Rules,
    lowered: LoweredQuery,
    endpoint: Version,
    arguments: Mapping[str, BoundValue],
) -> EndpointError:
    """Return what the consumer is told; raises InvalidParameters when an argument of theirs is to blame.

    The SQL is ours: of what they sent, only a pattern can fail.
    """
    if failure.sqlstate == INVALID_REGULAR_EXPRESSION:
        session = sandbox_session(endpoint, sandbox_schema(endpoint), arguments)
        refuse_invalid_regular_expression(endpoint.parameters, arguments, session)
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
