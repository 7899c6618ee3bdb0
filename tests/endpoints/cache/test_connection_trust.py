"""What Redis has said counts for a tenth of a second, and every change waits that long: with the value of the service.

Everywhere else in the suite it counts for no time at all, so that no test has to wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from endpoints.access import change_marker as generation
from endpoints.access.change_marker import changing, current_marker
from endpoints.cache import CachePolicy, connection, purge, recent_entries
from endpoints.cache.keys import ResultKey
from endpoints.cache.recent_entries import RecentEntries
from tests.endpoints.cache.results import outcome
from tests.endpoints.cache.test_entries import POLICY, put

SERVICE_SECONDS: Final = connection.TRUSTED_SECONDS  # read before a test's fixtures set it to 0


class Time:
    """A clock that stands still but for sleeping; `before_sleep` is what others do meanwhile."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self.before_sleep: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.before_sleep()
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(connection, "TRUSTED_SECONDS", SERVICE_SECONDS)
    monkeypatch.setattr(connection, "sleep", time.sleep)
    monkeypatch.setattr(recent_entries, "monotonic", time.monotonic)
    monkeypatch.setattr(generation, "monotonic", time.monotonic)
    monkeypatch.setattr(generation, "_trusted", None)
    return time


def test_it_counts_for_a_tenth_of_a_second(time: Time) -> None:
    assert SERVICE_SECONDS == 0.1
    connection.wait_until_expired()
    assert sum(time.slept) > SERVICE_SECONDS


def test_another_process_answers_from_memory_until_a_purge_returns(key: ResultKey, time: Time) -> None:
    put(key, outcome(b"before"))
    elsewhere = RecentEntries()
    assert elsewhere.fetch(key, POLICY) is not None
    seen: list[bool] = []
    time.before_sleep = lambda: seen.append(elsewhere.fetch(key, POLICY) is not None)
    purge(key.endpoint_id)
    connection.wait_until_expired()
    assert seen == [True], "it relies on what it was told, which is why a purge waits"
    assert elsewhere.fetch(key, POLICY) is None


def test_a_result_is_asked_for_again_when_its_time_is_over(
    key: ResultKey, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(key, outcome(b"one"))
    asked: list[ResultKey] = []
    fetch = recent_entries.fetch

    def counted(key: ResultKey, policy: CachePolicy) -> Any:
        asked.append(key)
        return fetch(key, policy)

    monkeypatch.setattr(recent_entries, "fetch", counted)
    recent = RecentEntries()
    for step in (0.0, 0.05, 0.04):
        time.now += step
        assert recent.fetch(key, POLICY) is not None
    assert len(asked) == 1
    time.now += 0.02
    recent.fetch(key, POLICY)
    assert len(asked) == 2


@pytest.mark.django_db
def test_no_process_knows_the_old_generation_when_a_change_has_returned(
    time: Time, django_capture_on_commit_callbacks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = current_marker()
    elsewhere = generation._trusted  # what another process has been told at this moment
    during: list[str | None] = []

    def ask_elsewhere() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(generation, "_trusted", elsewhere)
            during.append(current_marker())

    time.before_sleep = ask_elsewhere
    with django_capture_on_commit_callbacks(execute=True), changing():
        pass
    assert during == [before]
    monkeypatch.setattr(generation, "_trusted", elsewhere)
    assert current_marker() not in (before, None)
