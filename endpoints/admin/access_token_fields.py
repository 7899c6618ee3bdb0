"""An access token in the admin: its limits and its state in words, and the filter of the list."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.contrib.admin import SimpleListFilter
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from endpoints.access.secrets import NO_LIMIT, OwnLimits
from endpoints.access.token_limits import limits_in_force, limits_use
from endpoints.access.token_states import EXPIRES_SOON, TokenState, state_of
from endpoints.cache import CacheUnavailable
from endpoints.calling.installation import ago
from endpoints.models import AccessToken


# --- Access token limits ----------------------------------------------------------------------------------------------
def words_of_own_limits(own: OwnLimits) -> str:
    """Return the limits that differ from the installation's defaults: 600 calls a minute, no limit of calls."""
    limits = {
        "calls a minute": own.calls_a_minute,
        "calls at the same time": own.calls_at_once,
        "sandbox queries at the same time": own.sandbox_queries_at_once,
    }
    return ", ".join(
        f"no limit of {what}" if value == NO_LIMIT else f"{value} {what}"
        for what, value in limits.items()
        if value is not None
    )


def words_of_use(token: AccessToken) -> str:
    """Return how much of its limits the access token uses at this moment, over all processes."""
    try:
        use = limits_use(token.prefix, OwnLimits.of(token))
    except CacheUnavailable:
        return "unknown while Redis does not answer: each process applies the limits by itself"
    limits = limits_in_force(OwnLimits.of(token))
    parts = [
        f"calls: {use.calls} of {limits.calls}" if limits.calls else "calls: no limit",
        _used("calls at the same time", use.running, limits.calls_at_once),
        _used("sandbox queries at the same time", use.sandbox_queries, limits.sandbox_queries_at_once),
    ]
    if use.waiting:
        parts.append(f"waiting: {use.waiting}")
    if use.sandbox_suspended_seconds:
        parts.append(f"sandbox queries refused for another {use.sandbox_suspended_seconds:.0f} s")
    return "; ".join(parts)


def _used(what: str, used: int, limit: int | None) -> str:
    return f"{what}: no limit" if limit is None else f"{what}: {used} of {limit}"


# --- Access token states ----------------------------------------------------------------------------------------------
def words_of_state(token: AccessToken, *, now: datetime) -> str:
    """Return the state as people read it: expires in 3 days."""
    state = state_of(token, now=now)
    if state is TokenState.EXPIRES_SOON and token.expires_at is not None:
        return f"expires in {ago((token.expires_at - now).total_seconds())}"
    return state.value


def _in_state(state: TokenState, *, now: datetime) -> Q:
    expired = Q(expires_at__lte=now)
    soon = Q(expires_at__gt=now, expires_at__lte=now + EXPIRES_SOON)
    if state is TokenState.REVOKED:
        return Q(revoked_at__isnull=False)
    not_revoked = Q(revoked_at__isnull=True)
    if state is TokenState.EXPIRED:
        return not_revoked & expired
    if state is TokenState.EXPIRES_SOON:
        return not_revoked & soon
    return not_revoked & ~expired & ~soon


class StateFilter(SimpleListFilter):
    """Chooses the access tokens in one state."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return [(state.value, state.value) for state in TokenState]

    def queryset(self, request: HttpRequest, queryset: QuerySet[AccessToken]) -> QuerySet[AccessToken]:
        chosen = self.value()
        if chosen not in set(TokenState):
            return queryset
        return queryset.filter(_in_state(TokenState(chosen), now=timezone.now()))
