"""Scheduled work of the endpoints."""

from __future__ import annotations

from celery import shared_task

from endpoints import services


@shared_task(name="endpoints.tasks.drop_old_sandbox_schemas")
def drop_old_sandbox_schemas() -> None:
    """Drop the sandbox schemas of older versions and of deleted endpoints."""
    services.drop_old_sandbox_schemas()
