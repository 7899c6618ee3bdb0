"""Entries fetched a moment ago: not asked for again, never beyond their time, never beyond the memory given."""

from __future__ import annotations

from dataclasses import replace
from time import sleep

import pytest

from endpoints.cache import CachePolicy, ResultKey, connection, entries, purge, recent_entries, result_key
from endpoints.cache.entries import Entry
from endpoints.cache.recent_entries import RecentEntries
from tests.endpoints.cache.results import outcome, request
from tests.endpoints.cache.test_entries import POLICY, let_pass, put
from tests.still_clock import StillClock

TRUSTED = 0.3


@pytest.fixture(autouse=True)
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "TRUSTED_SECONDS", TRUSTED)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ResultKey]:
    """The questions to Redis, in order."""
    questions: list[ResultKey] = []

    def counted(key: ResultKey, policy: CachePolicy) -> Entry | None:
        questions.append(key)
        return entries.fetch(key, policy)

    monkeypatch.setattr(recent_entries, "fetch", counted)
    return questions


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StillClock:
    clock = StillClock()
    monkeypatch.setattr(recent_entries, "monotonic", clock)
    return clock


def test_a_result_is_asked_for_once_while_it_is_trusted(
    key: ResultKey, asked: list[ResultKey], clock: StillClock
) -> None:
    put(key, outcome(b"one"))
    recent = RecentEntries()
    bodies = {found.entry.outcome.body for _ in range(20) if (found := recent.fetch(key, POLICY))}
    assert bodies == {b"one"}
    assert len(asked) == 1
    clock.now += 2 * TRUSTED
    recent.fetch(key, POLICY)
    assert len(asked) == 2


def test_its_age_goes_on(key: ResultKey, clock: StillClock) -> None:
    put(key, outcome())
    recent = RecentEntries()
    first = recent.fetch(key, POLICY)
    clock.now += 0.1
    second = recent.fetch(key, POLICY)
    assert first is not None
    assert second is not None
    assert second.age_seconds >= first.age_seconds + 0.1
    assert POLICY.remaining(second.age_seconds) <= POLICY.remaining(first.age_seconds) - 0.1


def test_what_expires_meanwhile_is_asked_for_again(key: ResultKey, asked: list[ResultKey]) -> None:
    policy = replace(POLICY, fresh_seconds=0.1, stale_seconds=60)
    put(key, outcome(), policy)
    recent = RecentEntries()
    recent.fetch(key, policy)
    sleep(0.12)
    found = recent.fetch(key, policy)
    assert found is not None
    assert policy.remaining(found.age_seconds) == 0
    assert len(asked) == 2


def test_neither_a_stale_entry_nor_a_missing_one_is_kept(key: ResultKey, asked: list[ResultKey]) -> None:
    recent = RecentEntries()
    assert recent.fetch(key, POLICY) is None
    put(key, outcome(b"one"))
    found = recent.fetch(key, POLICY)
    assert found is not None
    recent.clear()
    let_pass(key, 120)
    for _ in range(2):
        stale = recent.fetch(key, POLICY)
        assert stale is not None
        assert POLICY.remaining(stale.age_seconds) == 0
    assert len(asked) == 4


def test_nobody_sees_what_was_purged_once_the_purger_has_waited(key: ResultKey) -> None:
    put(key, outcome(b"before"))
    other_process = RecentEntries()
    assert other_process.fetch(key, POLICY) is not None
    purge(key.endpoint_id)
    connection.wait_until_expired()
    assert other_process.fetch(key, POLICY) is None


def test_the_longest_unused_goes_where_memory_ends(endpoint_id: str, asked: list[ResultKey]) -> None:
    keys = [result_key(endpoint_id, version, request()) for version in range(1, 5)]
    for key in keys:
        put(key, outcome(b"x" * 1000))
    recent = RecentEntries(capacity_bytes=2500)
    for key in keys:
        recent.fetch(key, POLICY)
    assert list(recent._kept) == keys[-2:]
    assert recent._bytes == 2000


def test_a_result_beyond_all_memory_is_answered_and_not_kept(key: ResultKey) -> None:
    put(key, outcome(b"x" * 1000))
    recent = RecentEntries(capacity_bytes=10)
    found = recent.fetch(key, POLICY)
    assert found is not None
    assert found.entry.outcome.body == b"x" * 1000
    assert not recent._kept
    assert recent._bytes == 0
