"""An access token in the admin: its limits and its state in words, and its form."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from django import forms
from django.contrib.admin import SimpleListFilter
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from endpoints.access.secrets import NO_LIMIT, OwnLimits
from endpoints.access.token_limits import limits_in_force, limits_use
from endpoints.admin.edit_conflicts import ConflictForm
from endpoints.admin.fields import AssignmentsField, CheckboxList, LimitField
from endpoints.cache import CacheUnavailable
from endpoints.calling.installation import ago
from endpoints.models import AccessToken, Endpoint
from logsources.models import LogSource


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


# --- Access token form ------------------------------------------------------------------------------------------------
class AccessTokenForm(ConflictForm):
    endpoints = forms.ModelMultipleChoiceField(
        queryset=Endpoint.objects.all(),
        required=False,
        widget=CheckboxList,
        help_text="The endpoints that it may call, if it may not call all of them.",
    )
    bound_arguments = AssignmentsField(
        help_text="One NAME=VALUE per line, such as project=acme: a call with another value is refused, a call without "
        "it gets this one, and endpoints without this parameter cannot be called.",
    )
    load_sources = forms.MultipleChoiceField(
        label="Log sources",
        required=False,
        widget=CheckboxList(columns=True),
        help_text="The only log sources that it may load rows into. None chosen: every log source.",
    )
    calls_a_minute = LimitField(help_text="Calls of every kind, cached ones too. A number, or none; blank = default.")
    calls_at_once = LimitField(
        label="Calls at the same time", help_text="Only calls that the cache cannot answer. A number, or none."
    )
    sandbox_queries_at_once = LimitField(
        label="Sandbox queries at the same time", help_text="Only calls with sql or lql. A number, or none."
    )

    class Meta:
        model = AccessToken
        fields = (
            "name", "every_endpoint", "endpoints", "bound_arguments", "may_purge", "may_issue", "may_load",
            "load_sources", "default_project", "calls_a_minute", "calls_at_once", "sandbox_queries_at_once",
            "expires_at",
        )  # fmt: skip
        help_texts = {"expires_at": "UTC; blank = never."}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        default = limits_in_force(OwnLimits())
        shown = {
            "calls_a_minute": str(default.calls) if default.calls else None,
            "calls_at_once": default.calls_at_once,
            "sandbox_queries_at_once": default.sandbox_queries_at_once,
        }
        for name, value in shown.items():
            field = self.fields.get(name)
            if isinstance(field, LimitField):  # not on a page that only shows it
                field.show_default(value)

        sources = self.fields.get("load_sources")
        if isinstance(sources, forms.MultipleChoiceField):
            # Also those that were deleted since: to drop the last name unseen would allow every log source.
            names = sorted({*LogSource.objects.values_list("name", flat=True), *(self.instance.load_sources or ())})
            sources.choices = [(name, name) for name in names]

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean() or {}
        if cleaned.get("every_endpoint") and cleaned.get("endpoints"):
            self.add_error("every_endpoint", "Clear this to limit the access token to the endpoints chosen below.")
        return cleaned
