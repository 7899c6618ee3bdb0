"""An endpoint's cached results: what the cache contains and has done, and the address that empties it."""

from __future__ import annotations

from collections.abc import Callable
from time import time
from typing import Any, Final

from django.contrib import messages
from django.contrib.admin.options import ModelAdmin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import path, reverse

from endpoints.admin import figures
from endpoints.calling.installation import ago
from endpoints.calling.purging import CacheReport, purge_cache
from endpoints.errors import EndpointError
from endpoints.models import Endpoint

PURGE_URL_NAME: Final = "endpoints_endpoint_purge"


def cache_facts(report: CacheReport) -> list[tuple[str, str]]:
    """Return what the cache contains and has done, as names and values."""
    statistics = report.statistics
    return [
        ("results in the cache", figures.count(report.live_entries)),
        ("hits", figures.count(statistics.hits)),
        ("stale hits", figures.count(statistics.stale)),
        ("misses", figures.count(statistics.misses)),
        ("without the cache", figures.count(statistics.bypass)),
    ]


def warming_facts(report: CacheReport) -> list[tuple[str, str]]:
    """Return what warming has done, as names and values; nothing before its first run."""
    statistics = report.statistics
    if not statistics.warm_runs:
        return []
    facts = [
        ("last run", f"{_when(statistics.last_warm_at)}, took {figures.duration(statistics.last_warm_seconds * 1000)}"),
        ("runs", figures.count(statistics.warm_runs)),
        ("results renewed", figures.count(statistics.warmed)),
        ("renewals that failed", figures.count(statistics.warm_failures)),
    ]
    if statistics.last_error:
        facts.append(("last failure", f"{statistics.last_error.replace('_', ' ')}, {_when(statistics.last_error_at)}"))
    return facts


def _when(unix_seconds: float) -> str:
    return f"{ago(time() - unix_seconds)} ago ({figures.moment(figures.utc(unix_seconds))} UTC)"


def purge_url(admin: ModelAdmin[Endpoint]) -> Any:
    """Return the address that the button posts to, guarded like the admin's own pages."""

    def purge(request: HttpRequest, object_id: str) -> HttpResponse:
        endpoint = admin.get_object(request, object_id)
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if endpoint is None or not admin.has_change_permission(request, endpoint):
            raise PermissionDenied
        report_purge(request, endpoint, admin.message_user)
        return HttpResponseRedirect(reverse("admin:endpoints_endpoint_usage", args=[endpoint.pk]))

    return path("<path:object_id>/purge/", admin.admin_site.admin_view(purge), name=PURGE_URL_NAME)


def report_purge(request: HttpRequest, endpoint: Endpoint, tell: Callable[..., None]) -> None:
    """Remove the endpoint's cached results and say how many there were, or why they may still be there."""
    try:
        purged = purge_cache(str(endpoint.pk))
    except EndpointError as error:
        tell(request, f"{endpoint}: {error.message}", messages.ERROR)
    else:
        tell(request, f"{endpoint}: {purged.results} cached results removed.", messages.SUCCESS)
