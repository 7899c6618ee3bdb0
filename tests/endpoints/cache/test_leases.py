from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import pytest
from django_redis import get_redis_connection

from endpoints.cache import CacheUnavailable, Lease, acquire, finish, leases, slot
from endpoints.cache.connection import ask_for
from endpoints.cache.leases import contend, wait_for_note
from tests.endpoints.cache.own_redis import OwnRedis
from tests.live.calls import until


def taken(name: str, seconds: float = 10) -> Lease:
    lease = acquire(name, seconds=seconds)
    assert lease is not None
    return lease


def test_one_holder_at_a_time() -> None:
    lease = taken("lqe:lease:x")
    assert acquire("lqe:lease:x", seconds=10) is None
    assert contend("lqe:lease:x", seconds=10) == lease.owner
    assert finish(lease)
    assert isinstance(contend("lqe:lease:x", seconds=10), Lease)


def test_of_many_at_once_one_gets_it() -> None:
    start = threading.Barrier(30)

    def attempt(_: int) -> Lease | None:
        start.wait()
        return acquire("lqe:lease:x", seconds=10)

    with ThreadPoolExecutor(30) as pool:
        assert sum(lease is not None for lease in pool.map(attempt, range(30))) == 1


def test_lease_runs_out_by_itself() -> None:
    lease = taken("lqe:lease:x", seconds=0.05)
    assert get_redis_connection("default").pttl("lqe:lease:x") <= 50
    until(lambda: acquire("lqe:lease:x", seconds=10) is not None, seconds=60)
    assert not finish(lease, b"late")
    assert acquire("lqe:lease:x", seconds=10) is None, "only its owner ends a lease"


def test_note_wakes_all_waiters_at_once() -> None:
    lease = taken("lqe:lease:x")
    with ThreadPoolExecutor(20) as pool:
        waiting = [pool.submit(wait_for_note, lease.owner) for _ in range(20)]
        client = get_redis_connection("default")
        while client.info("clients")["blocked_clients"] < 20:
            assert not any(each.done() for each in waiting)
        assert finish(lease, b"done")
        assert [each.result(timeout=60) for each in waiting] == [b"done"] * 20


def test_note_waits_for_who_comes_late_and_then_goes() -> None:
    lease = taken("lqe:lease:x")
    finish(lease, b"done")
    assert [wait_for_note(lease.owner), wait_for_note(lease.owner)] == [b"done", b"done"]
    assert 0 < get_redis_connection("default").pttl(f"lqe:latch:{lease.owner}") <= 60_000


def test_wait_returns_while_nobody_finishes() -> None:
    assert wait_for_note("nobody") is None


def test_slots_are_limited_and_given_back() -> None:
    first, second = slot(2, seconds=10), slot(2, seconds=10)
    assert first is not None
    assert second is not None
    assert slot(2, seconds=10) is None
    with pytest.raises(ZeroDivisionError), first:
        raise ZeroDivisionError
    third = slot(2, seconds=10)
    assert third is not None
    assert slot(0, seconds=10) is None


def when_redis_is_back(name: str) -> Lease | None:
    deadline = monotonic() + 60
    while True:
        try:
            return acquire(name, seconds=600)
        except CacheUnavailable:
            assert monotonic() < deadline


def test_lease_that_could_not_be_ended_is_ended_before_the_next_is_taken(own_redis: OwnRedis) -> None:
    lease = taken("lqe:lease:x")
    own_redis.pause()
    assert not finish(lease, b"done")
    own_redis.resume()
    assert own_redis.client.exists("lqe:lease:x")
    assert when_redis_is_back("lqe:lease:other") is not None
    assert not own_redis.client.exists("lqe:lease:x")
    assert own_redis.client.lrange(f"lqe:latch:{lease.owner}", 0, -1) == [b"done"]


def test_lease_whose_answer_got_lost_is_given_back(own_redis: OwnRedis) -> None:
    taken("lqe:lease:warm-up")  # a connection is open before Redis hangs, so the command reaches it
    own_redis.pause()
    with pytest.raises(CacheUnavailable):
        acquire("lqe:lease:x", seconds=60)
    own_redis.resume()
    client = own_redis.client
    until(lambda: client.get("lqe:lease:x") is not None, seconds=60)  # the command arrives late
    assert when_redis_is_back("lqe:lease:x") is not None


def test_lease_that_was_never_asked_for_is_not_given_back(own_redis: OwnRedis) -> None:
    own_redis.kill()
    for _ in range(10):
        with pytest.raises(CacheUnavailable):
            ask_for("PING")
        with pytest.raises(CacheUnavailable):
            acquire("lqe:lease:x", seconds=60)
    assert not leases._unfinished
