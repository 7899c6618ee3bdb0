"""Prepare a consumer's LQL: read into rules, lowered to SQL over one sandbox table, from there on a sandbox query."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache

import structlog
from django.conf import settings

from endpoints.calling.prepared_queries import PreparedQuery, Sandbox, is_of_budget, over_budget, sandboxed_query
from endpoints.calling.sessions import INVALID_REGULAR_EXPRESSION
from endpoints.definition import Version
from endpoints.errors import EndpointError, InvalidLQL, RequestTooLarge
from endpoints.log_database.execution import ReaderSession, StatementFailed, first_invalid_regular_expression
from endpoints.lql import parse_lql, print_lql
from endpoints.lql.lowering import LoweredQuery, LQLTable, choose_table, lower
from endpoints.lql.refusals import refusal, shortened
from endpoints.lql.rules import Rules
from endpoints.results.outcomes import BoundValue
from endpoints.sql.sandbox import SandboxTable, check_sandbox_query
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


def prepare_lql(endpoint: Version, lql: str, arguments: Mapping[str, BoundValue], sandbox: Sandbox) -> PreparedQuery:
    """Return what runs for a consumer's LQL over one of these sandbox tables. Raises InvalidLQL or RequestTooLarge.

    Relative times are those of the moment of this call.
    """
    rules = read_lql(lql)
    lql_tables = [LQLTable(table.name, table.columns) for table in sandbox.tables]
    table = choose_table(rules, lql_tables, default=endpoint.default_sandbox_table)
    lowered = lower(rules, table, now=datetime.now(UTC))
    checked = check_sandbox_query(
        lowered.sql,
        tables=[SandboxTable(table.name, tuple(column.name for column in table.columns)) for table in sandbox.tables],
        parameters=lowered.parameters,
    )
    return sandboxed_query(
        endpoint,
        arguments,
        sandbox,
        language="lql",
        statement=checked.statement(lowered.arguments, max_rows=endpoint.max_rows),
        argument_names=checked.parameter_names,
        refusal=lambda failure, session: _refusal(failure, rules, lowered, session),
        offset=lambda failure: None,  # the SQL is the service's own
        lacks_a_table=lambda failure: failure.sqlstate == UNDEFINED_TABLE,
    )


def _refusal(failure: StatementFailed, rules: Rules, lowered: LoweredQuery, session: ReaderSession) -> EndpointError:
    """Return what the consumer is told. Of what they sent, only a pattern can fail."""
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
