"""Scheduled work of the log sources."""

from __future__ import annotations

from celery import shared_task

from logsources import services


@shared_task(name="logsources.tasks.roll_partitions")
def roll_partitions() -> None:
    """Create, fill and drop daily partitions; if a source fails, the task fails after all sources had their turn."""
    services.roll_partitions()
