"""An endpoint's page "Usage": how to call it, who may, how calls ended, what the cache and its warming did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib.admin.options import ModelAdmin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone

from endpoints.access.access_tokens import callers_of
from endpoints.access.token_states import TokenState, state_of
from endpoints.admin import figures
from endpoints.admin.cached_results import PURGE_URL_NAME, cache_facts, warming_facts
from endpoints.admin.call_examples import calling_context
from endpoints.admin.figures import draw_sparkline
from endpoints.cache import CacheUnavailable
from endpoints.calling.calls import EndpointUse, endpoint_use
from endpoints.calling.installation import ago
from endpoints.calling.purging import cache_reports
from endpoints.defining.upkeep import warming_schedule
from endpoints.models import AccessToken, Endpoint

USAGE_URL_NAME: Final = "endpoints_endpoint_usage"
LAST_CALLS: Final = 50


@dataclass(frozen=True, slots=True)
class TokenRow:
    """An access token that may call the endpoint; `bonds` is "" for people who may not see them."""

    name: str
    page: str
    reach: str
    bonds: str
    expires_at: datetime | None
    expires_soon: bool
    last_used: str


@dataclass(frozen=True, slots=True)
class CallRow:
    """A call as it ended."""

    at: datetime
    access_token: str
    prefix: str
    status: int
    kind: str  # answered, refused or failed
    outcome: str
    rows: str
    duration: str
    cache: str
    version: int


def usage_url(admin: ModelAdmin[Endpoint]) -> URLPattern:
    """Return the page's address, guarded like the admin's own pages."""

    def usage(request: HttpRequest, object_id: str) -> HttpResponse:
        endpoint = admin.get_object(request, object_id)
        if endpoint is not None and not admin.has_view_or_change_permission(request, endpoint):
            raise PermissionDenied
        if endpoint is None or not endpoint.version:
            raise Http404("There is no such endpoint.")
        context = {
            **admin.admin_site.each_context(request),
            "title": f"Usage of {endpoint.name}",
            "opts": admin.opts,
            "original": endpoint,
            "endpoint": endpoint,
            **calling_context(request, endpoint),
            **_callers(request, endpoint),
            **_use(endpoint),
            **_caching(endpoint),
            "purge_address": _purge_address(admin, request, endpoint),
        }
        return TemplateResponse(request, "endpoints/usage.html", context)

    return path("<path:object_id>/usage/", admin.admin_site.admin_view(usage), name=USAGE_URL_NAME)


def _callers(request: HttpRequest, endpoint: Endpoint) -> dict[str, Any]:
    if not request.user.has_perm("endpoints.view_accesstoken"):
        return {"sees_tokens": False}
    callers = callers_of(endpoint)
    sees_bonds = request.user.has_perm("endpoints.change_accesstoken")
    may_add = request.user.has_perm("endpoints.add_accesstoken")
    return {
        "sees_tokens": True,
        "tokens": [_token_row(token, sees_bonds=sees_bonds) for token in callers.access_tokens],
        "sees_bonds": sees_bonds,
        "invalid_tokens": callers.invalid,
        "tokens_bound_elsewhere": callers.bound_elsewhere,
        "add_token_address": _add_token_address(endpoint) if may_add else "",
    }


def _add_token_address(endpoint: Endpoint) -> str:
    """Return the form of a new access token, filled in for this endpoint alone."""
    filled_in = urlencode({"every_endpoint": "", "endpoints": endpoint.pk})
    return f"{reverse('admin:endpoints_accesstoken_add')}?{filled_in}"


def _token_row(token: AccessToken, *, sees_bonds: bool) -> TokenRow:
    now = timezone.now()
    bonds = ", ".join(f"{name}={value}" for name, value in token.bound_arguments.items())
    return TokenRow(
        name=str(token),
        page=reverse("admin:endpoints_accesstoken_change", args=[token.pk]),
        reach="every endpoint" if token.every_endpoint else "chosen endpoints",
        bonds=bonds if sees_bonds else "",
        expires_at=token.expires_at,
        expires_soon=state_of(token, now=now) is TokenState.EXPIRES_SOON,
        last_used=f"{ago((now - token.last_used_at).total_seconds())} ago" if token.last_used_at else "never",
    )


def _use(endpoint: Endpoint) -> dict[str, Any]:
    try:
        use = endpoint_use(endpoint, last_calls=LAST_CALLS)
    except CacheUnavailable:
        return {"use_known": False}
    activity = use.activity
    figures_of_day = [
        ("calls", figures.count(sum(activity.calls))),
        ("refused (4xx)", figures.count(sum(activity.refused))),
        ("failed (5xx)", figures.count(sum(activity.failed))),
        ("from the cache", figures.percent(activity.cached_share)),
    ]
    figures_of_hour = [
        ("median", figures.duration(activity.durations.quantile_ms(0.5))),
        ("95th percentile", figures.duration(activity.durations.quantile_ms(0.95))),
    ]
    return {
        "use_known": True,
        "called": any(activity.calls),
        "sparkline": draw_sparkline(activity, now=datetime.now(UTC)),
        "figures_of_day": figures_of_day,
        "figures_of_hour": figures_of_hour,
        "calls": _call_rows(use),
        "most_calls": LAST_CALLS,
    }


def _call_rows(use: EndpointUse) -> list[CallRow]:
    return [
        CallRow(
            at=figures.utc(call.at),
            access_token=call.access_token,
            prefix=call.access_token_prefix,
            status=call.status,
            kind=figures.kind_of_end(call.status),
            outcome=figures.outcome(call.status, call.error_code, call.reason),
            rows=figures.UNKNOWN if call.error_code else figures.count(call.rows),
            duration=figures.duration(call.milliseconds),
            cache=call.cache or figures.UNKNOWN,
            version=call.version,
        )
        for call in use.last_calls
    ]


def _caching(endpoint: Endpoint) -> dict[str, Any]:
    schedule = warming_schedule(endpoint)
    known: dict[str, Sequence[tuple[str, str]] | None] = {"cache_facts": None, "warming_facts": None}
    if endpoint.cache_seconds:
        try:
            (report,) = cache_reports([endpoint])
        except CacheUnavailable:
            pass
        else:
            known = {"cache_facts": cache_facts(report), "warming_facts": warming_facts(report)}
    return {"schedule": schedule, **known}


def _purge_address(admin: ModelAdmin[Endpoint], request: HttpRequest, endpoint: Endpoint) -> str:
    """Return the address that the button posts to, "" if the person may not purge or nothing is cached."""
    if not endpoint.cache_seconds or not admin.has_change_permission(request, endpoint):
        return ""
    return reverse(f"admin:{PURGE_URL_NAME}", args=[endpoint.pk])
