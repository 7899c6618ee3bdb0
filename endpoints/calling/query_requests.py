"""From what a consumer sent to the request that runs: arguments, sandbox query and limits checked, format settled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from endpoints.access.secrets import Caller
from endpoints.cache import QueryRequest
from endpoints.calling.consumer_queries import Remembered, read_lql
from endpoints.calling.pages import PAGE_ARGUMENTS, with_page
from endpoints.definition import Version
from endpoints.errors import AmbiguousSandboxQuery, ArgumentNotAllowed, InvalidRequest, SandboxDisabled
from endpoints.results.outcomes import BoundValue, ResultFormat
from endpoints.sql.coercion import is_absent
from endpoints.sql.parameters import (
    DeclaredParameter,
    ParameterType,
    RawValue,
    UnacceptableValue,
    coerce_arguments,
    coerce_value,
)


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """The request of a consumer, read and not yet checked; each is equal only to itself.

    `weight` is about how many bytes it takes if this very object may come again, 0 if it cannot: a body is always
    read again.
    """

    arguments: Mapping[str, RawValue] = field(default_factory=dict)
    repeated_names: frozenset[str] = frozenset()
    sandbox_sql: str = ""
    sandbox_lql: str = ""
    redact: bool = False
    format: ResultFormat = ResultFormat.JSON
    weight: int = 0
    tail: str = ""  # as sent; an endpoint may have a parameter of this name
    page_token: str = ""


_RequestKey = tuple[int, Call, tuple[tuple[str, str], ...]]
_remembered: Final[Remembered[_RequestKey, tuple[Version, QueryRequest]]] = Remembered(
    capacity=1000, max_bytes=16 * 1024 * 1024
)


def read_request(endpoint: Version, call: Call, caller: Caller | None) -> QueryRequest:
    """Return what to run for a call: equal requests of one version give equal results.

    Raises AmbiguousSandboxQuery, SandboxDisabled, InvalidLQL, RequestTooLarge, InvalidRequest, InvalidParameters,
    ArgumentNotAllowed, PagesNotAvailable or InvalidPageToken.
    """
    if call.sandbox_sql and call.sandbox_lql:
        raise AmbiguousSandboxQuery
    if (call.sandbox_sql or call.sandbox_lql) and not endpoint.sandboxing:
        raise SandboxDisabled
    if call.sandbox_lql:
        read_lql(call.sandbox_lql)
    request = QueryRequest(
        arguments=_arguments(endpoint, call, caller),
        sandbox_language="sql" if call.sandbox_sql else "lql" if call.sandbox_lql else "",
        sandbox_text=call.sandbox_sql or call.sandbox_lql,
        redact=endpoint.redact_pii or call.redact,
        format=call.format,
    )
    if PAGE_ARGUMENTS.isdisjoint(call.arguments):
        return request
    return with_page(endpoint, request, call.arguments, call.repeated_names)


def recall_request(endpoint: Version, call: Call, caller: Caller | None) -> QueryRequest:
    """Return what `read_request` does, read once for the same call of the same endpoint, object for object."""
    if not call.weight or call.sandbox_lql:  # reading LQL also writes its canonical form to the log's context
        return read_request(endpoint, call, caller)
    key = (id(endpoint), call, tuple(caller.bound_arguments.items()) if caller else ())
    # The endpoint is kept with its request: no other object can get its id meanwhile.
    remembered = _remembered.get(key, lambda: (endpoint, read_request(endpoint, call, caller)), size=call.weight)
    return remembered[1]


def _arguments(endpoint: Version, call: Call, caller: Caller | None) -> Mapping[str, BoundValue]:
    """Return the canonical arguments, those the access token is bound to put in where the call names none."""
    parameters = endpoint.parameters
    repeated = [
        parameter.name
        for parameter in parameters
        if parameter.name in call.repeated_names and parameter.type is not ParameterType.TEXT_LIST
    ]
    if repeated:
        raise InvalidRequest(details=[{"name": name, "reason": "is sent more than once"} for name in repeated])
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
