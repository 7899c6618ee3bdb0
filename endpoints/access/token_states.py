"""The state of an access token at a moment, and what it may do, in words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from endpoints.models import AccessToken, Endpoint

# Enough time to issue the next one and to hand it to its user.
EXPIRES_SOON: Final = timedelta(days=14)


class TokenState(StrEnum):
    """The states of an access token."""

    VALID = "valid"
    EXPIRES_SOON = "expires soon"
    EXPIRED = "expired"
    REVOKED = "revoked"


def state_of(token: AccessToken, *, now: datetime) -> TokenState:
    """Return the state of a moment."""
    if token.revoked_at is not None:
        return TokenState.REVOKED
    if not token.is_valid_at(now):
        return TokenState.EXPIRED
    if token.expires_at is not None and token.expires_at - now <= EXPIRES_SOON:
        return TokenState.EXPIRES_SOON
    return TokenState.VALID


def words_of_reach(token: AccessToken) -> str:
    """Return which endpoints it may call: "every endpoint", "errors.by-hour, logs.all" or "no endpoint"."""
    if token.every_endpoint:
        return "every endpoint"
    return words_of_endpoints(token.endpoints.all())


def words_of_endpoints(chosen: Iterable[Endpoint]) -> str:
    """Return the names of chosen endpoints: "errors.by-hour, logs.all", or "no endpoint"."""
    return ", ".join(endpoint.name for endpoint in chosen) or "no endpoint"


def words_of_bonds(token: AccessToken) -> str:
    """Return its bound arguments: "project=shop, level=5", or ""."""
    return ", ".join(f"{name}={value}" for name, value in token.bound_arguments.items())


def words_of_further_rights(token: AccessToken) -> str:
    """Return its rights besides calls as the end of a sentence: " and load rows into auth_logs of project acme"."""
    rights = [" and remove cached results"] if token.may_purge else []
    rights += [" and issue browser tokens"] if token.may_issue else []
    if token.may_load:
        into = f" into {', '.join(token.load_sources)}" if token.load_sources else ""
        of_project = f" of project {token.default_project}" if token.default_project else ""
        rights.append(f" and load rows{into}{of_project}")
    return "".join(rights)
