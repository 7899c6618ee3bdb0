"""Issue a browser token: a short-lived part of what an access token may do itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import structlog
from django.utils import timezone

from endpoints.access.browser_tokens import LONGEST_SECONDS, MAX_CHARACTERS, Claims, sign
from endpoints.access.known_records import KNOWN_RECORDS
from endpoints.access.secrets import Caller
from endpoints.calling.calls import find_endpoint
from endpoints.definition import Version
from endpoints.errors import (
    ArgumentNotAllowed,
    Detail,
    EndpointNotFound,
    InvalidParameters,
    InvalidRequest,
    IssueNotAllowed,
    NotAuthenticated,
)
from endpoints.sql.coercion import is_absent
from endpoints.sql.parameters import UnacceptableValue, coerce_value

DEFAULT_SECONDS: Final = 3600
MOST_ENDPOINTS: Final = 50

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """What a browser token is to allow: endpoints by name or UUID, and the arguments it is bound to."""

    endpoints: tuple[str, ...]
    arguments: Mapping[str, str] = field(default_factory=dict)
    expires_in_seconds: int = DEFAULT_SECONDS


@dataclass(frozen=True, slots=True)
class IssuedBrowserToken:
    """A new browser token, which is stored nowhere."""

    token: str = field(repr=False)
    expires_at: datetime


def issue_browser_token(request: TokenRequest, *, caller: Caller, now: datetime | None = None) -> IssuedBrowserToken:
    """Issue a browser token for what the caller may do itself; it ends with the caller's access token at the latest.

    Besides the arguments of the request it is bound to those of the caller, also if the caller loses that bond later.

    Raises IssueNotAllowed; InvalidRequest for a lifetime or a number of endpoints that cannot be;
    EndpointNotFound as for a call; ArgumentNotAllowed if the caller is bound to another value; InvalidParameters for
    arguments that an endpoint does not take; DatabaseUnavailable.
    """
    if not caller.may_issue or caller.is_browser:
        raise IssueNotAllowed
    now = now or timezone.now()
    _check_extent(request)
    endpoints = [_find(reference, caller) for reference in dict.fromkeys(request.endpoints)]
    _check_arguments(request.arguments, endpoints, caller)
    issuer = KNOWN_RECORDS.access_token(caller.prefix)
    if issuer is None or not issuer.is_valid_at(now):
        raise NotAuthenticated  # since the request came
    issued_at = int(now.timestamp())
    expires_at = issued_at + request.expires_in_seconds
    if issuer.expires_at is not None:
        expires_at = max(issued_at + 1, min(expires_at, int(issuer.expires_at.timestamp())))
    claims = Claims(
        issuer_prefix=caller.prefix,
        endpoint_ids=frozenset(str(endpoint.pk) for endpoint in endpoints),
        # The caller's own texts, where both name an argument: only these are compared at each call.
        arguments={**request.arguments, **caller.bound_arguments},
        expires_at=expires_at,
    )
    token = sign(claims)
    if len(token) > MAX_CHARACTERS:
        raise InvalidRequest(
            f"The token would have {len(token)} characters; at most {MAX_CHARACTERS} are possible. "
            "Name fewer endpoints, or shorter arguments."
        )
    logger.info("browser_token_issued", seconds=expires_at - issued_at)
    return IssuedBrowserToken(token, datetime.fromtimestamp(expires_at, UTC))


def _check_extent(request: TokenRequest) -> None:
    faults: list[Detail] = []
    if not 1 <= len(request.endpoints) <= MOST_ENDPOINTS:
        faults.append({"name": "endpoints", "reason": f"must name 1 to {MOST_ENDPOINTS} endpoints"})
    if not 1 <= request.expires_in_seconds <= LONGEST_SECONDS:
        faults.append({"name": "expires_in", "reason": f"must be 1 to {LONGEST_SECONDS} seconds"})
    if faults:
        raise InvalidRequest(details=faults)


def _find(reference: str, caller: Caller) -> Version:
    try:
        return find_endpoint(reference, caller=caller)
    except EndpointNotFound as error:
        reason = "there is no such endpoint, or this access token may not call it"
        raise EndpointNotFound(details=[{"name": reference, "reason": reason}]) from error


def _check_arguments(arguments: Mapping[str, str], endpoints: list[Version], caller: Caller) -> None:
    """Raise ArgumentNotAllowed or InvalidParameters; the former first, for it depends on the caller alone."""
    faults = [fault for endpoint in endpoints for fault in _faults(arguments, endpoint, caller)]
    if faults:
        raise InvalidParameters(details=faults)


def _faults(arguments: Mapping[str, str], endpoint: Version, caller: Caller) -> Iterator[Detail]:
    declared = {parameter.name: parameter for parameter in endpoint.parameters}
    for name, value in arguments.items():
        if name not in declared:
            yield {"name": name, "reason": f"is not a parameter of {endpoint.name}, which the token could not call"}
            continue
        if is_absent(value):
            yield {"name": name, "reason": "must not be empty"}
            continue
        try:
            bound_to = coerce_value(declared[name], value)
        except UnacceptableValue as error:
            yield {"name": name, "reason": f"{error.reason} (a parameter of {endpoint.name})", **error.constraint}
            continue
        if name in caller.bound_arguments and bound_to != _value(endpoint, name, caller):
            raise ArgumentNotAllowed(name)


def _value(endpoint: Version, name: str, caller: Caller) -> object:
    """Return the value the caller is bound to. Raises ArgumentNotAllowed if the parameter no longer takes it."""
    (parameter,) = (each for each in endpoint.parameters if each.name == name)
    try:
        return coerce_value(parameter, caller.bound_arguments[name])
    except UnacceptableValue:
        raise ArgumentNotAllowed(name) from None
