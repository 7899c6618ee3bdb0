from __future__ import annotations

import time
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

import pytest
from django_redis import get_redis_connection

from endpoints.cache import CacheUnavailable, QueryRequest, ResultKey, result_key, usage
from endpoints.cache.connection import ask_for_all
from endpoints.cache.usage import EndpointStatistics, asked, flushing
from tests.endpoints.cache.own_redis import OwnRedis
from tests.endpoints.cache.results import request
from tests.live.calls import until

PERIOD = 600.0


def asking_for(project: str) -> QueryRequest:
    return request(arguments={"project": project})


def note(endpoint_id: str, *projects: str, kind: str = "hit", version: int = 1) -> None:
    for project in projects:
        wanted = asking_for(project)
        usage.note_call(result_key(endpoint_id, version, wanted), wanted, kind=kind, keep_seconds=PERIOD)


def worth(endpoint_id: str, *, version: int = 1, limit: int = 10, now: float | None = None) -> list[tuple[Any, int]]:
    asked.flush()
    found = usage.worth_warming(
        endpoint_id, version, asked_within_seconds=PERIOD, limit=limit, now=time.time() if now is None else now
    )
    return [(each.request.arguments["project"], each.uses) for each in found]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set the clock of Redis, by which calls are noted."""
    return lambda now: monkeypatch.setattr(asked, "clock", lambda: now)


def test_most_used_come_first(endpoint_id: str) -> None:
    note(endpoint_id, *"abbbcc")
    assert worth(endpoint_id) == [("b", 3), ("c", 2), ("a", 1)]
    assert worth(endpoint_id, limit=2) == [("b", 3), ("c", 2)]
    assert worth(endpoint_id, limit=0) == []


def test_request_and_key_are_those_of_the_call(endpoint_id: str) -> None:
    note(endpoint_id, "a")
    asked.flush()
    [found] = usage.worth_warming(str(UUID(endpoint_id)), 1, asked_within_seconds=PERIOD, limit=1, now=time.time())
    assert found.request == asking_for("a")
    assert found.key == result_key(endpoint_id, 1, found.request)
    assert found.last_asked == pytest.approx(time.time(), abs=5)


def test_versions_and_endpoints_are_apart(endpoint_id: str) -> None:
    other = uuid4().hex
    note(endpoint_id, "a")
    note(endpoint_id, "b", version=2)
    note(other, "c")
    assert [worth(endpoint_id), worth(endpoint_id, version=2), worth(other)] == [[("a", 1)], [("b", 1)], [("c", 1)]]
    assert worth(endpoint_id, version=3) == []


def test_what_nobody_asked_for_within_the_period_is_left_out(endpoint_id: str, at: Any) -> None:
    for moment, project in ((10_000.0, "old"), (10_300.0, "new")):
        at(moment)
        note(endpoint_id, project)
        asked.flush()
    assert worth(endpoint_id, now=10_599.0) == [("new", 1), ("old", 1)]
    assert worth(endpoint_id, now=10_601.0) == [("new", 1)]
    assert worth(endpoint_id, now=10_901.0) == []


def test_uses_are_those_of_this_and_the_last_period(endpoint_id: str, at: Any) -> None:
    # Windows of 600 s: 9600, 10200, 10800.
    for moment, projects in ((9_700.0, "aaaaa"), (10_300.0, "ab"), (10_850.0, "bab")):
        at(moment)
        note(endpoint_id, *projects)
        asked.flush()
    assert worth(endpoint_id, now=10_350.0) == [("a", 6), ("b", 1)]
    assert worth(endpoint_id, now=10_860.0) == [("b", 3), ("a", 2)]


def test_everything_noted_expires_by_itself(endpoint_id: str) -> None:
    note(endpoint_id, "a")
    asked.flush()
    client = get_redis_connection("default")
    names = list(client.scan_iter(f"lqe:*{endpoint_id}*"))
    assert len(names) == 4
    assert all(client.ttl(name) > 0 for name in names)


def test_request_that_redis_evicted_is_left_out(endpoint_id: str) -> None:
    note(endpoint_id, "a", "b")
    asked.flush()
    client = get_redis_connection("default")
    client.delete(result_key(endpoint_id, 1, asking_for("a")).request)
    assert worth(endpoint_id) == [("b", 1)]
    client.set(result_key(endpoint_id, 1, asking_for("b")).request, b"of another release")
    assert worth(endpoint_id) == []


def test_calls_are_counted_by_kind(endpoint_id: str) -> None:
    other, never = uuid4().hex, uuid4().hex
    for kind, count in (("hit", 4), ("stale", 3), ("miss", 2), ("bypass", 1)):
        note(endpoint_id, *["a"] * count, kind=kind)
    note(other, "a", kind="miss")
    asked.flush()
    dashed = str(UUID(endpoint_id))
    assert usage.statistics([dashed, other, never]) == {
        dashed: EndpointStatistics(hits=4, stale=3, misses=2, bypass=1),
        other: EndpointStatistics(misses=1),
        never: EndpointStatistics(),
    }
    assert usage.statistics([]) == {}


def test_a_call_asks_nobody(own_redis: OwnRedis, endpoint_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own_redis.kill()
    monkeypatch.setattr(flushing, "ask_for_all", pytest.fail)
    note(endpoint_id, *"abc")
    assert len(asked._notes.asked) == 3


def test_a_request_of_a_megabyte_is_counted_and_not_remembered(endpoint_id: str) -> None:
    note(endpoint_id, "x" * 16_000, "y" * 1_000_000)
    asked.flush()
    assert [len(project) for project, _ in worth(endpoint_id)] == [16_000]
    dashed = str(UUID(endpoint_id))
    assert usage.statistics([dashed])[dashed].hits == 2


def test_many_notes_are_written_some_at_a_time(endpoint_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def counted(commands: Any) -> Any:
        sizes.append(len(commands))
        return ask_for_all(commands)

    monkeypatch.setattr(flushing, "ask_for_all", counted)
    note(endpoint_id, *map(str, range(400)))
    for _ in range(150):
        note(uuid4().hex, "0")
    asked.flush()
    assert max(sizes) <= flushing.COMMANDS_AT_ONCE
    assert sum(sizes) == 151 * 2 + 550 * 6
    assert len(worth(endpoint_id, limit=5000)) == 400


def test_counters_wait_for_redis_whole(endpoint_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [uuid4().hex for _ in range(150)]
    for each in (endpoint_id, *others):
        note(each, "a", "a")
    sent = []

    def second_fails(commands: Any) -> Any:
        sent.append(commands)
        if len(sent) == 2:
            raise CacheUnavailable
        return ask_for_all(commands)

    monkeypatch.setattr(flushing, "ask_for_all", second_fails)
    asked.flush()
    asked.flush()
    assert {usage.statistics([each])[each].hits for each in (endpoint_id, *others)} == {2}


def test_memory_is_bounded(endpoint_id: str) -> None:
    note(endpoint_id, *map(str, range(1500)))
    note(endpoint_id, "1")
    assert len(worth(endpoint_id, limit=5000)) == 1000
    assert usage.statistics([endpoint_id])[endpoint_id].hits == 1501
    assert worth(endpoint_id, limit=1) == [("1", 2)]


def test_calls_during_an_outage_are_counted_later_and_never_fail(own_redis: OwnRedis, endpoint_id: str) -> None:
    own_redis.kill()
    note(endpoint_id, "a", "b", kind="bypass")
    asked.flush()
    own_redis.start()

    def counted() -> int:
        asked.flush()
        with suppress(CacheUnavailable):
            return usage.statistics([endpoint_id])[endpoint_id].bypass
        return 0

    deadline = time.monotonic() + 5
    while counted() < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert counted() == 2


def test_warm_runs_add_up(endpoint_id: str) -> None:
    usage.note_warm_run(endpoint_id, warmed=5, failures=0, seconds=1.5)
    first = usage.statistics([endpoint_id])[endpoint_id]
    assert (first.warm_runs, first.warmed, first.warm_failures, first.last_error) == (1, 5, 0, "")
    usage.note_warm_run(endpoint_id, warmed=2, failures=3, seconds=0.5, last_error="query_timeout é" + "x" * 1000)
    second = usage.statistics([endpoint_id])[endpoint_id]
    assert (second.warm_runs, second.warmed, second.warm_failures) == (2, 7, 3)
    assert (second.last_warm_seconds, second.last_warm_at) == (0.5, pytest.approx(time.time(), abs=5))
    assert second.last_error.startswith("query_timeout é")
    assert len(second.last_error) == 500
    assert second.last_error_at == pytest.approx(time.time(), abs=5)
    usage.note_warm_run(endpoint_id, warmed=1, failures=0, seconds=0.5)
    assert usage.statistics([endpoint_id])[endpoint_id].last_error == second.last_error


def test_failing_result_is_left_alone_ever_longer(key: ResultKey) -> None:
    assert not usage.is_backing_off(key)
    waits = [usage.note_failure(key, base_seconds=30) for _ in range(7)]
    assert waits == [30, 60, 120, 240, 480, 480, 480]
    assert usage.is_backing_off(key)
    client = get_redis_connection("default")
    assert 470_000 < client.pttl(key.backoff) <= 480_000
    assert 950_000 < client.pttl(key.failures) <= 960_000


def test_success_forgets_the_failures(key: ResultKey) -> None:
    for _ in range(3):
        usage.note_failure(key, base_seconds=30)
    usage.note_success(key)
    assert not usage.is_backing_off(key)
    assert usage.note_failure(key, base_seconds=30) == 30


def test_result_is_tried_again_when_its_wait_is_over(key: ResultKey) -> None:
    assert usage.note_failure(key, base_seconds=0.05) == 0.05
    until(lambda: not usage.is_backing_off(key), seconds=60)
