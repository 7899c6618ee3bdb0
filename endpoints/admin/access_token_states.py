"""What an access token's state is called, and the filter of the list by it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from django.contrib.admin import SimpleListFilter
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from endpoints.calling.installation import ago
from endpoints.models import AccessToken

# Time enough to issue the next one and to bring it to whoever uses it.
EXPIRES_SOON: Final = timedelta(days=14)


class TokenState(StrEnum):
    """Each access token is in one of these."""

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
