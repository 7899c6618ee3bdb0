"""Beat's scheduler when the clock was ahead: a run noted for tomorrow delays nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from time import time

import pytest
from django.conf import settings
from django_celery_beat import schedulers
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from config.beat import Entry, Scheduler
from config.celery import app

pytestmark = pytest.mark.django_db
TOMORROW = timedelta(days=1)


@pytest.fixture
def task() -> PeriodicTask:
    PeriodicTask.objects.all().delete()
    interval = IntervalSchedule.objects.create(every=77, period=IntervalSchedule.SECONDS)
    return PeriodicTask.objects.create(
        name="every 77 s", task="x", interval=interval, last_run_at=datetime.now(UTC) + TOMORROW
    )


def test_it_is_the_scheduler_of_the_installation() -> None:
    assert f"{Scheduler.__module__}:{Scheduler.__name__}" == settings.CELERY_BEAT_SCHEDULER


def test_a_last_run_in_the_future_counts_as_now(task: PeriodicTask) -> None:
    is_due, seconds = Entry(task, app=app).is_due()
    assert (is_due, 0 < seconds <= 77) == (False, True)


def test_a_last_run_in_the_past_is_what_it_was(task: PeriodicTask) -> None:
    task.last_run_at = datetime.now(UTC) - timedelta(seconds=78)
    assert Entry(task, app=app).is_due()[0]


def test_a_clock_set_back_while_it_runs_delays_nothing(task: PeriodicTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedulers, "close_old_connections", lambda: None)  # the test's transaction is on it
    scheduler = Scheduler(app=app, lazy=True)
    scheduler.tick()
    ahead = time() + TOMORROW.total_seconds()
    scheduler._heap = [entry._replace(time=entry.time + TOMORROW.total_seconds()) for entry in scheduler._heap]
    scheduler._ticked_at = ahead
    scheduler.tick()
    assert 0 < scheduler._heap[0].time - time() <= 77
