"""The work after a save: its schedule of cache warming, and dropping sandbox schemas that nobody needs any more."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from endpoints.access.change_marker import changing
from endpoints.definition import MAX_STATEMENT_TIMEOUT_SECONDS
from endpoints.log_database.publishing import PublishedSchema, drop_schemas, published_schemas
from endpoints.models import Endpoint

# --- Schedules --------------------------------------------------------------------------------------------------------
# The schedule of cache warming: one periodic task of django-celery-beat per endpoint that is warmed.
WARMING_TASK: Final = "endpoints.tasks.warm_endpoint"


@dataclass(frozen=True, slots=True)
class WarmingSchedule:
    """How often an endpoint is warmed, and when beat sent the task last; not `enabled` = stopped by an operator."""

    every: str
    enabled: bool
    last_sent_at: datetime | None


def warming_schedule(endpoint: Endpoint) -> WarmingSchedule | None:
    """Return the endpoint's current schedule, an operator's own changes included; None if there is none."""
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
            "description": f"Warms the cache of {endpoint.name}. Saving the endpoint creates and changes it.",
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


# --- Sandbox schemas --------------------------------------------------------------------------------------------------
# A call that has read the older version's row runs for at most the longest timeout, once more after a lost connection.
KEPT_AFTER_SAVE: Final = timedelta(seconds=2 * MAX_STATEMENT_TIMEOUT_SECONDS)


def drop_old_sandbox_schemas() -> int:
    """Drop the schemas that no call can still use and return how many; repeatable. Raises psycopg.Error."""
    schemas = published_schemas()
    # Read after the schemas: a version saved in between is newer than every schema seen here.
    current: dict[UUID | None, tuple[int | None, datetime]] = {
        pk: (version if sandboxing else None, updated_at)
        for pk, version, sandboxing, updated_at in Endpoint.objects.values_list(
            "pk", "version", "sandboxing", "updated_at"
        )
    }
    now = timezone.now()
    return drop_schemas(
        schema.name
        for schema in schemas
        if not _is_wanted(schema, *current.get(schema.endpoint_id, (None, schema.published_at)), now=now)
    )


def _is_wanted(schema: PublishedSchema, version: int | None, saved_at: datetime, *, now: datetime) -> bool:
    """Return whether a schema belongs to the current version, or did a moment ago, or may soon."""
    return schema.version == version or now - max(saved_at, schema.published_at) < KEPT_AFTER_SAVE


def delete_endpoints(endpoints: Iterable[Endpoint]) -> None:
    """Delete endpoints with their parameters, and, once that is committed, their sandbox schemas."""
    with changing(), transaction.atomic():
        for endpoint in endpoints:
            remove_warming_schedules([endpoint.pk])
            transaction.on_commit(partial(_drop_schemas_of, endpoint.pk.hex), robust=True)
            endpoint.delete()


def _drop_schemas_of(endpoint_hex: str) -> None:
    drop_schemas(schema.name for schema in published_schemas() if schema.name.startswith(f"sandbox_{endpoint_hex}_"))
