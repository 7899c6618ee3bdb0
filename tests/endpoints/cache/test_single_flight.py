from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings
from django_redis import get_redis_connection

from endpoints.cache import (
    CachePolicy,
    ResultKey,
    Role,
    acquire,
    fetch,
    finish,
    flights,
    purge,
    refresh,
    run_once,
    single_flight,
    store,
)
from endpoints.cache.entries import STORED
from endpoints.cache.flights import WaitingRoom
from endpoints.cache.leases import contend
from endpoints.errors import InternalError, InvalidSQL, Overloaded, TooManyCalls
from endpoints.results.outcomes import Outcome
from tests.endpoints.cache import callers as processes
from tests.endpoints.cache.callers import RUNS, Party
from tests.endpoints.cache.results import outcome
from tests.live.calls import until

POLICY = CachePolicy(fresh_seconds=900, stale_seconds=3600, lease_seconds=20)


class Query:
    """A query that counts its runs and may take its time."""

    def __init__(self, result: Outcome | BaseException | None = None) -> None:
        self.runs = 0
        self.began = threading.Event()
        self.may_end = threading.Event()
        self.may_end.set()
        self._result = outcome(os.urandom(50)) if result is None else result

    def __call__(self) -> Outcome:
        self.runs += 1
        self.began.set()
        assert self.may_end.wait(10)
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(60) as pool:
        yield pool


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch, settings: Any) -> WaitingRoom:
    """Nobody waits yet, and there is a place for everybody whom these tests let wait."""
    settings.ENDPOINTS_WAITING_CALLS = 100
    room = WaitingRoom()
    monkeypatch.setattr(flights, "_waiting_room", room)
    return room


def until_waiting(callers: int) -> None:
    until(lambda: flights._waiting_room._waiting >= callers, seconds=60, pause=0.001)


def others_wait(key: ResultKey, query: Query, pool: ThreadPoolExecutor, callers: int) -> list[Any]:
    """Let many call while the first one's query runs; every one waits for it before it ends."""
    query.may_end.clear()
    first = pool.submit(run_once, key, produce=query, policy=POLICY)
    assert query.began.wait(10)
    waiting = [pool.submit(run_once, key, produce=query, policy=POLICY) for _ in range(callers)]
    until_waiting(callers)
    query.may_end.set()
    return [first, *waiting]


def test_first_caller_runs_and_stores(key: ResultKey) -> None:
    query = Query()
    result = run_once(key, produce=query, policy=POLICY)
    assert (result.role, result.shared, query.runs) == (Role.RAN, True, 1)
    entry = fetch(key, POLICY)
    assert entry is not None
    assert entry.outcome == result.outcome
    assert entry.etag == result.etag
    assert not get_redis_connection("default").exists(key.lease)


def test_result_stored_a_moment_ago_is_found(key: ResultKey) -> None:
    stored = run_once(key, produce=Query(), policy=POLICY)
    query = Query()
    result = run_once(key, produce=query, policy=POLICY)
    assert (result.role, query.runs) == (Role.FOUND, 0)
    assert (result.outcome, result.etag) == (stored.outcome, stored.etag)
    assert acquire(key.lease, seconds=1) is not None, "its lease is given back"


def test_stale_entry_is_run_again(key: ResultKey) -> None:
    run_once(key, produce=Query(), policy=POLICY)
    client = get_redis_connection("default")
    client.pexpire(key.entry, 3_000_000)
    query = Query()
    assert run_once(key, produce=query, policy=POLICY).role is Role.RAN
    assert query.runs == 1


def test_threads_share_one_run(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    query = Query()
    results = [each.result(10) for each in others_wait(key, query, pool, 50)]
    assert query.runs == 1
    assert {result.outcome for result in results} == {results[0].outcome}
    assert Counter(result.role for result in results)[Role.RAN] == 1


def test_threads_share_one_error(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    query = Query(InvalidSQL("no such column", details=[{"line": 2}], headers={"X-Made": "yes"}))
    calls = others_wait(key, query, pool, 5)
    errors = [each.exception(10) for each in calls]
    assert all(type(error) is InvalidSQL for error in errors)
    assert {str((error.body("id"), error.headers)) for error in errors} == {
        str((errors[0].body("id"), {"X-Made": "yes"}))
    }
    assert fetch(key, POLICY) is None, "errors are never stored"


def test_bug_is_the_runners_own_and_an_internal_error_to_the_others(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    query = Query(ZeroDivisionError("a bug"))
    first, *others = others_wait(key, query, pool, 1)
    assert type(first.exception(10)) is ZeroDivisionError
    assert type(others[0].exception(10)) is InternalError
    assert query.runs == 1


def test_callers_beyond_the_places_of_a_slow_result_are_sent_away(
    key: ResultKey, pool: ThreadPoolExecutor, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ENDPOINTS_WAITING_CALLS = 4
    monkeypatch.setattr(flights, "GRACE_SECONDS", 0.0)
    query = Query()
    query.may_end.clear()
    first = pool.submit(run_once, key, produce=query, policy=POLICY)
    assert query.began.wait(10)
    patient = [pool.submit(run_once, key, produce=query, policy=POLICY) for _ in range(3)]
    until_waiting(3)
    for _ in range(50):
        with pytest.raises(Overloaded, match="is being computed"):
            run_once(key, produce=query, policy=POLICY)
    query.may_end.set()
    assert {each.result(10).outcome for each in (first, *patient)} == {query()}
    assert run_once(key, produce=Query(), policy=POLICY).role is Role.FOUND


def test_callers_of_another_result_go_on_while_one_is_slow(
    key: ResultKey, pool: ThreadPoolExecutor, settings: Any
) -> None:
    settings.ENDPOINTS_WAITING_CALLS = 4
    slow, quick = Query(), Query()
    slow.may_end.clear()
    crowd = [pool.submit(run_once, key, produce=slow, policy=POLICY) for _ in range(30)]
    assert slow.began.wait(10)
    assert run_once(replace(key, digest="other"), produce=quick, policy=POLICY).outcome == quick()
    slow.may_end.set()
    for each in crowd:
        each.exception(10)


def test_nobody_waits_longer_than_a_run_may_take_and_then_another_runs(
    key: ResultKey, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flights, "_LOOK_SECONDS", 0.0)
    policy = replace(POLICY, lease_seconds=0.5)
    hanging, good = Query(), Query()
    hanging.may_end.clear()
    first = pool.submit(run_once, key, produce=hanging, policy=policy)
    assert hanging.began.wait(10)
    others = [pool.submit(run_once, key, produce=good, policy=policy) for _ in range(5)]
    assert all(type(each.exception(10)) is Overloaded for each in others)
    assert not first.done()
    assert run_once(key, produce=good, policy=POLICY).outcome == good()
    hanging.may_end.set()
    assert first.result(10).outcome == hanging()


def test_callers_of_a_result_that_runs_elsewhere_count_as_waiting(
    key: ResultKey, pool: ThreadPoolExecutor, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ENDPOINTS_WAITING_CALLS = 1
    monkeypatch.setattr(flights, "GRACE_SECONDS", 0.0)
    other = replace(key, digest="other")
    leases = [acquire(each.lease, seconds=20) for each in (key, other)]
    patient = pool.submit(run_once, key, produce=Query(), policy=POLICY)
    until_waiting(1)
    with pytest.raises(Overloaded, match="is being computed"):
        run_once(other, produce=Query(), policy=POLICY)
    for lease in leases:
        assert lease is not None
        finish(lease, single_flight._NOT_STORED)
    assert patient.result(10).role is Role.RAN


def test_a_lease_that_hangs_elsewhere_is_waited_for_until_it_is_over(
    key: ResultKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flights, "_LOOK_SECONDS", 0.0)
    policy = replace(POLICY, lease_seconds=0.5)
    get_redis_connection("default").set(key.lease, "somebody who hangs", px=60_000)
    query = Query()
    with pytest.raises(Overloaded, match="is being computed"):
        run_once(key, produce=query, policy=policy)
    assert query.runs == 0


def test_after_an_error_the_next_caller_runs(key: ResultKey) -> None:
    with pytest.raises(InvalidSQL):
        run_once(key, produce=Query(InvalidSQL()), policy=POLICY)
    assert run_once(key, produce=Query(), policy=POLICY).role is Role.RAN


def test_leader_that_is_interrupted_leaves_the_run_to_another(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    interrupted, good = Query(KeyboardInterrupt()), Query()
    interrupted.may_end.clear()

    def lead() -> str:
        try:
            run_once(key, produce=interrupted, policy=POLICY)
        except KeyboardInterrupt:
            return "interrupted"
        return "went on"

    first = pool.submit(lead)
    assert interrupted.began.wait(10)
    second = pool.submit(run_once, key, produce=good, policy=POLICY)
    until_waiting(1)
    interrupted.may_end.set()
    assert first.result(10) == "interrupted"
    assert second.result(10).outcome == good()


def test_processes_share_one_run(endpoint_id: str) -> None:
    got = processes.call_together([Party(endpoint_id, callers=50)] * 2, redis_url=settings.REDIS_URL)
    assert get_redis_connection("default").get(RUNS) == b"1"
    everyone = [each for process in got for each in process]
    assert len(everyone) == 100
    assert len({each.body for each in everyone}) == 1
    assert all(each.body and each.shared for each in everyone)
    assert Counter(each.role for each in everyone)["ran"] == 1


def test_processes_share_one_error(endpoint_id: str) -> None:
    client = get_redis_connection("default")
    party = Party(endpoint_id, callers=50, fails="InvalidSQL", waits_to_end=True)
    children = processes.start_flights(party, party, redis_url=settings.REDIS_URL)
    # An error is kept for nobody, so the other process must wait for it before the run ends.
    until(lambda: client.info("clients")["blocked_clients"] == 2, seconds=60)
    processes.let_runs_end(client)
    got = [child.results() for child in children]
    everyone = [each for process in got for each in process]
    assert len({each.error for each in everyone}) == 1
    assert '"InvalidSQL", 400, {"X-Made": "yes"}' in everyone[0].error
    assert client.get(RUNS) == b"1"


def test_another_takes_over_from_a_runner_that_died(endpoint_id: str) -> None:
    dying, *waiting = processes.start(
        Party(endpoint_id, run_seconds=60, lease_seconds=2), *[Party(endpoint_id, callers=5, lease_seconds=2)] * 2,
        redis_url=settings.REDIS_URL,
    )  # fmt: skip
    dying.call()
    client = get_redis_connection("default")
    until(lambda: client.get(RUNS) is not None, seconds=60)
    for child in waiting:
        child.call()
    dying.end()
    everyone = [each for child in waiting for each in child.results()]
    assert client.get(RUNS) == b"2"
    assert len({each.body for each in everyone}) == 1
    assert all(each.body and each.shared for each in everyone)
    assert max(each.seconds for each in everyone) < 50, "the lease, a second's look, the run: not the run that died"


def elsewhere(key: ResultKey, then: Callable[[Any], None], pool: ThreadPoolExecutor) -> Any:
    """Hold the lease as another process would, and let go of it once a caller here waits."""
    lease = acquire(key.lease, seconds=20)
    assert lease is not None
    waiting = pool.submit(run_once, key, produce=Query(), policy=POLICY)
    client = get_redis_connection("default")
    while client.info("clients")["blocked_clients"] == 0:
        assert not waiting.done()
    then(lease)
    return waiting


def test_purge_during_a_flight_makes_who_waits_run_anew(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    def purge_and_end(lease: Any) -> None:
        purge(key.endpoint_id)
        assert not store(key, outcome(b"from before"), POLICY, lease=lease)
        finish(lease, STORED)

    result = elsewhere(key, purge_and_end, pool).result(10)
    assert (result.role, result.shared) == (Role.RAN, True)
    assert result.outcome.body != b"from before"


def test_result_that_could_not_be_stored_elsewhere_is_run_here(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    result = elsewhere(key, lambda lease: finish(lease, single_flight._NOT_STORED), pool).result(10)
    assert (result.role, result.shared) == (Role.RAN, True)


def test_a_note_of_another_form_says_nothing(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    result = elsewhere(key, lambda lease: finish(lease, single_flight._FAILED + b'{"code": "gone"}'), pool).result(10)
    assert (result.role, result.shared) == (Role.RAN, True)


def test_stale_entry_is_not_taken_for_the_result_of_a_run(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    old = run_once(key, produce=Query(), policy=POLICY)
    get_redis_connection("default").pexpire(key.entry, 3_000_000)
    result = elsewhere(key, lambda lease: finish(lease, single_flight._NOT_STORED), pool).result(10)
    assert result.role is Role.RAN
    assert result.outcome != old.outcome


def test_stored_result_that_redis_lost_at_once_is_run_here(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    result = elsewhere(key, lambda lease: finish(lease, STORED), pool).result(10)
    assert (result.role, result.shared) == (Role.RAN, True)


def test_nobody_queues_for_results_that_are_never_stored(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    taken = []

    waiting = elsewhere(key, lambda lease: taken.append(lease), pool)
    client = get_redis_connection("default")
    # The lease goes from one to the next without a gap: who waits never gets it.
    second = "the second"
    with client.pipeline() as pipeline:
        pipeline.set(key.lease, second, px=20_000)
        pipeline.rpush(f"lqe:latch:{taken[0].owner}", single_flight._NOT_STORED)
        pipeline.rpush(f"lqe:latch:{second}", single_flight._NOT_STORED)
        pipeline.execute()
    result = waiting.result(10)
    assert (result.role, result.shared) == (Role.RAN, False)


def test_refresh_runs_though_the_entry_is_fresh(key: ResultKey) -> None:
    run_once(key, produce=Query(), policy=POLICY)
    query = Query()
    result = refresh(key, produce=query, policy=POLICY)
    assert result is not None
    assert (result.role, query.runs) == (Role.RAN, 1)
    entry = fetch(key, POLICY)
    assert entry is not None
    assert entry.outcome == result.outcome


def test_refresh_leaves_alone_what_another_process_runs(key: ResultKey) -> None:
    lease = acquire(key.lease, seconds=10)
    query = Query()
    assert refresh(key, produce=query, policy=POLICY) is None
    assert query.runs == 0
    assert lease is not None
    assert contend(key.lease, seconds=1) == lease.owner


def test_refresh_leaves_alone_what_a_thread_runs(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    query = Query()
    query.may_end.clear()
    running = pool.submit(run_once, key, produce=query, policy=POLICY)
    assert query.began.wait(10)
    assert refresh(key, produce=Query(), policy=POLICY) is None
    query.may_end.set()
    assert running.result(10).role is Role.RAN


def test_callers_wait_for_a_refresh(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    query = Query()
    query.may_end.clear()
    refreshing = pool.submit(refresh, key, produce=query, policy=POLICY)
    assert query.began.wait(10)
    waiting = pool.submit(run_once, key, produce=Query(), policy=POLICY)
    query.may_end.set()
    assert waiting.result(10).outcome == refreshing.result(10).outcome


def test_failed_refresh_leaves_the_entry(key: ResultKey) -> None:
    result = run_once(key, produce=Query(), policy=POLICY)
    with pytest.raises(InvalidSQL):
        refresh(key, produce=Query(InvalidSQL()), policy=POLICY)
    entry = fetch(key, POLICY)
    assert entry is not None
    assert entry.outcome == result.outcome


def test_different_results_do_not_wait_for_each_other(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    slow = Query()
    slow.may_end.clear()
    running = pool.submit(run_once, key, produce=slow, policy=POLICY)
    assert slow.began.wait(10)
    other = ResultKey(key.endpoint_id, key.version + 1, key.digest)
    assert run_once(other, produce=Query(), policy=POLICY).role is Role.RAN
    slow.may_end.set()
    assert running.result(10).role is Role.RAN


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_child_leads_its_own_flights(key: ResultKey) -> None:
    assert flights.join(key, seconds=20)[1]
    try:
        process_id = os.fork()
        if process_id == 0:
            os._exit(0 if flights.join(key, seconds=20)[1] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1]) == 0
    finally:
        flights._flights.clear()


def test_who_calls_after_a_purge_gets_no_result_from_before_it(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    old, new = Query(outcome(b"old")), Query(outcome(b"new"))
    old.may_end.clear()
    early = pool.submit(run_once, key, produce=old, policy=POLICY)
    assert old.began.wait(10)
    purge(key.endpoint_id)
    late = run_once(key, produce=new, policy=POLICY)
    old.may_end.set()
    assert (early.result().outcome.body, late.outcome.body) == (b"old", b"new")
    entry = fetch(key, POLICY)
    assert entry is not None
    assert entry.outcome.body == b"new"


def test_a_limit_of_the_leader_is_that_of_its_own_party_alone(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    refused, allowed = Query(TooManyCalls(1)), Query()
    refused.may_end.clear()
    leader = pool.submit(run_once, key, produce=refused, party="busy", policy=POLICY)
    assert refused.began.wait(10)
    mine = [pool.submit(run_once, key, produce=refused, party="busy", policy=POLICY) for _ in range(3)]
    others = [pool.submit(run_once, key, produce=allowed, party="calm", policy=POLICY) for _ in range(3)]
    flight = flights._flights[key]
    until(lambda: len(flight._ended._cond._waiters) >= 6, seconds=60, pause=0.001)  # type: ignore[attr-defined]
    refused.may_end.set()
    for caller in (leader, *mine):
        assert isinstance(caller.exception(10), TooManyCalls)
    assert len({caller.result(10).etag for caller in others}) == 1
    assert (refused.runs, allowed.runs) == (1, 1)


def test_a_limit_in_one_process_leaves_the_run_to_another(key: ResultKey, pool: ThreadPoolExecutor) -> None:
    """The lease of the other process ends without a result; who waits for it here runs."""
    lease = acquire(key.lease, seconds=20)
    assert lease is not None
    query = Query()
    waiting = pool.submit(run_once, key, produce=query, policy=POLICY)
    finish(lease, single_flight._LEFT)
    result = waiting.result(10)
    assert (result.role, result.shared, query.runs) == (Role.RAN, True, 1)


def test_a_limit_leaves_the_lease_to_the_next(key: ResultKey) -> None:
    with pytest.raises(TooManyCalls):
        run_once(key, produce=Query(TooManyCalls(1)), party="busy", policy=POLICY)
    result = run_once(key, produce=Query(), party="calm", policy=POLICY)
    assert (result.role, result.shared) == (Role.RAN, True)
