"""Beat's scheduler, for which a moment in the future, left by a clock that was ahead, counts as now."""

from __future__ import annotations

from datetime import datetime
from time import time
from typing import Any

from django_celery_beat.schedulers import DatabaseScheduler, ModelEntry


class Entry(ModelEntry):  # type: ignore[misc]  # django-celery-beat ships no types
    """A schedule whose last run was not later than now."""

    last_run_at: datetime

    def is_due(self) -> Any:
        self.last_run_at = min(self.last_run_at, self._default_now())
        return super().is_due()


class Scheduler(DatabaseScheduler):  # type: ignore[misc]
    """Sends what is due, also after the clock was set back while beat was running."""

    Entry = Entry
    _ticked_at = 0.0

    def tick(self, *args: Any, **kwargs: Any) -> Any:
        before, self._ticked_at = self._ticked_at, time()
        if self._ticked_at < before:
            # Its queue and what it knows of changes are by the clock as it was.
            self._heap, self._initial_read, self._last_timestamp = None, True, None
        return super().tick(*args, **kwargs)
