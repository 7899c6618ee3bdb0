"""As whom an endpoint's queries run, and what an argument can be to blame for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from endpoints.definition import Version
from endpoints.errors import InvalidParameters
from endpoints.log_database.execution import (
    QUERY_READER,
    SANDBOX_READER,
    ReaderSession,
    first_invalid_regular_expression,
)
from endpoints.results.outcomes import BoundValue
from endpoints.sql.parameters import DeclaredParameter, ParameterType

INVALID_REGULAR_EXPRESSION: Final = "2201B"  # PostgreSQL, appendix A


def stored_session(endpoint: Version, arguments: Mapping[str, BoundValue]) -> ReaderSession:
    """Return as whom the stored query runs: under the tenant's rows where the endpoint names a tenant parameter."""
    return ReaderSession(
        role=QUERY_READER,
        search_path="logs",
        statement_timeout_seconds=endpoint.statement_timeout_seconds,
        tenant=_tenant(endpoint, arguments),
        planner_settings=endpoint.planner_settings,
    )


def sandbox_session(endpoint: Version, schema: str, arguments: Mapping[str, BoundValue]) -> ReaderSession:
    """Return as whom a sandbox query runs: over the views of the schema, which read the arguments themselves."""
    return ReaderSession(
        role=SANDBOX_READER,
        # Named, because PostgreSQL else looks into pg_catalog before the schema, and into pg_temp before both.
        # Operators of log_functions hide PostgreSQL's own (endpoints.sql.guards).
        search_path=f'"{schema}", log_functions, pg_catalog, pg_temp',
        statement_timeout_seconds=endpoint.statement_timeout_seconds,
        tenant=_tenant(endpoint, arguments),
        arguments=arguments,
        planner_settings=endpoint.planner_settings,
    )


def _tenant(endpoint: Version, arguments: Mapping[str, BoundValue]) -> str | None:
    if not endpoint.tenant_parameter:
        return None
    value = arguments.get(endpoint.tenant_parameter)
    # Fail closed: an argument that is no text shows no project's rows, never every project's.
    return value if isinstance(value, str) else ""


def refuse_invalid_regular_expression(
    parameters: Sequence[DeclaredParameter], arguments: Mapping[str, BoundValue], session: ReaderSession
) -> None:
    """Raise InvalidParameters when an argument, not the query, holds the invalid regular expression."""
    candidates = [
        (parameter.name, value)
        for parameter in parameters
        if parameter.type is ParameterType.TEXT and isinstance(value := arguments[parameter.name], str)
    ]
    index = first_invalid_regular_expression([value for _, value in candidates], session)
    if index is not None:
        name = candidates[index][0]
        raise InvalidParameters(details=[{"name": name, "reason": "is not a valid regular expression"}])
