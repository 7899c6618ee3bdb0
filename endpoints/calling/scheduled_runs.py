"""What became of scheduled tasks: when each schedule ran last, how long it took and what it did.

A worker notes every run of a schedule in Redis; tasks that somebody else sends are not noted.

    lqe:scheduled-runs    <name of the schedule> -> {"at": unix seconds of its start, "seconds": x, "text": text,
                          "failures": n}
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from time import perf_counter, time
from typing import Any, Final

import orjson
from celery import Task

from endpoints.cache import CacheUnavailable
from endpoints.cache.connection import ask_for
from endpoints.cache.keys import PREFIX

_RUNS: Final = f"{PREFIX}:scheduled-runs"


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task did, in a sentence for operators, and how many of its parts failed."""

    text: str
    failures: int = 0


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """A run that has ended; `at` is when it began, in unix seconds."""

    at: float
    seconds: float
    text: str
    failures: int


class NotedTask(Task):  # type: ignore[type-arg]  # not subscriptable at run time
    """A task whose runs by a schedule are noted; beat sends the name of the schedule with each."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        schedule = getattr(self.request, "periodic_task_name", None)
        if not schedule:
            return super().__call__(*args, **kwargs)
        at, started = time(), perf_counter()
        result = TaskResult("Ended with an error; the worker's log has the reason.", failures=1)
        try:
            returned = super().__call__(*args, **kwargs)
            result = returned if isinstance(returned, TaskResult) else TaskResult("Done.")
        finally:
            run = ScheduledRun(at, perf_counter() - started, result.text, result.failures)
            with suppress(CacheUnavailable):  # the next run is noted again
                note_scheduled_run(str(schedule), run)
        return returned


def note_scheduled_run(schedule: str, run: ScheduledRun) -> None:
    """Keep this as the schedule's last run. Raises CacheUnavailable."""
    ask_for("HSET", _RUNS, schedule, orjson.dumps(asdict(run)))


def last_scheduled_runs() -> dict[str, ScheduledRun]:
    """Return the last run by name of the schedule, deleted schedules included. Raises CacheUnavailable."""
    stored: Mapping[bytes, bytes] = ask_for("HGETALL", _RUNS)
    runs = {}
    for name, run in stored.items():
        with suppress(ValueError, TypeError):  # of another form
            runs[name.decode()] = ScheduledRun(**orjson.loads(run))
    return runs


def forget_scheduled_runs(schedules: list[str]) -> None:
    """Forget the runs of deleted schedules. Raises CacheUnavailable."""
    if schedules:
        ask_for("HDEL", _RUNS, *schedules)
