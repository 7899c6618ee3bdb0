"""Runs of scheduled tasks are noted with what they did; a failing task fails as before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import time
from typing import Any
from uuid import uuid4

import pytest

from config.celery import app
from endpoints.cache.connection import ask_for
from endpoints.cache.keys import PREFIX
from endpoints.calling.scheduled_runs import (
    NotedTask,
    ScheduledRun,
    TaskResult,
    forget_scheduled_runs,
    last_scheduled_runs,
)


@app.task(name="tests.noted")
def noted(result: Any) -> Any:
    if isinstance(result, Exception):
        raise result
    return result


@pytest.fixture
def schedule() -> Iterator[str]:
    name = f"test {uuid4()}"
    yield name
    forget_scheduled_runs([name])


@contextmanager
def sent_by(schedule: str | None) -> Iterator[None]:
    """Run tasks as a worker does that gets them from beat."""
    noted.push_request(periodic_task_name=schedule)
    try:
        yield
    finally:
        noted.pop_request()


def last(schedule: str) -> ScheduledRun:
    return last_scheduled_runs()[schedule]


def test_every_task_of_the_service_is_noted() -> None:
    import endpoints.tasks
    import logsources.tasks

    for task in (endpoints.tasks.warm_endpoint, logsources.tasks.roll_partitions):
        assert isinstance(task, NotedTask)


def test_a_run_is_noted_with_its_result(schedule: str) -> None:
    before = time()
    with sent_by(schedule):
        assert noted(TaskResult("2 renewed, 1 failed.", failures=1)) == TaskResult("2 renewed, 1 failed.", failures=1)
    run = last(schedule)
    assert before <= run.at <= time()
    assert 0 <= run.seconds < 60
    assert (run.text, run.failures) == ("2 renewed, 1 failed.", 1)


@pytest.mark.parametrize("form", ["{}", "[1]", '{"at": 1, "seconds": 2, "text": "Done."}', "7", "no JSON"])
def test_a_note_of_another_form_is_none(schedule: str, form: str) -> None:
    ask_for("HSET", f"{PREFIX}:scheduled-runs", schedule, form)
    assert schedule not in last_scheduled_runs()


def test_a_task_that_tells_nothing_is_done(schedule: str) -> None:
    with sent_by(schedule):
        noted(None)
    assert (last(schedule).text, last(schedule).failures) == ("Done.", 0)


def test_a_task_that_raises_is_noted_as_failed_without_its_reason(schedule: str) -> None:
    with sent_by(schedule), pytest.raises(ValueError, match="secret"):
        noted(ValueError("secret"))
    assert last(schedule).failures == 1
    assert "secret" not in last(schedule).text


def test_a_task_that_nobody_scheduled_is_not_noted(schedule: str) -> None:
    before = last_scheduled_runs()
    with sent_by(None):
        noted(None)
    noted(None)
    assert last_scheduled_runs() == before


def test_without_redis_the_task_runs(redis_not_met_yet: None, settings: Any) -> None:
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": "redis://127.0.0.1:1/0"}}
    with sent_by("test"):
        assert noted("done") == "done"
