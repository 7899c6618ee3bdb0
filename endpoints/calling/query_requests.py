"""From what a consumer sent to the request that runs: arguments, sandbox query and limits checked, format settled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

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
    named_format: str = ""  # what `format` was sent as; an endpoint may have a parameter of this name

    @property
    def sandbox_language(self) -> str:
        """Return "sql", "lql", or "" without a sandbox query."""
        return "sql" if self.sandbox_sql else "lql" if self.sandbox_lql else ""


_RequestKey = tuple[int, Call, tuple[tuple[str, str], ...]]
_remembered: Final[Remembered[_RequestKey, tuple[Version, QueryRequest, str]]] = Remembered(
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
        sandbox_language=call.sandbox_language,
        sandbox_text=call.sandbox_sql or call.sandbox_lql,
        redact=endpoint.redact_pii or call.redact,
        format=call.format,
    )
    if PAGE_ARGUMENTS.isdisjoint(call.arguments):
        return request
    return with_page(endpoint, request, call.arguments, call.repeated_names)


def recall_request(endpoint: Version, call: Call, caller: Caller | None) -> tuple[Version, QueryRequest, str]:
    """Return the endpoint, what `read_request` does and what `ignored_arguments` does.

    They are read once for the same call of the same endpoint, object for object.
    """
    if not call.weight or call.sandbox_lql:  # reading LQL also writes its canonical form to the log's context
        return _read(endpoint, call, caller)
    key = (id(endpoint), call, tuple(caller.bound_arguments.items()) if caller else ())
    # The endpoint is kept with its request: no other object can get its id meanwhile.
    return _remembered.get(key, lambda: _read(endpoint, call, caller), size=call.weight)


def _read(endpoint: Version, call: Call, caller: Caller | None) -> tuple[Version, QueryRequest, str]:
    return endpoint, read_request(endpoint, call, caller), ignored_arguments(endpoint, call)


# --- Ignored arguments ------------------------------------------------------------------------------------------------
MOST_IGNORED: Final = 10  # names; nginx, for one, reads 4 kB of headers unless told otherwise
LONGEST_IGNORED: Final = 64  # characters of a name, percent-encoded
_AND_MORE: Final = "*"  # as itself in no percent-encoded name
_CUT_ESCAPE: Final = re.compile(r"%[0-9A-F]?$")
_OF_EVERY_ENDPOINT: Final = frozenset({"sql", "lql", "tail", *PAGE_ARGUMENTS})


def ignored_arguments(endpoint: Version, call: Call) -> str:
    """Return the names that were sent, changed nothing and probably should have: `statsu, ab%20c`; "" without any.

    They are percent-encoded, so they end no header and are all ASCII. `*` stands for what is left out: the end of a
    long name, and names beyond the tenth.
    """
    names = call.arguments.keys() - _OF_EVERY_ENDPOINT - {parameter.name for parameter in endpoint.parameters}
    if call.named_format or not call.arguments.get("format"):
        names.discard("format")
    if not names:
        return ""
    ignored = [_shown(name) for name in call.arguments if name and name in names]  # as they were sent
    return ", ".join([*ignored[:MOST_IGNORED], *([_AND_MORE] if len(ignored) > MOST_IGNORED else [])])


def _shown(name: str) -> str:
    text = quote(name[:LONGEST_IGNORED], safe="")
    if len(text) <= LONGEST_IGNORED and len(name) <= LONGEST_IGNORED:
        return text
    return _CUT_ESCAPE.sub("", text[:LONGEST_IGNORED]) + _AND_MORE


# --- Arguments --------------------------------------------------------------------------------------------------------
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
