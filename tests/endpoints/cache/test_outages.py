"""Whatever happens to Redis under callers, each of them gets its bytes, and soon."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import redis
from django.conf import settings

from endpoints.cache import CachePolicy, CacheUnavailable, Role, fetch, leases, result_key, run_once
from endpoints.cache.entries import entity_tag
from endpoints.cache.keys import ResultKey
from endpoints.results.outcomes import Outcome
from tests.endpoints.cache import callers
from tests.endpoints.cache.callers import RUNS, Got, Party
from tests.endpoints.cache.own_redis import OwnRedis
from tests.endpoints.cache.results import outcome, request
from tests.live.calls import until

POLICY = CachePolicy(fresh_seconds=900, stale_seconds=3600, lease_seconds=20)
CALLERS = 20
# Who waited for the lease of a run that is lost would take five minutes, and everybody else a few seconds.
LEASE_SECONDS = 300.0
LONG_SECONDS = 60.0


def kill(server: OwnRedis) -> None:
    server.kill()


def restart(server: OwnRedis) -> None:
    server.kill()
    server.start()


def flush(server: OwnRedis) -> None:
    server.client.flushall()


def fill(server: OwnRedis) -> None:
    server.client.config_set("maxmemory", 1)


def hiccup(server: OwnRedis) -> None:
    server.pause()
    time.sleep(0.6)
    server.resume()


def suite_redis() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL)


def counted_runs() -> int:
    return int(suite_redis().get(RUNS) or 0)


def break_during_flight(server: OwnRedis, endpoint_id: str, happens: Callable[[OwnRedis], None]) -> list[Got]:
    """Let two processes want the same result, break Redis while one of them runs the query, and see what they got."""
    party = Party(endpoint_id, callers=CALLERS, lease_seconds=LEASE_SECONDS, waits_to_end=True)
    children = callers.start_flights(party, party, redis_url=server.url)
    client = server.client
    # One runs and one waits for it; on a machine that stood still for Redis's quarter of a second both run.
    until(lambda: counted_runs() == 2 or bool(counted_runs() and client.info("clients")["blocked_clients"]), seconds=60)
    happens(server)
    callers.let_runs_end(suite_redis())
    return [got for child in children for got in child.results()]


@pytest.mark.parametrize("happens", [kill, restart, flush, fill, hiccup, OwnRedis.pause])
def test_every_caller_gets_its_bytes_soon(
    own_redis: OwnRedis, endpoint_id: str, happens: Callable[[OwnRedis], None]
) -> None:
    everyone = break_during_flight(own_redis, endpoint_id, happens)
    assert len(everyone) == 2 * CALLERS
    assert all(got.body for got in everyone)
    assert max(got.seconds for got in everyone) < LONG_SECONDS
    assert counted_runs() <= 2, "each process runs it once at most"


def test_without_redis_each_process_shares_one_run(endpoint_id: str) -> None:
    party = Party(endpoint_id, callers=CALLERS, waits_to_end=True)
    children = callers.start_flights(party, party, redis_url="redis://127.0.0.1:1/0")
    callers.let_runs_end(suite_redis())
    processes = [child.results() for child in children]
    assert [len({got.body for got in process}) for process in processes] == [1, 1]
    assert not any(got.shared for process in processes for got in process)
    assert counted_runs() == 2


def calls_without_redis(server: OwnRedis, key: ResultKey, breaks: Callable[[OwnRedis], None]) -> None:
    def produce() -> Outcome:
        breaks(server)
        return outcome(b"rows")

    result = run_once(key, produce=produce, policy=POLICY)
    assert (result.outcome.body, result.etag) == (b"rows", entity_tag(b"rows"))
    assert (result.role, result.shared) == (Role.RAN, False)


@pytest.mark.parametrize("breaks", [kill, fill, OwnRedis.pause])
def test_result_that_cannot_be_stored_is_the_callers_all_the_same(
    own_redis: OwnRedis, key: ResultKey, breaks: Callable[[OwnRedis], None]
) -> None:
    calls_without_redis(own_redis, key, breaks)


@pytest.mark.parametrize("breaks", [kill, fill, OwnRedis.pause])
def test_query_runs_where_redis_is_out_of_order_from_the_beginning(
    own_redis: OwnRedis, key: ResultKey, breaks: Callable[[OwnRedis], None]
) -> None:
    breaks(own_redis)
    calls_without_redis(own_redis, key, lambda server: None)


def test_full_redis_still_serves_what_it_has(own_redis: OwnRedis, key: ResultKey, endpoint_id: str) -> None:
    stored = run_once(key, produce=lambda: outcome(b"rows"), policy=POLICY)
    fill(own_redis)
    entry = fetch(key, POLICY)
    assert entry is not None
    assert entry.outcome == stored.outcome
    other = result_key(endpoint_id, 2, request())
    assert not run_once(other, produce=lambda: outcome(b"more rows"), policy=POLICY).shared
    own_redis.client.config_set("maxmemory", 0)
    assert run_once(other, produce=lambda: outcome(b"more rows"), policy=POLICY).shared


def test_one_share_pushes_no_results_of_others_out(own_redis: OwnRedis, endpoint_id: str, settings: Any) -> None:
    # Without a share two of the twenty were left.
    settings.ENDPOINTS_SANDBOX_CACHE_BYTES = 4_000_000
    own_redis.client.config_set("maxmemory", 16_000_000)
    own_redis.client.config_set("maxmemory-policy", "volatile-lru")

    def answer(name: str, kilobytes: int, share: str) -> bool:
        body = random.Random(name).randbytes(kilobytes * 1000)
        key = result_key(endpoint_id, 1, request(sandbox_text=name))
        result = run_once(key, produce=lambda: outcome(body), policy=replace(POLICY, share=share))
        assert result.outcome.body == body
        return result.shared

    assert all(answer(f"other {number}", 100, "other") for number in range(20))
    assert sum(answer(f"large {number}", 900, "attacker") for number in range(51)) == 4
    names = [result_key(endpoint_id, 1, request(sandbox_text=f"other {number}")).entry for number in range(20)]
    assert own_redis.client.exists(*names) == 20


def test_full_redis_keeps_no_lease_of_a_run_that_ended(own_redis: OwnRedis, key: ResultKey) -> None:
    def produce() -> Outcome:
        fill(own_redis)
        return outcome()

    run_once(key, produce=produce, policy=POLICY)
    assert not own_redis.client.exists(key.lease)
    assert not leases._unfinished


def test_outage_is_told_apart_from_a_miss(own_redis: OwnRedis, key: ResultKey) -> None:
    assert fetch(key, POLICY) is None
    own_redis.kill()
    with pytest.raises(CacheUnavailable):
        fetch(key, POLICY)


def test_cache_works_again_after_an_outage(own_redis: OwnRedis, key: ResultKey) -> None:
    own_redis.kill()
    assert not run_once(key, produce=outcome, policy=POLICY).shared
    own_redis.start()
    until(lambda: run_once(key, produce=outcome, policy=POLICY).shared, seconds=60)
    assert fetch(key, POLICY) is not None
