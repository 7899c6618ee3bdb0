"""Run what a recipe says on the log database and encode the rows: the work that the cache saves."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

import structlog

from endpoints.cache import Recipe
from endpoints.definition import Version
from endpoints.encoding import encode_rows
from endpoints.errors import StoredQueryFailed
from endpoints.execution import StatementFailed, run_statement
from endpoints.outcomes import BoundValue, Outcome, OverBudget, Rows, TimestampForm
from endpoints.services.lql_calls import read_lql, run_lql_query
from endpoints.services.sandbox_calls import run_sandbox_query
from endpoints.services.sandbox_runs import max_result_bytes, over_budget
from endpoints.services.sessions import (
    INVALID_REGULAR_EXPRESSION,
    refuse_invalid_regular_expression,
    stored_session,
)
from endpoints.sql.composition import compile_query

logger = structlog.get_logger(__name__)


def produce(endpoint: Version, recipe: Recipe) -> Outcome:
    """Run the recipe over this version of the endpoint and return its encoded result. Raises an EndpointError."""
    try:
        return _produce(endpoint, recipe)
    except OverBudget as error:
        raise over_budget(recipe.sandbox_language) from error


def _produce(endpoint: Version, recipe: Recipe) -> Outcome:
    rows = _run(endpoint, recipe)
    started = perf_counter()
    body = encode_rows(
        rows,
        recipe.format,
        redact=recipe.redact,
        timestamps_as=TimestampForm(endpoint.timestamps_as),
        max_bytes=max_result_bytes(recipe.sandbox_language),
    )
    return Outcome(
        body=body,
        format=recipe.format,
        row_count=len(rows.rows),
        truncated=rows.truncated,
        database_seconds=rows.database_seconds,
        encoding_seconds=perf_counter() - started,
    )


def _run(endpoint: Version, recipe: Recipe) -> Rows:
    if recipe.sandbox_language == "sql":
        return run_sandbox_query(endpoint, recipe.sandbox_text, arguments=recipe.arguments)
    if recipe.sandbox_language == "lql":
        return run_lql_query(endpoint, read_lql(recipe.sandbox_text), arguments=recipe.arguments)
    return _run_stored_query(endpoint, recipe.arguments)


def _run_stored_query(endpoint: Version, arguments: Mapping[str, BoundValue]) -> Rows:
    parameters = endpoint.parameters
    statement = compile_query(endpoint.sql, parameters, max_rows=endpoint.max_rows).statement(arguments)
    session = stored_session(endpoint, arguments)
    try:
        return run_statement(statement, session, max_rows=endpoint.max_rows, max_bytes=max_result_bytes(""))
    except StatementFailed as failure:
        if failure.sqlstate == INVALID_REGULAR_EXPRESSION:
            refuse_invalid_regular_expression(parameters, arguments, session)
        logger.error("stored_query_failed", sqlstate=failure.sqlstate, reason=failure.loggable_message)
        raise StoredQueryFailed from failure
