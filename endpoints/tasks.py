"""Scheduled work of the endpoints."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from endpoints.alerting.evaluation import evaluate_alerts
from endpoints.alerting.messages import deliver_messages
from endpoints.auditing import call_partitions
from endpoints.calling import warming
from endpoints.calling.installation import note_worker_heartbeat
from endpoints.calling.scheduled_runs import TaskResult
from endpoints.defining import upkeep


@shared_task(name="endpoints.tasks.drop_old_sandbox_schemas")
def drop_old_sandbox_schemas() -> TaskResult:
    """Drop the sandbox schemas of older versions and of deleted endpoints."""
    dropped = upkeep.drop_old_sandbox_schemas()
    return TaskResult(f"{dropped} schema{'' if dropped == 1 else 's'} dropped.")


@shared_task(name="endpoints.tasks.note_heartbeat")
def note_heartbeat() -> None:
    """Say that beat sends tasks and a worker runs them."""
    note_worker_heartbeat()


@shared_task(name="endpoints.tasks.warm_endpoint")
def warm_endpoint(endpoint_id: str) -> TaskResult:
    """Renew the results of an endpoint that were asked for within its caching period."""
    run = warming.warm_endpoint(UUID(endpoint_id))
    return TaskResult(run.in_words(), failures=run.failed)


@shared_task(name="endpoints.tasks.roll_call_partitions")
def roll_call_partitions() -> None:
    """Make the next daily partitions of the audit log and drop those that are no longer kept."""
    call_partitions.roll_call_partitions()


@shared_task(name="endpoints.tasks.check_alerts")
def check_alerts() -> None:
    """Check every alert that is due, then send what waits to be sent, also what could not be delivered before."""
    evaluate_alerts()
    deliver_messages()
