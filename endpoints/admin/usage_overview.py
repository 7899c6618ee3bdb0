"""The pages about calls: how endpoints and access tokens are used over an hour, a day or a week, and the single calls.

Both read the audit log, for the people who may see the Usage page of an endpoint.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db import Error
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path, reverse

from config.deadlines import answer_within
from endpoints.admin import figures
from endpoints.admin.usage_figures import draw_charts, facts_of, figure_row, point_rows
from endpoints.auditing.call_log import RECORDER
from endpoints.auditing.reports import (
    Figures,
    Period,
    RecordedCall,
    Scope,
    calls_without_rows,
    recorded_calls,
    refusals,
    slowest_arguments,
    usage_over,
)
from endpoints.models import AccessToken, Endpoint

PERMISSIONS: Final = ("endpoints.view_endpoint", "endpoints.change_endpoint")
# Values may name customers, like the bonds of access tokens: for people who may read rows of every project anyway.
VALUES_PERMISSION: Final = "endpoints.change_endpoint"
READ_SECONDS: Final = 5.0
LISTED: Final = 20
CALLS_ON_A_PAGE: Final = 100
_PERIODS: Final = {Period.HOUR: "Last hour", Period.DAY: "Last day", Period.WEEK: "Last week"}
_LENGTHS: Final = {Period.HOUR: timedelta(hours=1), Period.DAY: timedelta(days=1), Period.WEEK: timedelta(days=7)}


@dataclass(frozen=True, slots=True)
class Choice:
    """What the page shows: read from its address."""

    period: Period
    scope: Scope

    @classmethod
    def of(cls, request: HttpRequest) -> Choice:
        """Return what the address says; what it says wrongly counts as not said."""
        period, endpoint = Period.DAY, ""
        with suppress(ValueError):
            period = Period(request.GET.get("over", ""))
        with suppress(ValueError):
            endpoint = str(uuid.UUID(request.GET.get("endpoint", "")))
        return cls(period, Scope(endpoint, request.GET.get("token", "").replace("\0", "")[:16]))

    def address(self, page: str, **changed: str) -> str:
        """Return the address of a page that shows the same but for what is changed."""
        chosen = {"over": self.period.value, "endpoint": self.scope.endpoint_id, "token": self.scope.prefix, **changed}
        return f"{reverse(page)}?{urlencode({name: value for name, value in chosen.items() if value})}"


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the endpoints by UUID and of the access tokens by prefix that exist at this moment."""

    endpoints: Mapping[str, str]
    tokens: Mapping[str, str]

    @classmethod
    def read(cls) -> Names:
        endpoints = {str(pk): name for pk, name in Endpoint.objects.order_by("name").values_list("pk", "name")}
        return cls(endpoints, {token.prefix: str(token) for token in AccessToken.objects.order_by("name")})


def usage_urls() -> list[URLPattern]:
    """Return the addresses of both pages."""
    return [
        path("", admin.site.admin_view(usage_page), name="usage_overview"),
        path("calls/", admin.site.admin_view(calls_page), name="recorded_calls"),
    ]


def may_see_usage(request: HttpRequest) -> bool:
    """Tell whether this person may see how endpoints are used."""
    return any(request.user.has_perm(name) for name in PERMISSIONS)


def usage_page(request: HttpRequest) -> HttpResponse:
    """Show charts, endpoints, access tokens, the slowest calls and the refused ones of a period."""
    choice, context = _begin(request, "Calls")
    now = datetime.now(UTC)
    RECORDER.settle()
    try:
        with answer_within(READ_SECONDS):
            with_values = request.user.has_perm(VALUES_PERMISSION)
            context |= _usage(choice, Names.read(), now=now, with_values=with_values)
    except Error:
        context["is_unknown"] = True
    return render(request, "endpoints/usage/overview.html", context)


def calls_page(request: HttpRequest) -> HttpResponse:
    """Show the rows of the audit log, the newest first."""
    choice, context = _begin(request, "Audit log of calls")
    now = datetime.now(UTC)
    before = now + timedelta(minutes=1)
    with suppress(ValueError, OverflowError, OSError):  # no number, or no time
        before = datetime.fromtimestamp(float(request.GET.get("before", "")), UTC)
    only_failed = request.GET.get("only") == "failed"
    RECORDER.settle()
    try:
        with answer_within(READ_SECONDS):
            since = now - _LENGTHS[choice.period]
            found = recorded_calls(
                before=before, since=since, scope=choice.scope, limit=CALLS_ON_A_PAGE + 1, only_failed=only_failed
            )
            names = Names.read()
    except Error:
        return render(request, "endpoints/usage/recorded_calls.html", context | {"is_unknown": True})
    shown = found[:CALLS_ON_A_PAGE]
    if not request.user.has_perm(VALUES_PERMISSION):
        shown = [call.without_values() for call in shown]
    only = {"only": "failed"} if only_failed else {}
    older = {"before": repr(shown[-1].at.timestamp()), **only} if len(found) > len(shown) else None
    context |= _choices(choice, names, "recorded_calls") | {
        "calls": [_CallRow.of(call) for call in shown],
        "only_failed": only_failed,
        "older": choice.address("recorded_calls", **older) if older else "",
        "overview": choice.address("usage_overview"),
    }
    return render(request, "endpoints/usage/recorded_calls.html", context)


def _begin(request: HttpRequest, title: str) -> tuple[Choice, dict[str, Any]]:
    if not may_see_usage(request):
        raise PermissionDenied
    context = {**admin.site.each_context(request), "title": title, "kept_days": settings.ENDPOINTS_AUDIT_DAYS}
    return Choice.of(request), context


def _choices(choice: Choice, names: Names, page: str) -> dict[str, Any]:
    return {
        "choice": choice,
        "periods": [
            (label, choice.address(page, over=each.value), each is choice.period) for each, label in _PERIODS.items()
        ],
        "endpoint_choices": names.endpoints.items(),
        "token_choices": names.tokens.items(),
    }


# --- Overview ---------------------------------------------------------------------------------------------------------
def _usage(choice: Choice, names: Names, *, now: datetime, with_values: bool) -> dict[str, Any]:
    report = usage_over(choice.period, now=now, scope=choice.scope)
    slowest = slowest_arguments(report.start, scope=choice.scope, limit=LISTED, with_values=with_values)
    refused = refusals(report.start, scope=choice.scope, limit=LISTED)
    endpoints = [
        figure_row(
            names.endpoints.get(key, f"deleted ({key[:8]}…)"), choice.address("usage_overview", endpoint=key), each
        )
        for key, each in _busiest_first(report.by_endpoint)
    ]
    tokens = [
        figure_row(names.tokens.get(key, f"{key}…"), choice.address("usage_overview", token=key), each)
        for key, each in _busiest_first(report.by_prefix)
    ]
    return _choices(choice, names, "usage_overview") | {
        "now": now,
        "report": report,
        "charts": draw_charts(report, choice.period),
        "points": point_rows(report, choice.period),
        "facts": facts_of(report.total),
        "endpoints": endpoints[:100],
        "tokens": tokens[:100],
        "slowest": [(_CallRow.of(each.slowest), figures.count(each.calls)) for each in slowest],
        "refused": [(each, figures.count(each.calls), each.error_code.replace("_", " ")) for each in refused],
        "without_rows": figures.count(missing) if (missing := calls_without_rows(report.start)) else "",
        "calls_address": choice.address("recorded_calls"),
    }


def _busiest_first(found: Mapping[str, Figures]) -> list[tuple[str, Figures]]:
    return sorted(found.items(), key=lambda item: -item[1].calls)


# --- Calls ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _CallRow:
    """A row of the audit log as the page writes it."""

    call: RecordedCall
    state: str  # answered, refused or failed
    outcome: str
    duration: str
    rows: str

    @classmethod
    def of(cls, call: RecordedCall) -> _CallRow:
        return cls(
            call=call,
            state=figures.kind_of_end(call.status),
            outcome=figures.outcome(call.status, call.error_code, call.reason),
            duration=figures.duration(call.milliseconds),
            rows=figures.UNKNOWN if call.error_code else figures.count(call.rows),
        )
