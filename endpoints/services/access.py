"""Access tokens: issue one, and tell who a secret stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from endpoints import access_tokens
from endpoints.access_tokens import Caller
from endpoints.errors import NotAuthenticated
from endpoints.models import AccessToken, Endpoint

# last_used_at is for people: to the minute is enough, and a write a call is not worth it.
LAST_USED_PRECISION = timedelta(minutes=1)


def authenticate_access_token(secret: str, *, now: datetime | None = None) -> Caller:
    """Return the caller this secret stands for. Raises NotAuthenticated, the same for every reason."""
    now = now or timezone.now()
    prefix = access_tokens.prefix_of(secret)
    token = AccessToken.objects.filter(prefix=prefix).first() if prefix else None
    secret_hash = token.secret_hash if token else access_tokens.NO_HASH
    if not access_tokens.matches(secret, secret_hash) or token is None or not token.is_valid_at(now):
        raise NotAuthenticated
    if token.last_used_at is None or now - token.last_used_at >= LAST_USED_PRECISION:
        AccessToken.objects.filter(pk=token.pk).update(last_used_at=now)
    endpoint_ids = None if token.every_endpoint else frozenset(map(str, token.endpoints.values_list("pk", flat=True)))
    return Caller(
        name=token.name, prefix=token.prefix, endpoint_ids=endpoint_ids, bound_arguments=token.bound_arguments
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
) -> IssuedAccessToken:
    """Make an access token; with no endpoint names it may call every endpoint. Raises ValidationError."""
    endpoints = list(Endpoint.objects.filter(name__in=endpoint_names))
    unknown = sorted(set(endpoint_names) - {endpoint.name for endpoint in endpoints})
    if unknown:
        raise ValidationError(f"There is no endpoint named {', '.join(unknown)}.")
    token = AccessToken(
        name=name,
        every_endpoint=not endpoint_names,
        bound_arguments=dict(bound_arguments or {}),
        expires_at=expires_at,
    )
    secret = new_access_token_secret(token)
    token.full_clean()
    with transaction.atomic():
        token.save()
        token.endpoints.set(endpoints)
    return IssuedAccessToken(access_token=token, secret=secret)


def new_access_token_secret(token: AccessToken) -> str:
    """Give an unsaved access token its secret and return it: the only moment anybody sees it."""
    token.prefix, secret = access_tokens.new_secret()
    token.secret_hash = access_tokens.hash_secret(secret)
    return secret
