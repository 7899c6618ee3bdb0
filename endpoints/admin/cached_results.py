"""An endpoint's part of its page on the cache: what it holds, what it has done, and the button that empties it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.contrib import messages
from django.contrib.admin.options import ModelAdmin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from endpoints.errors import EndpointError
from endpoints.models import Endpoint
from endpoints.services import CacheReport, CacheUnavailable, cache_reports, purge_cache

PURGE_URL_NAME = "endpoints_endpoint_purge"


def describe_cache(endpoint: Endpoint) -> SafeString | str:
    """Return what Redis knows of the endpoint's cache, and a button that removes the results."""
    if not endpoint.cache_seconds:
        return "caching is disabled: every call runs the query"
    try:
        (report,) = cache_reports([endpoint])
    except CacheUnavailable:
        return "Redis does not answer: every call runs the query"
    # Part of the endpoint's form, sent elsewhere: its fields and the CSRF token go with it, and nothing is saved.
    button = format_html(
        '<button type="submit" formaction="{}" formnovalidate class="border border-base-200 font-medium px-3 py-1 '
        'rounded-default dark:border-base-700">Remove the cached results</button>',
        reverse(f"admin:{PURGE_URL_NAME}", args=[endpoint.pk]),
    )
    lines = format_html_join("", "<li>{}: {}</li>", _facts(report))
    return format_html("<ul>{}</ul>{}", lines, button)


def _facts(report: CacheReport) -> list[tuple[str, str]]:
    statistics = report.statistics
    calls = f"{statistics.hits} hits, {statistics.stale} stale, {statistics.misses} misses, {statistics.bypass} past it"
    facts = [("results in the cache", str(report.live_entries)), ("calls", calls)]
    if statistics.warm_runs:
        warmed = f"{statistics.warmed} renewed, {statistics.warm_failures} failed in {statistics.warm_runs} runs"
        facts.append(("warming", warmed))
        last = f"{_moment(statistics.last_warm_at)}, in {statistics.last_warm_seconds:.3f} s"
        facts.append(("last warm run", last))
    if statistics.last_error:
        facts.append(("last failure of warming", f"{statistics.last_error}, {_moment(statistics.last_error_at)}"))
    return facts


def _moment(unix_seconds: float) -> str:
    return f"{datetime.fromtimestamp(unix_seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def purge_url(admin: ModelAdmin[Endpoint]) -> Any:
    """Return the address that the button posts to, guarded as the admin's own pages are."""

    def purge(request: HttpRequest, object_id: str) -> HttpResponse:
        endpoint = admin.get_object(request, object_id)
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if endpoint is None or not admin.has_change_permission(request, endpoint):
            raise PermissionDenied
        report_purge(request, endpoint, admin.message_user)
        return HttpResponseRedirect(reverse("admin:endpoints_endpoint_change", args=[endpoint.pk]))

    return path("<path:object_id>/purge/", admin.admin_site.admin_view(purge), name=PURGE_URL_NAME)


def report_purge(request: HttpRequest, endpoint: Endpoint, tell: Callable[..., None]) -> None:
    """Remove the endpoint's cached results and say how many there were, or why they may still be there."""
    try:
        purged = purge_cache(str(endpoint.pk))
    except EndpointError as error:
        tell(request, f"{endpoint}: {error.message}", messages.ERROR)
    else:
        tell(request, f"{endpoint}: {purged.results} cached results removed.", messages.SUCCESS)
