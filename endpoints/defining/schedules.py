"""The schedules of the installation in the words of the product: what each is for, its last run and its next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from django_celery_beat.models import PeriodicTask

from endpoints.cache import CacheUnavailable, clock, usage
from endpoints.calling.scheduled_runs import ScheduledRun, forget_scheduled_runs, last_scheduled_runs
from endpoints.defining.upkeep import WARMING_TASK, warming_schedule_name
from endpoints.models import Endpoint

# Task -> name, and what it is for
_UPKEEP: Final = {
    "logsources.tasks.roll_partitions": (
        "Partitions of log sources",
        "Creates the partitions of the coming days and drops the days that are no longer kept.",
    ),
    "endpoints.tasks.drop_old_sandbox_schemas": (
        "Sandbox schemas",
        "Drops the schemas of older versions and of deleted endpoints.",
    ),
    "endpoints.tasks.note_heartbeat": (
        "Heartbeat",
        "Tells the dashboard that beat sends tasks and a worker runs them.",
    ),
    "endpoints.tasks.roll_call_partitions": (
        "Partitions of the audit log",
        "Creates the partitions of the coming days and drops the days that are no longer kept.",
    ),
    "endpoints.tasks.check_alerts": (
        "Alerts",
        "Checks every alert and sends the messages that wait.",
    ),
    "celery.backend_cleanup": ("Task results", "Celery's own: removes old results of tasks, of which none are kept."),
}


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule; `next_at` is None if it is stopped, or if it is over."""

    pk: int
    name: str
    purpose: str
    endpoint: Endpoint | None  # whose cache it warms
    every: str
    is_enabled: bool
    last: ScheduledRun | None
    next_at: datetime | None
    next_results: int | None  # that warming renews then; None if unknown, and for other tasks


@dataclass(frozen=True, slots=True)
class Schedules:
    """Every schedule, those that warm an endpoint first, by name; without Redis no run is known."""

    schedules: tuple[Schedule, ...]
    runs_known: bool


def read_schedules(*, now: datetime) -> Schedules:
    """Return the schedules with their last runs."""
    tasks = list(PeriodicTask.objects.select_related("interval", "crontab", "solar", "clocked"))
    endpoints = {warming_schedule_name(each.pk): each for each in Endpoint.objects.filter(version__gt=0)}
    try:
        runs = last_scheduled_runs()
        forget_scheduled_runs(sorted(runs.keys() - {task.name for task in tasks}))
        results = _results_to_renew([endpoints[task.name] for task in tasks if task.name in endpoints])
        runs_known = True
    except CacheUnavailable:
        runs, results, runs_known = {}, {}, False
    schedules = [
        _schedule(task, endpoints.get(task.name), runs.get(task.name), results.get(task.name), now=now)
        for task in tasks
    ]
    schedules.sort(key=lambda schedule: (schedule.endpoint is None, schedule.name))
    return Schedules(tuple(schedules), runs_known)


def _schedule(
    task: PeriodicTask, endpoint: Endpoint | None, last: ScheduledRun | None, results: int | None, *, now: datetime
) -> Schedule:
    if endpoint is not None:
        name, purpose = endpoint.name, "Renews the cached results that callers asked for."
    elif task.task == WARMING_TASK:
        name, purpose = str(task.name), "Warms an endpoint that does not exist any more."
    else:
        name, purpose = _UPKEEP.get(task.task, (str(task.name), str(task.description or task.task)))
    return Schedule(
        pk=task.pk,
        name=name,
        purpose=purpose,
        endpoint=endpoint,
        every=_every(task),
        is_enabled=task.enabled,
        last=last,
        next_at=_next_at(task, last, now=now),
        next_results=results,
    )


def _every(task: PeriodicTask) -> str:
    """Return how often it runs, in words: every 5 minutes."""
    if task.crontab:
        return str(task.crontab.human_readable)
    if not task.interval:
        return str(task.scheduler)
    seconds = task.interval.schedule.run_every.total_seconds()
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        if seconds and seconds % length == 0:
            number = int(seconds // length)
            return f"every {unit}" if number == 1 else f"every {number:,} {unit}s"
    return str(task.scheduler)


def _next_at(task: PeriodicTask, last: ScheduledRun | None, *, now: datetime) -> datetime | None:
    """Return when beat sends the task next; in the past if it is late."""
    if not task.enabled or (task.one_off and task.total_run_count):
        return None
    # Beat writes down what it has sent every three minutes; a worker may have noted a later run.
    sent = [moment for moment in (task.last_run_at, datetime.fromtimestamp(last.at, UTC) if last else None) if moment]
    remaining: timedelta = task.schedule.remaining_estimate(min(now, max(sent, default=task.date_changed)))
    moment = now + remaining
    return max(moment, task.start_time) if task.start_time else moment


def _results_to_renew(endpoints: Sequence[Endpoint]) -> dict[str, int]:
    """Return how many results were asked for within the caching period, by name of the schedule."""
    asked = [(each.pk.hex, each.version, float(each.cache_seconds or 0)) for each in endpoints]
    counts = usage.count_worth_warming(asked, now=clock()) if asked else []
    return {warming_schedule_name(each.pk): count for each, count in zip(endpoints, counts, strict=True)}
