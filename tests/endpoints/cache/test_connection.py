from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

import pytest
import redis
from django_redis import get_redis_connection
from structlog.testing import capture_logs

from endpoints.cache import CacheUnavailable, connection
from endpoints.cache.connection import RedisLeftAlone, Script, ask, ask_and_wait, ask_for, ask_for_all, ask_script
from tests.endpoints.cache.own_redis import OwnRedis
from tests.still_clock import StillClock

ONE_WAIT_SECONDS = 0.25
PATIENCE_SECONDS = 0.5  # what a busy machine may add to it


class BreakerOfTheTest(connection._Breaker):
    """Deaf to threads that earlier tests have left: they ask Redis at any moment, or are just being answered."""

    def __init__(self) -> None:
        super().__init__()
        self._others = set(threading.enumerate()) - {threading.current_thread()}

    def _is_asked_by_the_test(self) -> bool:
        thread = threading.current_thread()
        return thread not in self._others and thread.name not in ("permits", "usage")

    def check(self) -> None:
        if self._is_asked_by_the_test():
            super().check()

    def note_silence(self, error: Exception) -> None:
        if self._is_asked_by_the_test():
            super().note_silence(error)

    def note_answer(self) -> None:
        if self._is_asked_by_the_test():
            super().note_answer()

    def note_refusal(self, error: Exception) -> None:
        if self._is_asked_by_the_test():
            super().note_refusal(error)


@pytest.fixture(autouse=True)
def only_the_test_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_breaker", BreakerOfTheTest())


def refuse(error: Exception) -> Any:
    def operation(client: redis.Redis) -> None:
        raise error

    return operation


def seconds_of(command: str) -> float:
    began = monotonic()
    with pytest.raises(CacheUnavailable):
        ask_for(command)
    return monotonic() - began


def test_answers_are_bytes() -> None:
    ask_for("SET", "name", "välue")
    assert ask_for_all([["GET", "name"], ["GET", "none"], ["STRLEN", "name"]]) == ["välue".encode(), None, 6]


def test_script_the_server_does_not_know_is_sent() -> None:
    script = Script("return {KEYS[1], ARGV[1]}")
    get_redis_connection("default").script_flush()
    assert ask_script(script, ["name"], ["value"]) == [b"name", b"value"]
    assert ask_script(script, ["name"], ["value"]) == [b"name", b"value"]
    assert get_redis_connection("default").script_exists(script.sha) == [True]


def test_waiting_may_take_longer_than_asking() -> None:
    began = monotonic()
    assert ask_and_wait("BLPOP", "nothing", 0.6) is None
    assert monotonic() - began > 0.5


def test_hung_redis_costs_one_short_wait_for_all_threads(own_redis: OwnRedis) -> None:
    ask_for("PING")
    own_redis.pause()
    with ThreadPoolExecutor(20) as pool:
        assert max(pool.map(seconds_of, ["PING"] * 20)) < ONE_WAIT_SECONDS + PATIENCE_SECONDS
    began = monotonic()
    for _ in range(100):
        with pytest.raises(RedisLeftAlone):
            ask_for("PING")
    assert monotonic() - began < ONE_WAIT_SECONDS


def test_hung_redis_is_noticed_while_waiting(own_redis: OwnRedis) -> None:
    own_redis.pause()
    began = monotonic()
    with pytest.raises(CacheUnavailable):
        ask_and_wait("BLPOP", "nothing", 1)
    assert monotonic() - began < 1.25 + PATIENCE_SECONDS


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StillClock:
    """The clock of the pause in which a Redis that failed is left alone."""
    clock = StillClock()
    monkeypatch.setattr(connection, "monotonic", clock)
    return clock


def test_one_thread_a_second_tries_again(own_redis: OwnRedis, clock: StillClock) -> None:
    own_redis.pause()
    seconds_of("PING")
    clock.now += connection.BREAK_SECONDS

    def probe(_: int) -> bool:
        try:
            ask_for("PING")
        except RedisLeftAlone:
            return False
        except CacheUnavailable:
            return True
        raise AssertionError("a hung Redis answered")

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(probe, range(20))) == 1


def test_redis_is_used_again_once_it_is_back(own_redis: OwnRedis, clock: StillClock) -> None:
    ask_for("SET", "name", "value")
    own_redis.kill()
    with capture_logs() as logs:
        for _ in range(5):
            with pytest.raises(CacheUnavailable):
                ask_for("GET", "name")
        own_redis.start()
        clock.now += connection.BREAK_SECONDS
        for _ in range(5):
            assert ask_for("GET", "name") is None
    events = [line["event"] for line in logs if line["event"].startswith("cache_")]
    assert events == ["cache_unavailable", "cache_available_again"]


def test_restart_between_two_calls_is_not_noticed(own_redis: OwnRedis) -> None:
    ask_for("PING")
    own_redis.kill()
    own_redis.start()
    assert ask_for("PING") in (b"PONG", True)


@pytest.mark.parametrize(
    ("error", "leaves_alone"),
    [
        (redis.ConnectionError("Connection refused"), True),
        (redis.TimeoutError("Timeout reading"), True),
        (redis.BusyLoadingError("Redis is loading the dataset in memory"), True),
        (redis.AuthenticationError("invalid password"), True),
        (BrokenPipeError("gone"), True),
        (redis.OutOfMemoryError("command not allowed when used memory > 'maxmemory'"), False),
        (redis.ReadOnlyError("You can't write against a read only replica."), False),
        (redis.ResponseError("MISCONF Redis is configured to save RDB snapshots"), False),
        (redis.exceptions.MaxConnectionsError("Too many connections"), False),
        (redis.exceptions.NoPermissionError("this user has no permissions"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_redis_fails_with_is_one_error(error: Exception, leaves_alone: bool) -> None:
    with pytest.raises(CacheUnavailable) as raised:
        ask(refuse(error))
    assert raised.value.__cause__ is error
    if leaves_alone:
        with pytest.raises(RedisLeftAlone):
            ask_for("PING")
    else:
        assert ask_for("PING")


def test_bug_in_an_operation_is_not_an_outage() -> None:
    with pytest.raises(ZeroDivisionError):
        ask(refuse(ZeroDivisionError()))
    assert ask_for("PING")


def test_refusals_are_logged_once_a_minute() -> None:
    with capture_logs() as logs:
        for _ in range(5):
            with pytest.raises(CacheUnavailable):
                ask_for("NOSUCHCOMMAND")
    assert [line["event"] for line in logs] == ["cache_refuses"]
