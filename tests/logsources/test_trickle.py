"""Rows that come in all the time, as the demo makes them."""

from __future__ import annotations

from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

import pytest
from django.core.management import CommandError

from logsources import trickle as module
from logsources.databases import owner_connection
from logsources.trickle import trickle

pytestmark = pytest.mark.sql


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY_SECONDS", 0.01)


def test_loads_new_rows_of_these_projects_up_to_the_bound(committed: None) -> None:
    began = datetime.now(UTC)
    assert trickle(Event(), rows_per_second=1000, at_most=25, projects=["drip"]) == 25
    with owner_connection() as connection:
        rows = connection.execute(
            "SELECT timestamp FROM logs.edge_logs WHERE project = 'drip' AND timestamp >= %s",
            [began.replace(microsecond=0)],
        ).fetchall()
    assert rows


def test_ends_when_told_to(committed: None) -> None:
    stop = Event()
    running = Thread(
        target=trickle, args=(stop,), kwargs={"rows_per_second": 1, "at_most": 10**6, "projects": ["drip"]}
    )
    running.start()
    stop.set()
    running.join(30)
    assert not running.is_alive()


def test_goes_on_after_a_failure_that_it_tells_once(
    committed: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    load, calls = module.call_command, []

    def at_first_failing(command: str, **options: Any) -> None:
        calls.append(command)
        if len(calls) <= 3:
            raise CommandError("the server is gone")
        load(command, **options)

    monkeypatch.setattr(module, "call_command", at_first_failing)
    assert trickle(Event(), rows_per_second=100, at_most=3, projects=["drip"]) == 3
    assert caplog.text.count("made-up rows are not loaded: the server is gone") == 1
