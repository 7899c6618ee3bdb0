"""The admin's first page: the state of the installation, the use of each endpoint, how fresh the logs are.

It answers within two seconds even if parts are down: people often open it because something is down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final

from django.contrib import admin
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse

from endpoints.admin import figures
from endpoints.admin.explorer import may_explore
from endpoints.admin.figures import Sparkline, draw_sparkline
from endpoints.admin.schedules import may_see_schedules
from endpoints.admin.usage import USAGE_URL_NAME
from endpoints.admin.usage_figures import CallFigures, call_figures
from endpoints.admin.usage_overview import may_see_usage
from endpoints.cache import CacheUnavailable
from endpoints.cache.usage import Activity
from endpoints.calling.calls import call_activity, visible_endpoints
from endpoints.calling.installation import Installation, Part, State, ago, look_at_installation
from endpoints.models import Endpoint

_UP_SINCE: Final = monotonic()
# The icon of each state, beside its word: from the Material Symbols font that comes with unfold.
_ICONS: Final = {
    State.RUNNING: "check_circle",
    State.BUSY: "hourglass_top",
    State.STARTING: "hourglass_top",
    State.UNKNOWN: "help",
    State.DOWN: "error",
}

_PERMISSIONS: Final = (
    "endpoints.view_endpoint",
    "endpoints.change_endpoint",
    "endpoints.add_endpoint",
    "logsources.view_logsource",
    "logsources.change_logsource",
    "logsources.add_logsource",
)

admin.site.index_template = "endpoints/dashboard.html"


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """An endpoint with the figures of its last 24 hours, unknown without Redis."""

    name: str
    page: str
    usage: str
    figures: CallFigures | None
    sparkline: Sparkline | None


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add what the dashboard shows to the context of the admin's index (unfold's DASHBOARD_CALLBACK)."""
    now = datetime.now(UTC)
    installation = look_at_installation(up_seconds=monotonic() - _UP_SINCE)
    may = {name: request.user.has_perm(name) for name in _PERMISSIONS}
    shown = {
        "title": "Dashboard",
        "now": now,
        "parts": [(part, _ICONS[part.state]) for part in installation.parts],
        "summary": _summary(installation.parts),
        "sees_endpoints": may["endpoints.view_endpoint"] or may["endpoints.change_endpoint"],
        "sees_sources": may["logsources.view_logsource"] or may["logsources.change_logsource"],
        "may_add_endpoint": may["endpoints.add_endpoint"],
        "may_add_source": may["logsources.add_logsource"],
    }
    if shown["sees_endpoints"]:
        shown |= _endpoints(now)
    if shown["sees_sources"]:
        shown |= _sources(installation, now=now) | {"may_explore": may_explore(request)}
    return {**context, **shown}


def _summary(parts: Sequence[Part]) -> str:
    """Return the worst in one sentence."""
    troubled = [f"{part.name} is {part.state}" for part in parts if part.state is not State.RUNNING]
    return "; ".join(troubled) + "." if troubled else "Everything is running."


def _endpoints(now: datetime) -> dict[str, Any]:
    endpoints = visible_endpoints(None)
    try:
        activities: Sequence[Activity | None] = call_activity(endpoints)
    except CacheUnavailable:
        activities = [None] * len(endpoints)
    total = sum(sum(activity.calls) for activity in activities if activity)
    return {
        "rows": [_row(endpoint, activity, now=now) for endpoint, activity in zip(endpoints, activities, strict=True)],
        "calls_known": None not in activities,
        "total_calls": f"{figures.count(total)} call{'' if total == 1 else 's'}",
        "no_calls": not total,
    }


def _row(endpoint: Endpoint, activity: Activity | None, *, now: datetime) -> EndpointRow:
    return EndpointRow(
        name=endpoint.name,
        page=reverse("admin:endpoints_endpoint_change", args=[endpoint.pk]),
        usage=reverse(f"admin:{USAGE_URL_NAME}", args=[endpoint.pk]),
        figures=_figures(activity) if activity else None,
        sparkline=draw_sparkline(activity, now=now) if activity else None,
    )


def _figures(activity: Activity) -> CallFigures:
    return call_figures(
        calls=sum(activity.calls),
        refused=sum(activity.refused),
        failed=sum(activity.failed),
        cached_share=activity.cached_share,
        durations=activity.durations,
    )


def _sources(installation: Installation, *, now: datetime) -> dict[str, Any]:
    if installation.sources is None:
        return {"sources": None}
    sources = [
        (source, f"{ago((now - source.newest).total_seconds())} ago" if source.newest else "")
        for source in installation.sources
    ]
    return {"sources": sources}


# --- Navigation -------------------------------------------------------------------------------------------------------
# Callbacks of unfold's settings: the sidebar, with only the links that a person may see, and the files of every page.
# Group -> (label, application, model, icon of the Material Symbols font that comes with unfold)
_GROUPS: Final = {
    "Endpoints": [
        ("Endpoints", "endpoints", "endpoint", "database_search"),
        ("Access tokens", "endpoints", "accesstoken", "key"),
        ("Alerts", "endpoints", "alert", "notifications"),
    ],
    "Logs": [
        ("Log sources", "logsources", "logsource", "storage"),
    ],
    "People": [
        ("Users", "auth", "user", "person"),
        ("Groups", "auth", "group", "group"),
        ("Failed logins", "axes", "accessattempt", "lock_clock"),
    ],
}


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the groups of links in the form of unfold's setting SIDEBAR."""
    dashboard = {"title": "Dashboard", "icon": "monitoring", "link": reverse("admin:index")}
    groups: list[dict[str, Any]] = [{"title": "", "items": [dashboard]}]
    for title, links in _GROUPS.items():
        items = [
            {"title": label, "icon": icon, "link": reverse(f"admin:{application}_{model}_changelist")}
            for label, application, model, icon in links
            if _may_see(request, application, model)
        ]
        if title == "Logs" and may_explore(request):
            items.append({"title": "Log explorer", "icon": "manage_search", "link": reverse("log_explorer")})
        if title == "Endpoints" and may_see_usage(request):
            items.append({"title": "Calls", "icon": "query_stats", "link": reverse("usage_overview")})
        if title == "Endpoints" and may_see_schedules(request):
            items.append({"title": "Schedules", "icon": "schedule", "link": reverse("schedules")})
        if items:
            groups.append({"title": title, "separator": bool(groups), "items": items})
    return groups


def favicon(request: HttpRequest) -> str:
    """Return the address of the icon that browsers show in their tabs."""
    return static("endpoints/favicon.svg")


def no_inline_colors(request: HttpRequest) -> dict[str, dict[str, str]]:
    """Return no colours: they come from `theme_styles`."""
    return {}


def theme_styles(request: HttpRequest) -> str:
    return static("endpoints/theme.css")


def strict_scripts(request: HttpRequest) -> str:
    return static("endpoints/strict-styles.js")


def _may_see(request: HttpRequest, application: str, model: str) -> bool:
    return any(request.user.has_perm(f"{application}.{action}_{model}") for action in ("view", "change"))
