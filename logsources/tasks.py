"""Scheduled work of the log sources."""

from __future__ import annotations

from celery import shared_task

from logsources import services


@shared_task(name="logsources.tasks.roll_partitions")
def roll_partitions() -> None:
    """Make, fill and drop daily partitions; fails, after all sources had their turn, when one of them failed."""
    services.roll_partitions()
