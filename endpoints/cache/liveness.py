"""A sign of life that the Celery worker leaves in Redis whenever it runs the task for it."""

from __future__ import annotations

from typing import Final

from endpoints.cache.connection import ask_for
from endpoints.cache.keys import PREFIX

_NAME: Final = f"{PREFIX}:worker-seen"
_KEPT_SECONDS: Final = 7 * 24 * 3600


def note_worker(*, now: float) -> None:
    """Say that a worker runs tasks at this moment, unix seconds. Raises CacheUnavailable."""
    ask_for("SET", _NAME, now, "EX", _KEPT_SECONDS)


def worker_seen_at() -> float | None:
    """Return when a worker was last seen, in unix seconds; None for not within a week. Raises CacheUnavailable."""
    stored = ask_for("GET", _NAME)
    return None if stored is None else float(stored)
