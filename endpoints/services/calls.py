"""Run an endpoint: the one way a call walks from arguments to encoded rows."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter

import structlog
from django.db.models import Q

from endpoints.access_tokens import Caller
from endpoints.encoding import encode_rows
from endpoints.errors import (
    AmbiguousSandboxQuery,
    ArgumentNotAllowed,
    EndpointNotFound,
    InvalidRequest,
    SandboxDisabled,
    StoredQueryFailed,
)
from endpoints.execution import QUERY_READER, ReaderSession, StatementFailed, run_statement
from endpoints.models import Endpoint
from endpoints.outcomes import BoundValue, Outcome, ResultFormat, Rows, Statement
from endpoints.services.lql_calls import read_lql, run_lql_query
from endpoints.services.sandbox_calls import run_sandbox_query
from endpoints.services.sessions import (
    INVALID_REGULAR_EXPRESSION,
    refuse_invalid_regular_expression,
    stored_session,
)
from endpoints.sql.coercion import is_absent
from endpoints.sql.composition import compile_query
from endpoints.sql.parameters import (
    DeclaredParameter,
    ParameterType,
    RawValue,
    UnacceptableValue,
    coerce_arguments,
    coerce_value,
)

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Call:
    """What a consumer asks for, read from the request and not yet judged."""

    arguments: Mapping[str, RawValue] = field(default_factory=dict)
    repeated_names: frozenset[str] = frozenset()
    sandbox_sql: str = ""
    sandbox_lql: str = ""
    redact: bool = False
    format: ResultFormat = ResultFormat.JSON


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a call and the version of the endpoint that served it."""

    outcome: Outcome
    endpoint_name: str
    endpoint_version: int


def find_endpoint(reference: str, *, caller: Caller | None = None) -> Endpoint:
    """Return the endpoint of this UUID or name. Raises EndpointNotFound, also when the caller may not call it.

    A caller bound to an argument may only call endpoints that have this parameter: elsewhere the bond would not hold.
    """
    if "\0" in reference:
        raise EndpointNotFound  # PostgreSQL cannot even compare it
    match = Q(name=reference)
    with suppress(ValueError):
        match |= Q(pk=uuid.UUID(reference))
    endpoint = Endpoint.objects.filter(match, version__gt=0).first()
    if endpoint is None or not _may_call(caller, endpoint):
        raise EndpointNotFound
    return endpoint


def visible_endpoints(caller: Caller | None) -> list[Endpoint]:
    """Return every endpoint this caller may call, by name."""
    return [endpoint for endpoint in Endpoint.objects.filter(version__gt=0) if _may_call(caller, endpoint)]


def _may_call(caller: Caller | None, endpoint: Endpoint) -> bool:
    if caller is None:
        return True
    declared = {parameter.name for parameter in endpoint.parameters_of_version}
    return caller.may_call(str(endpoint.pk)) and declared.issuperset(caller.bound_arguments)


def run_endpoint(reference: str, *, call: Call, caller: Caller | None = None) -> Answer:
    """Run an endpoint and return its encoded result; `caller` None is the operator, bound by nothing.

    Raises an EndpointError: one of the rows of the error table.
    """
    endpoint = find_endpoint(reference, caller=caller)
    structlog.contextvars.bind_contextvars(endpoint=endpoint.name, endpoint_version=endpoint.version)
    _refuse_sandbox_query(endpoint, call)
    arguments = _arguments(endpoint, call, caller)
    rows = _run(endpoint, call, arguments)
    started = perf_counter()
    body = encode_rows(rows, call.format, redact=endpoint.redact_pii or call.redact)
    outcome = Outcome(
        body=body,
        format=call.format,
        row_count=len(rows.rows),
        truncated=rows.truncated,
        database_seconds=rows.database_seconds,
        encoding_seconds=perf_counter() - started,
    )
    return Answer(outcome=outcome, endpoint_name=endpoint.name, endpoint_version=endpoint.version)


def _run(endpoint: Endpoint, call: Call, arguments: Mapping[str, BoundValue]) -> Rows:
    if call.sandbox_sql:
        return run_sandbox_query(endpoint, call.sandbox_sql, arguments=arguments)
    if call.sandbox_lql:
        return run_lql_query(endpoint, read_lql(call.sandbox_lql), arguments=arguments)
    return _run_stored_query(endpoint, arguments)


def _refuse_sandbox_query(endpoint: Endpoint, call: Call) -> None:
    if call.sandbox_sql and call.sandbox_lql:
        raise AmbiguousSandboxQuery
    if (call.sandbox_sql or call.sandbox_lql) and not endpoint.sandboxing:
        raise SandboxDisabled


def _arguments(endpoint: Endpoint, call: Call, caller: Caller | None) -> Mapping[str, BoundValue]:
    """Return the canonical arguments, those the access token is bound to put in where the call names none."""
    parameters = endpoint.parameters_of_version
    repeated = [
        parameter.name
        for parameter in parameters
        if parameter.name in call.repeated_names and parameter.type is not ParameterType.TEXT_LIST
    ]
    if repeated:
        raise InvalidRequest(details=[{"name": name, "reason": "is given more than once"} for name in repeated])
    bound = caller.bound_arguments if caller else {}
    raw = {**call.arguments, **{name: value for name, value in bound.items() if is_absent(call.arguments.get(name))}}
    arguments = coerce_arguments(parameters, raw)
    for parameter in parameters:
        if parameter.name in bound and not _is_bound_to(parameter, arguments[parameter.name], bound[parameter.name]):
            raise ArgumentNotAllowed(parameter.name)
    return arguments


def _is_bound_to(parameter: DeclaredParameter, value: BoundValue, bound: RawValue) -> bool:
    try:
        return value == coerce_value(parameter, bound)
    except UnacceptableValue:
        # The declaration has changed since the access token was issued: no value is the one it may use.
        return False


def _run_stored_query(endpoint: Endpoint, arguments: Mapping[str, BoundValue]) -> Rows:
    parameters = endpoint.parameters_of_version
    statement = compile_query(endpoint.sql, parameters, max_rows=endpoint.max_rows).statement(arguments)
    session = stored_session(endpoint, arguments)
    try:
        return run_statement(statement, session, max_rows=endpoint.max_rows)
    except StatementFailed as failure:
        if failure.sqlstate == INVALID_REGULAR_EXPRESSION:
            refuse_invalid_regular_expression(parameters, arguments, session)
        logger.error("stored_query_failed", sqlstate=failure.sqlstate, reason=failure.loggable_message)
        raise StoredQueryFailed from failure


def check_log_database() -> None:
    """Return when the log database answers a reader. Raises DatabaseUnavailable or Overloaded when it does not."""
    session = ReaderSession(role=QUERY_READER, search_path="", statement_timeout_seconds=1, tenant="")
    run_statement(Statement("SELECT 1"), session, max_rows=1)
