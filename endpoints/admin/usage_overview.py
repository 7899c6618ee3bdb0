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
from endpoints.admin.charts import Axis, Chart, draw_bars, draw_lines
from endpoints.auditing.call_log import RECORDER
from endpoints.auditing.reports import (
    Figures,
    Period,
    RecordedCall,
    Scope,
    UsageReport,
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
class FigureRow:
    """An endpoint or an access token with its figures; `page` shows it alone."""

    name: str
    page: str
    calls: str
    refused: str
    failed: str
    has_failed: bool
    cached: str
    median: str
    slow: str


@dataclass(frozen=True, slots=True)
class PointRow:
    """A point of the charts as a row of their table."""

    at: datetime
    calls: str
    refused: str
    failed: str
    cached: str
    median: str
    slow: str


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
        return cls(endpoints, dict(AccessToken.objects.order_by("name").values_list("prefix", "name")))


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
    choice, context = _begin(request, "Usage of endpoints")
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
        "token_choices": [(prefix, f"{name} ({prefix}…)") for prefix, name in names.tokens.items()],
    }


# --- Overview ---------------------------------------------------------------------------------------------------------
def _usage(choice: Choice, names: Names, *, now: datetime, with_values: bool) -> dict[str, Any]:
    report = usage_over(choice.period, now=now, scope=choice.scope)
    slowest = slowest_arguments(report.start, scope=choice.scope, limit=LISTED, with_values=with_values)
    refused = refusals(report.start, scope=choice.scope, limit=LISTED)
    endpoints = [
        _figure_row(
            names.endpoints.get(key, f"deleted ({key[:8]}…)"), choice.address("usage_overview", endpoint=key), each
        )
        for key, each in _busiest_first(report.by_endpoint)
    ]
    tokens = [
        _figure_row(names.tokens.get(key, f"{key}…"), choice.address("usage_overview", token=key), each)
        for key, each in _busiest_first(report.by_prefix)
    ]
    return _choices(choice, names, "usage_overview") | {
        "now": now,
        "report": report,
        "charts": draw_charts(report, choice.period),
        "points": _point_rows(report, choice.period),
        "facts": _facts(report.total),
        "endpoints": endpoints[:100],
        "tokens": tokens[:100],
        "slowest": [(_CallRow.of(each.slowest), figures.count(each.calls)) for each in slowest],
        "refused": [(each, figures.count(each.calls), each.error_code.replace("_", " ")) for each in refused],
        "without_rows": figures.count(missing) if (missing := calls_without_rows(report.start)) else "",
        "calls_address": choice.address("recorded_calls"),
    }


def _busiest_first(found: Mapping[str, Figures]) -> list[tuple[str, Figures]]:
    return sorted(found.items(), key=lambda item: -item[1].calls)


def _figure_row(name: str, page: str, of: Figures) -> FigureRow:
    return FigureRow(
        name=name,
        page=page,
        calls=figures.count(of.calls),
        refused=figures.count(of.refused),
        failed=figures.count(of.failed),
        has_failed=bool(of.failed),
        cached=figures.percent(of.cached_share),
        median=figures.duration(of.durations.quantile_ms(0.5)),
        slow=figures.duration(of.durations.quantile_ms(0.95)),
    )


def _facts(total: Figures) -> list[tuple[str, str]]:
    return [
        ("calls", figures.count(total.calls)),
        ("refused (4xx)", figures.count(total.refused)),
        ("failed (5xx)", figures.count(total.failed)),
        ("from the cache", figures.percent(total.cached_share)),
        ("median", figures.duration(total.durations.quantile_ms(0.5))),
        ("95th percentile", figures.duration(total.durations.quantile_ms(0.95))),
    ]


def _point_rows(report: UsageReport, period: Period) -> list[PointRow]:
    moments = Axis(report.start, period.step, period.points).moments()
    return [
        PointRow(
            at=at,
            calls=figures.count(point.calls),
            refused=figures.count(point.refused),
            failed=figures.count(point.failed),
            cached=figures.percent(point.cached_share),
            median=figures.duration(point.durations.quantile_ms(0.5)),
            slow=figures.duration(point.durations.quantile_ms(0.95)),
        )
        for at, point in zip(moments, report.points, strict=True)
        if point.calls
    ]


def draw_charts(report: UsageReport, period: Period) -> list[Chart]:
    """Return the charts of calls, errors, durations and of the share of the cache."""
    axis, points, total = Axis(report.start, period.step, period.points), report.points, report.total
    most = max(point.calls for point in points)
    number = _whole_number
    answered = [point.calls - point.refused - point.failed for point in points]
    refused, failed = [point.refused for point in points], [point.failed for point in points]
    medians = [point.durations.quantile_ms(0.5) for point in points]
    slow = [point.durations.quantile_ms(0.95) for point in points]
    shares = [None if point.cached_share is None else point.cached_share * 100 for point in points]
    return [
        draw_bars(
            "Calls",
            f"{figures.count(total.calls)} {'call' if total.calls == 1 else 'calls'}; at most {figures.count(most)} in a bar.",
            axis,
            {"answered": answered, "refused": refused, "failed": failed},
            [("answered", "answered"), ("refused", "refused (4xx)"), ("failed", "failed (5xx)")],
            number,
        ),
        draw_bars(
            "Errors",
            f"{figures.count(total.refused)} calls refused, {figures.count(total.failed)} failed.",
            axis,
            {"failed": failed, "refused": refused},
            [("failed", "failed (5xx)"), ("refused", "refused (4xx)")],
            number,
        ),
        draw_lines(
            "Duration",
            f"Median {figures.duration(total.durations.quantile_ms(0.5))}, "
            f"95th percentile {figures.duration(total.durations.quantile_ms(0.95))}.",
            axis,
            {"median": medians, "slow": slow},
            [("median", "median"), ("slow", "95th percentile")],
            figures.duration,
        ),
        draw_lines(
            "From the cache",
            f"{figures.percent(total.cached_share)} of answered calls came from the cache.",
            axis,
            {"cached": shares},
            [("cached", "share of answered calls")],
            lambda share: f"{share:.0f} %",
            top=100,
        ),
    ]


def _whole_number(value: float) -> str:
    return figures.count(round(value)) if value == round(value) else f"{value:g}"


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
            state="answered" if call.status < 400 else "refused" if call.status < 500 else "failed",
            outcome=call.error_code.replace("_", " ") or ("not modified" if call.status == 304 else "answered"),
            duration=figures.duration(call.milliseconds),
            rows=figures.UNKNOWN if call.error_code else figures.count(call.rows),
        )
