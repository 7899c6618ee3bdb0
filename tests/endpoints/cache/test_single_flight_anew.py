"""Runs anew: what began before them is neither stored nor served after them, in this process or in another one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings
from django_redis import get_redis_connection

from endpoints.cache import CachePolicy, ResultKey, Role, acquire, connection, fetch, purge, result_key, store
from endpoints.cache.entries import forget
from endpoints.cache.flights import FlightResult
from endpoints.cache.recent_entries import RecentEntries
from endpoints.cache.single_flight import refresh, run_once
from endpoints.errors import InvalidSQL
from endpoints.results.outcomes import Outcome
from tests.endpoints.cache import callers
from tests.endpoints.cache.callers import RUNS, Party
from tests.endpoints.cache.own_redis import OwnRedis
from tests.endpoints.cache.results import outcome, request
from tests.endpoints.cache.test_single_flight import POLICY, Query, until_waiting
from tests.live.calls import until

OLD, NEW, NEWER = outcome(b"old"), outcome(b"new"), outcome(b"newer")
Begin = Callable[[], Callable[[], None]]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(10) as pool:
        yield pool


def held(result: Outcome | BaseException) -> Query:
    """A query that goes on until the test lets it end."""
    query = Query(result)
    query.may_end.clear()
    return query


def stored(key: ResultKey) -> bytes | None:
    entry = fetch(key, POLICY)
    return None if entry is None else entry.outcome.body


def anew(key: ResultKey, query: Query, policy: CachePolicy = POLICY) -> FlightResult:
    return run_once(key, produce=query, policy=replace(policy, anew=True))


def plain(key: ResultKey, query: Query | None = None) -> FlightResult:
    return run_once(key, produce=query or Query(), policy=POLICY)


@pytest.fixture(params=["thread", "process"])
def begin_older(request: pytest.FixtureRequest, key: ResultKey, pool: ThreadPoolExecutor) -> Begin:
    """Begin a plain run of the key and return what lets it end, and waits for that."""

    def in_thread() -> Callable[[], None]:
        query = held(OLD)
        running = pool.submit(plain, key, query)
        assert query.began.wait(10)

        def end() -> None:
            query.may_end.set()
            assert running.result(10).outcome == OLD

        return end

    def in_process() -> Callable[[], None]:
        (child,) = callers.start_flights(Party(key.endpoint_id, waits_to_end=True), redis_url=settings.REDIS_URL)
        client = get_redis_connection("default")
        until(lambda: client.get(RUNS) == b"1", seconds=60)

        def end() -> None:
            callers.let_runs_end(client)
            assert [got.role for got in child.results()] == ["ran"]

        return end

    return in_thread if request.param == "thread" else in_process


def test_an_older_run_that_ends_later_does_not_store_over_it(key: ResultKey, begin_older: Begin) -> None:
    end_older = begin_older()
    assert anew(key, Query(NEW)).outcome == NEW
    assert (plain(key).role, stored(key)) == (Role.FOUND, b"new")
    end_older()
    assert (plain(key).role, stored(key)) == (Role.FOUND, b"new")


def test_an_older_run_that_ends_earlier_stores_nothing(
    key: ResultKey, begin_older: Begin, pool: ThreadPoolExecutor
) -> None:
    end_older = begin_older()
    new = held(NEW)
    running = pool.submit(anew, key, new)
    assert new.began.wait(10)
    end_older()
    assert stored(key) is None
    new.may_end.set()
    assert running.result(10).shared
    assert stored(key) == b"new"


def test_who_waits_for_the_older_run_elsewhere_gets_the_new_result(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    older = acquire(key.lease, seconds=20)
    assert older is not None
    waiting = pool.submit(plain, key)
    until_waiting(1)
    assert anew(key, Query(NEW)).role is Role.RAN
    assert waiting.result(10).outcome == NEW
    assert not store(key, OLD, POLICY, lease=older)


def test_who_calls_meanwhile_waits_for_it(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    new = held(NEW)
    running = pool.submit(anew, key, new)
    assert new.began.wait(10)
    waiting = pool.submit(plain, key)
    until_waiting(1)
    new.may_end.set()
    assert (running.result(10).role, waiting.result(10).role) == (Role.RAN, Role.WAITED)
    assert waiting.result().outcome == NEW


def test_a_fresh_result_is_served_until_the_new_one_takes_its_place(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    plain(key, Query(OLD))
    new = held(NEW)
    running = pool.submit(anew, key, new)
    assert new.began.wait(10)
    assert stored(key) == b"old"
    assert refresh(key, produce=Query(), policy=POLICY) is None
    new.may_end.set()
    assert running.result(10).outcome == NEW
    assert stored(key) == b"new"


def test_one_after_the_other_each_is_stored(key: ResultKey) -> None:
    for result in (OLD, NEW, NEWER):
        assert anew(key, Query(result)).outcome == result
        assert stored(key) == result.body


@pytest.mark.parametrize("first_to_end", [0, 1])
def test_of_two_that_overlap_no_older_result_is_left(
    key: ResultKey, pool: ThreadPoolExecutor, first_to_end: int
) -> None:
    """Each asked the database by itself, so neither is known to have every row of the other."""
    plain(key, Query(OLD))
    queries = [held(NEW), held(NEWER)]
    running: list[Future[FlightResult]] = []
    for query in queries:
        running.append(pool.submit(anew, key, query))
        assert query.began.wait(10)
    for number in (first_to_end, 1 - first_to_end):
        queries[number].may_end.set()
        assert running[number].result(10).outcome in (NEW, NEWER)
        assert stored(key) in (None, running[number].result().outcome.body)
    assert stored(key) is None
    assert plain(key).role is Role.RAN


def test_without_a_result_what_was_stored_stays(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    plain(key, Query(OLD))
    with pytest.raises(InvalidSQL):
        anew(key, Query(InvalidSQL()))
    assert (plain(key).outcome, stored(key)) == (OLD, b"old")


def test_its_failure_is_its_own_and_who_waits_runs(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    failing = held(InvalidSQL())
    running = pool.submit(anew, key, failing)
    assert failing.began.wait(10)
    waiting = pool.submit(plain, key, Query(NEW))
    until_waiting(1)
    failing.may_end.set()
    assert type(running.exception(10)) is InvalidSQL
    assert (waiting.result(10).role, waiting.result().outcome) == (Role.RAN, NEW)


def test_a_result_that_has_no_room_leaves_no_older_one(key: ResultKey, settings: Any) -> None:
    policy = replace(POLICY, share="somebody")
    anew(key, Query(OLD), policy)
    assert stored(key) == b"old"
    settings.ENDPOINTS_SANDBOX_CACHE_BYTES = 1
    assert not anew(key, Query(NEW), policy).shared
    assert stored(key) is None


def test_a_result_that_was_purged_meanwhile_is_not_stored(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    new = held(NEW)
    running = pool.submit(anew, key, new)
    assert new.began.wait(10)
    purge(key.endpoint_id)
    new.may_end.set()
    assert running.result(10).outcome == NEW
    assert stored(key) is None


def test_nobody_waits_for_ever_for_those_that_take_the_lease_from_each_other(
    key: ResultKey, pool: ThreadPoolExecutor
) -> None:
    client = get_redis_connection("default")
    client.set(key.lease, "the first", px=20_000)
    waiting = pool.submit(plain, key, Query(NEW))
    until_waiting(1)
    for owner in ("the second", "the third"):
        client.set(key.lease, owner, px=20_000)
        until(lambda owner=owner: waiting.done() or client.exists(f"lqe:awaited:{owner}"), seconds=60)
    assert (waiting.result(10).role, waiting.result().shared) == (Role.RAN, False)


def test_no_process_relies_on_what_it_has_fetched_before(key: ResultKey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "TRUSTED_SECONDS", 0.5)
    plain(key, Query(OLD))
    elsewhere, fetched = RecentEntries(), threading.Event()

    class FetchesElsewhere(Query):
        def __call__(self) -> Outcome:
            recent = elsewhere.fetch(key, POLICY)
            assert recent is not None
            assert recent.entry.outcome == OLD
            fetched.set()
            return super().__call__()

    anew(key, FetchesElsewhere(NEW))
    assert fetched.is_set()
    recent = elsewhere.fetch(key, POLICY)
    assert recent is not None
    assert recent.entry.outcome == NEW


def test_without_redis_it_runs_and_nobody_after_it_follows_an_older_run(
    own_redis: OwnRedis, endpoint_id: str, pool: ThreadPoolExecutor
) -> None:
    own_redis.kill()
    key = result_key(endpoint_id, 1, request())
    old = held(OLD)
    running = pool.submit(plain, key, old)
    assert old.began.wait(10)
    result = anew(key, Query(NEW))
    assert (result.outcome, result.shared) == (NEW, False)
    assert plain(key, Query(NEWER)).outcome == NEWER
    old.may_end.set()
    assert running.result(10).outcome == OLD


def test_forgetting_removes_one_result_and_the_right_to_store_it(key: ResultKey) -> None:
    other = replace(key, digest="other")
    plain(other, Query(OLD))
    plain(key, Query(OLD))
    lease = acquire(key.lease, seconds=20)
    assert lease is not None
    forget(key)
    assert not store(key, OLD, POLICY, lease=lease)
    assert (stored(key), stored(other)) == (None, b"old")
