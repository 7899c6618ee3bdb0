"""Permits: never more than the limit over all processes, whatever happens to one of them, and none is lost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from endpoints.cache import permits
from endpoints.cache.connection import ask, ask_for
from endpoints.cache.permits import Permits, use_of
from tests.endpoints.cache.own_redis import OwnRedis
from tests.endpoints.conftest import own_redis, redis_not_met_yet
from tests.live.calls import until

__all__ = ["own_redis", "redis_not_met_yet"]


class Process(Permits):
    """A process that tells Redis what it needs only when the test says so."""

    def _keep_ticking(self) -> None:
        return

    def takes(self, name: str, limit: int = 4) -> bool:
        return self.take(name, limit=limit, wait_seconds=0, may_wait=0)


@pytest.fixture
def name() -> str:
    return uuid4().hex


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal is asked about again at once, as if a tick had passed since."""
    monkeypatch.setattr(permits, "TICK_SECONDS", 0.0)


def test_one_process_gets_what_the_limit_allows(name: str) -> None:
    process = Process()
    assert [process.takes(name) for _ in range(6)] == [True] * 4 + [False] * 2
    process.give_back(name)
    assert [process.takes(name) for _ in range(2)] == [True, False]


def test_two_processes_together_get_what_the_limit_allows(name: str) -> None:
    one, other = Process(), Process()
    assert [one.takes(name) for _ in range(3)] == [True] * 3
    assert [other.takes(name) for _ in range(3)] == [True, False, False]


def test_each_name_counts_by_itself(name: str) -> None:
    process = Process()
    assert [process.takes(f"{name} {number}", 1) for number in range(3)] == [True] * 3


def test_permits_that_a_process_no_longer_needs_are_there_for_others(name: str, later: None) -> None:
    one, other = Process(), Process()
    for _ in range(4):
        one.takes(name)
    assert not other.takes(name)
    for _ in range(4):
        one.give_back(name)
    for _ in range(2):  # the first tells of what was needed since the last one
        one.tick()
    assert [other.takes(name) for _ in range(5)] == [True] * 4 + [False]


def test_a_permit_of_a_small_limit_is_there_for_others_at_once(name: str, later: None) -> None:
    one, other = Process(), Process()
    for process in (one, other, one, other):
        assert process.takes(name, 1)
        process.give_back(name)


def test_calls_one_after_the_other_ask_redis_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    ask_script = permits.ask_script
    monkeypatch.setattr(permits, "ask_script", lambda *given: asked.append(given) or ask_script(*given))
    process = Process()
    for _ in range(50):
        assert process.takes(name)
        process.give_back(name)
    # The process's own permits may be renewed by their thread meanwhile.
    assert len([given for given in asked if name in str(given)]) == 1


def test_a_process_that_has_everything_hands_a_share_to_one_that_comes(name: str, later: None) -> None:
    one, other = Process(), Process()
    for _ in range(4):
        one.takes(name)
    with ThreadPoolExecutor(4) as threads:
        waiting = [threads.submit(other.take, name, limit=4, wait_seconds=60, may_wait=4) for _ in range(4)]
        until(lambda: other._counters[name].waiting == 4, seconds=60)
        other.tick()
        for _ in range(2):
            one.give_back(name)
        one.tick()  # it now holds what it runs, though it needed four a moment ago
        assert one._counters[name].held == 2
        other.tick()
        until(lambda: sum(each.done() for each in waiting) == 2, seconds=60)
        assert not one.takes(name)
        for _ in range(2):
            one.give_back(name)
        for _ in range(2):  # the first tells of what was needed since the last one
            one.tick()
        other.tick()
        assert [each.result(60) for each in waiting] == [True] * 4


def test_one_who_waits_begins_when_another_ends(name: str) -> None:
    process = Process()
    assert process.takes(name, 1)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(process.take, name, limit=1, wait_seconds=60, may_wait=1)
        until(lambda: process._counters[name].waiting > 0, seconds=60)
        process.give_back(name)
        assert waiting.result(60)


def test_only_so_many_threads_of_a_process_wait(name: str) -> None:
    process = Process()
    assert process.takes(name, 1)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(process.take, name, limit=1, wait_seconds=60, may_wait=1)
        until(lambda: process._counters[name].waiting > 0, seconds=60)
        assert not process.take(name, limit=1, wait_seconds=60, may_wait=1)
        assert process.take(f"{name} another", limit=1, wait_seconds=60, may_wait=1)
        process.give_back(name)
        assert waiting.result(60)


def test_a_process_that_died_loses_its_permits_when_its_lease_ends(
    name: str, later: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permits, "LEASE_SECONDS", 0.2)
    dead, living = Process(), Process()
    assert dead.takes(name, 1)
    assert not living.takes(name, 1)
    until(lambda: living.takes(name, 1), seconds=60)


def test_permits_that_a_process_took_by_a_clock_ahead_do_not_outlive_it(name: str) -> None:
    """It died, and the clock of Redis was set back: its lease seems to end tomorrow."""
    process = Process()
    assert process.takes(name, 1)
    (key,) = ask_for("KEYS", f"*{name}*")
    [(field, numbers)] = ask(lambda client: client.hgetall(key)).items()
    *others, ends = numbers.split()
    ask_for("HSET", key, field, b" ".join([*others, str(int(ends) + 86_400_000).encode()]))
    assert Process().takes(name, 1)


def test_a_lowered_limit_ends_nothing_and_lets_nothing_begin(name: str, later: None) -> None:
    process = Process()
    assert [process.takes(name) for _ in range(4)] == [True] * 4
    process.give_back(name)
    assert not process.takes(name, 2)
    for _ in range(2):
        process.give_back(name)
    assert [process.takes(name, 2) for _ in range(2)] == [True, False]


def test_many_threads_of_many_processes_are_never_more_than_the_limit(name: str) -> None:
    processes = [Permits() for _ in range(3)]
    lock, running, most = threading.Lock(), 0, 0

    def call(process: Permits) -> bool:
        nonlocal running, most
        if not process.take(name, limit=4, wait_seconds=60, may_wait=100):
            return False
        with lock:
            running += 1
            most = max(most, running)
        with lock:
            running -= 1
        process.give_back(name)
        return True

    with ThreadPoolExecutor(12) as threads:
        assert all(threads.map(call, processes * 100))
    assert 1 <= most <= 4


def test_nothing_is_left_in_redis_when_nothing_is_needed(name: str) -> None:
    process = Process()
    process.takes(name)
    process.give_back(name)
    for _ in range(2):
        process.tick()
    assert not process._counters
    assert permits.ask_for("EXISTS", permits._key(name)) == 0


def test_the_use_is_that_of_all_processes(name: str) -> None:
    one, other = Process(), Process()
    assert [one.takes(name), one.takes(name), other.takes(name)] == [True] * 3
    for process in (one, other):
        process.tick()
    assert use_of(name) == permits.Use(running=3, waiting=0)
    assert use_of("nobody") == permits.Use(running=0, waiting=0)


def test_without_redis_each_process_keeps_the_limit_by_itself(
    name: str, redis_not_met_yet: None, own_redis: OwnRedis
) -> None:
    one, other = Process(), Process()
    own_redis.kill()
    for process in (one, other):
        assert [process.takes(name) for _ in range(5)] == [True] * 4 + [False]


def test_what_runs_when_redis_comes_back_counts(
    name: str, later: None, redis_not_met_yet: None, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("endpoints.cache.connection.BREAK_SECONDS", 0.0)
    one, other = Process(), Process()
    own_redis.kill()
    assert [one.takes(name) for _ in range(3)] == [True] * 3
    own_redis.start()
    one.tick()
    assert [other.takes(name) for _ in range(2)] == [True, False]
