"""The page of the schedules: which endpoints are warmed and what keeps the installation in order, last and next.

Everybody who sees endpoints sees it. The forms of django-celery-beat, where schedules are changed by hand, are for
those who may see them: owners.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from endpoints.admin import figures
from endpoints.admin.usage import USAGE_URL_NAME
from endpoints.calling.installation import ago
from endpoints.defining.schedules import Schedule, read_schedules

# Beat writes down every three minutes what it has sent: without noted runs a schedule may seem late for that long.
LATE_SECONDS: Final = 240
_FORMS: Final = (
    ("Scheduled tasks", "periodictask"),
    ("Intervals", "intervalschedule"),
    ("Crontabs", "crontabschedule"),
)


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule as the page shows it; addresses are "" where the person may not go."""

    name: str
    page: str
    purpose: str
    every: str
    last_at: datetime | None
    last_ago: str
    took: str
    result: str
    has_failed: bool
    next_run: str
    next_results: str
    is_stopped: bool
    is_late: bool
    form: str


def may_see_schedules(request: HttpRequest) -> bool:
    """Return whether this person may read the page."""
    return any(request.user.has_perm(f"endpoints.{action}_endpoint") for action in ("view", "change"))


def schedules_page(request: HttpRequest) -> HttpResponse:
    """Show the page. Raises PermissionDenied."""
    if not may_see_schedules(request):
        raise PermissionDenied
    now = datetime.now(UTC)
    found = read_schedules(now=now)
    may_edit = _may_see_form(request, "periodictask")
    rows = [(schedule, _row(schedule, now=now, may_edit=may_edit)) for schedule in found.schedules]
    context = {
        **admin.site.each_context(request),
        "title": "Schedules",
        "now": now,
        "runs_known": found.runs_known,
        "warming": [row for schedule, row in rows if schedule.endpoint is not None],
        "upkeep": [row for schedule, row in rows if schedule.endpoint is None],
        "forms": [
            (label, reverse(f"admin:django_celery_beat_{model}_changelist"))
            for label, model in _FORMS
            if _may_see_form(request, model)
        ],
    }
    return render(request, "endpoints/schedules.html", context)


def _may_see_form(request: HttpRequest, model: str) -> bool:
    return request.user.has_perm(f"django_celery_beat.view_{model}")


def _row(schedule: Schedule, *, now: datetime, may_edit: bool) -> ScheduleRow:
    last, endpoint, results = schedule.last, schedule.endpoint, schedule.next_results
    wait = None if schedule.next_at is None else (schedule.next_at - now).total_seconds()
    return ScheduleRow(
        name=schedule.name,
        page=reverse(f"admin:{USAGE_URL_NAME}", args=[endpoint.pk]) if endpoint is not None else "",
        purpose=schedule.purpose,
        every=schedule.every,
        last_at=figures.utc(last.at) if last else None,
        last_ago=f"{ago(now.timestamp() - last.at)} ago" if last else "",
        took=figures.duration(last.seconds * 1000) if last else "",
        result=last.text if last else "",
        has_failed=bool(last and last.failures),
        next_run=_next_run(schedule, wait),
        next_results="" if results is None else f"{figures.count(results)} result{'' if results == 1 else 's'}",
        is_stopped=not schedule.is_enabled,
        is_late=wait is not None and wait < -LATE_SECONDS,
        form=reverse("admin:django_celery_beat_periodictask_change", args=[schedule.pk]) if may_edit else "",
    )


def _next_run(schedule: Schedule, wait: float | None) -> str:
    if not schedule.is_enabled:
        return "stopped"
    if wait is None:
        return "none: it ran once"
    if wait < -LATE_SECONDS:
        return f"{ago(-wait)} late"
    return f"in {ago(wait)}" if wait >= 1 else "now"
