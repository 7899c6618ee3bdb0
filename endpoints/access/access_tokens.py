"""Access tokens: issue one, and tell who a secret stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from endpoints.access import secrets as access_tokens
from endpoints.access.change_marker import changing
from endpoints.access.known_records import KNOWN_RECORDS
from endpoints.access.secrets import Caller, OwnLimits
from endpoints.access.token_rules import check_expiry, check_reach
from endpoints.errors import NotAuthenticated
from endpoints.models import AccessToken, Endpoint
from logsources.models import LogSource

_DEFAULT_LIMITS: Final = OwnLimits()


def authenticate_access_token(secret: str, *, now: datetime | None = None) -> Caller:
    """Return the caller this secret stands for.

    Raises NotAuthenticated, the same for every reason, and DatabaseUnavailable.
    """
    now = now or timezone.now()
    prefix = access_tokens.prefix_of(secret)
    token = KNOWN_RECORDS.access_token(prefix) if prefix else None
    secret_hash = token.secret_hash if token else access_tokens.NO_HASH
    if not access_tokens.matches(secret, secret_hash) or token is None or not token.is_valid_at(now):
        raise NotAuthenticated
    KNOWN_RECORDS.note_use(token, now=now)
    return Caller(
        name=token.name,
        prefix=token.prefix,
        endpoint_ids=token.endpoint_ids,
        bound_arguments=token.bound_arguments,
        may_purge=token.may_purge,
        may_load=token.may_load,
        load_sources=token.load_sources,
        default_project=token.default_project,
        may_issue=token.may_issue,
        limits=token.limits,
    )


@dataclass(frozen=True, slots=True)
class IssuedAccessToken:
    """A new access token and its secret, which is nowhere else and shown once."""

    access_token: AccessToken
    secret: str


def issue_access_token(
    *,
    name: str,
    endpoint_names: Sequence[str] = (),
    bound_arguments: Mapping[str, str] | None = None,
    expires_at: datetime | None = None,
    may_purge: bool = False,
    may_load: bool = False,
    load_sources: Sequence[str] = (),
    default_project: str = "",
    may_issue: bool = False,
    allowed_origins: Sequence[str] = (),
    no_endpoints: bool = False,
    limits: OwnLimits = _DEFAULT_LIMITS,
) -> IssuedAccessToken:
    """Make an access token; with no endpoint names it may call every endpoint, unless it is to call none.

    If it may load rows, then into `load_sources` alone, or into every log source if there are none. Pages of
    `allowed_origins` may call with the browser tokens that it issues.
    Raises ValidationError, also for what `token_rules` refuses.
    """
    if no_endpoints and endpoint_names:
        raise ValidationError({"endpoints": "Name endpoints or choose none, not both."})
    endpoints = list(Endpoint.objects.filter(name__in=endpoint_names))
    unknown = sorted(set(endpoint_names) - {endpoint.name for endpoint in endpoints})
    if unknown:
        raise ValidationError({"endpoints": f"There is no endpoint named {', '.join(unknown)}."})
    _refuse_unknown_sources(load_sources)
    token = AccessToken(
        name=name,
        every_endpoint=not endpoint_names and not no_endpoints,
        bound_arguments=dict(bound_arguments or {}),
        expires_at=expires_at,
        may_purge=may_purge,
        may_load=may_load,
        load_sources=sorted(set(load_sources)),
        default_project=default_project,
        may_issue=may_issue,
        allowed_origins=list(dict.fromkeys(allowed_origins)),
        calls_a_minute=limits.calls_a_minute,
        calls_at_once=limits.calls_at_once,
        sandbox_queries_at_once=limits.sandbox_queries_at_once,
    )
    secret = new_access_token_secret(token)
    token.full_clean()
    check_expiry(expires_at, now=timezone.now())
    check_reach(
        every_endpoint=token.every_endpoint,
        endpoints=endpoints,
        bound_arguments=token.bound_arguments,
        may_load=may_load,
    )
    with transaction.atomic():
        token.save()
        token.endpoints.set(endpoints)
    return IssuedAccessToken(access_token=token, secret=secret)


def _refuse_unknown_sources(names: Sequence[str]) -> None:
    known = set(LogSource.objects.filter(name__in=names).values_list("name", flat=True)) if names else set()
    if unknown := sorted(set(names) - known):
        raise ValidationError({"load_sources": f"There is no log source named {', '.join(unknown)}."})


def revoke_access_tokens(tokens: QuerySet[AccessToken]) -> int:
    """Revoke those that are not yet revoked and return how many; calls with them are refused from now on."""
    with changing(), transaction.atomic():
        valid = list(tokens.select_for_update().filter(revoked_at=None))
        for token in valid:
            token.revoked_at = timezone.now()
            token.save(update_fields=["revoked_at"])  # one by one: each has its own history
    return len(valid)


def endpoints_out_of_reach(token: AccessToken) -> list[tuple[str, str]]:
    """Return (endpoint, argument) for each chosen endpoint that lacks a parameter of a bound argument.

    The access token cannot call such an endpoint: the bond would not hold there.
    """
    return [
        (endpoint.name, name)
        for endpoint in token.endpoints.all()
        for name in sorted(token.bound_arguments)
        if name not in {parameter.name for parameter in endpoint.parameters_of_version}
    ]


def new_access_token_secret(token: AccessToken) -> str:
    """Give an unsaved access token its secret and return it: the only moment anybody sees it."""
    token.prefix, secret = access_tokens.new_secret()
    token.secret_hash = access_tokens.hash_secret(secret)
    return secret


# --- Callers ----------------------------------------------------------------------------------------------------------
# Who may call an endpoint.
@dataclass(frozen=True, slots=True)
class Callers:
    """The access tokens that may call an endpoint, the last used first, and how many might if it were not for…"""

    access_tokens: tuple[AccessToken, ...]
    invalid: int  # …their revocation or expiry
    bound_elsewhere: int  # …a bound argument for which the endpoint has no parameter


def callers_of(endpoint: Endpoint) -> Callers:
    """Return who may call the endpoint at this moment."""
    now = timezone.now()
    declared = {parameter.name for parameter in endpoint.parameters_of_version}
    reaching = AccessToken.objects.filter(Q(every_endpoint=True) | Q(endpoints=endpoint)).distinct()
    ordered = list(reaching.order_by(F("last_used_at").desc(nulls_last=True), "name", "pk"))
    valid = [token for token in ordered if token.is_valid_at(now)]
    callable_by = tuple(token for token in valid if declared.issuperset(token.bound_arguments))
    return Callers(callable_by, invalid=len(ordered) - len(valid), bound_elsewhere=len(valid) - len(callable_by))
