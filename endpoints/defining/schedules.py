"""The schedule of cache warming: one periodic task of django-celery-beat per endpoint that is warmed."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django_celery_beat.models import IntervalSchedule, PeriodicTask

from endpoints.models import Endpoint

WARMING_TASK: Final = "endpoints.tasks.warm_endpoint"


@dataclass(frozen=True, slots=True)
class WarmingSchedule:
    """How often an endpoint is warmed, and when beat sent the task last; not `enabled` = stopped by an operator."""

    every: str
    enabled: bool
    last_sent_at: datetime | None


def warming_schedule(endpoint: Endpoint) -> WarmingSchedule | None:
    """Return the endpoint's schedule as it stands, an operator's own changes included; None where there is none."""
    name = warming_schedule_name(endpoint.pk)
    task = PeriodicTask.objects.filter(name=name).select_related("interval", "crontab", "solar", "clocked").first()
    if task is None:
        return None
    return WarmingSchedule(every=str(task.scheduler), enabled=task.enabled, last_sent_at=task.last_run_at)


def keep_warming_schedule(endpoint: Endpoint) -> None:
    """Make the endpoint's schedule what its settings say: made, changed or removed. In the saver's transaction."""
    name = warming_schedule_name(endpoint.pk)
    if not endpoint.warm_every_seconds:
        remove_warming_schedules([endpoint.pk])
        return
    every, _ = IntervalSchedule.objects.get_or_create(
        every=endpoint.warm_every_seconds, period=IntervalSchedule.SECONDS
    )
    PeriodicTask.objects.update_or_create(
        name=name,
        defaults={
            "task": WARMING_TASK,
            "interval": every,
            "args": json.dumps([str(endpoint.pk)]),
            "enabled": True,
            "description": f"Warms the cache of {endpoint.name}. Made and changed by saving the endpoint.",
            # A run that waited for a worker until the next one was due has nothing left to do.
            "expire_seconds": endpoint.warm_every_seconds,
        },
    )


def remove_warming_schedules(endpoint_ids: list[uuid.UUID]) -> None:
    """Remove the schedules of these endpoints, one by one: beat learns of each through its own save and delete."""
    for task in PeriodicTask.objects.filter(name__in=[warming_schedule_name(pk) for pk in endpoint_ids]):
        task.delete()


def warming_schedule_name(endpoint_id: uuid.UUID) -> str:
    return f"warm endpoint {endpoint_id}"
