"""The last calls of an endpoint and their numbers over a day: bounded, cheap, and never a call's fault."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from django_redis import get_redis_connection
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from endpoints.cache import CacheUnavailable, keys, usage
from endpoints.cache.usage import RecentCall, recent_calls
from endpoints.cache.usage.recent_calls import BUCKETS, UPPER_BOUNDS_MS, Durations, bucket_of
from tests.endpoints.cache.own_redis import OwnRedis

NOW = 1_800_000_000.0  # 2027-01-15 08:00:00 UTC
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


def call(at: float = NOW, **fields: Any) -> RecentCall:
    values = {
        "access_token": "dashboard",
        "access_token_prefix": "0123456789ab",
        "status": 200,
        "error_code": "",
        "rows": 3,
        "milliseconds": 12.5,
        "cache": "miss",
        "version": 2,
        **fields,
    }
    return RecentCall(at=at, **values)


def note(endpoint_id: str, *calls: RecentCall) -> None:
    for each in calls:
        usage.note_outcome(endpoint_id, each)
    recent_calls.flush()


def activity(endpoint_id: str, *, now: float = NOW) -> usage.Activity:
    return usage.activity([endpoint_id], now=now)[endpoint_id]


def test_what_was_noted_is_read_the_newest_first(endpoint_id: str) -> None:
    failed = call(NOW + 1, status=503, error_code="overloaded", rows=0, cache="", access_token="naïve “token”")
    note(endpoint_id, call(), failed)
    assert usage.last_calls(str(UUID(endpoint_id))) == [failed, call()]
    assert usage.last_calls(endpoint_id, limit=1) == [failed]
    assert usage.last_calls(endpoint_id, limit=0) == []
    assert usage.last_calls(uuid4().hex) == []


def test_calls_of_several_processes_are_in_the_order_of_their_time(endpoint_id: str) -> None:
    note(endpoint_id, call(NOW), call(NOW + 2))
    note(endpoint_id, call(NOW + 1))
    assert [each.at for each in usage.last_calls(endpoint_id)] == [NOW + 2, NOW + 1, NOW]


def test_only_the_last_calls_are_kept(endpoint_id: str) -> None:
    for start in (0, 150):
        note(endpoint_id, *(call(NOW + number) for number in range(start, start + 150)))
    kept = usage.last_calls(endpoint_id)
    assert [each.at for each in kept] == [NOW + number for number in range(299, 99, -1)]
    note(endpoint_id, *(call(NOW + number) for number in range(1000)))
    assert [each.at for each in usage.last_calls(endpoint_id)] == [NOW + number for number in range(999, 799, -1)]


def test_everything_goes_by_itself(endpoint_id: str) -> None:
    note(endpoint_id, call())
    client = get_redis_connection("default")
    names = [
        keys.calls_name(endpoint_id),
        keys.minutes_name(endpoint_id, int(NOW // DAY)),
        keys.durations_name(endpoint_id, int(NOW // HOUR)),
    ]
    assert [client.ttl(name) for name in names] == pytest.approx([30 * DAY, 2 * DAY, 2 * HOUR], abs=5)


def test_a_busy_endpoint_stays_small(endpoint_id: str) -> None:
    for minute in range(1440):
        note(endpoint_id, *(call(NOW + minute * MINUTE, milliseconds=ms) for ms in (0.1, 40.0, 100_000.0)))
    client = get_redis_connection("default")
    sizes = {name: client.memory_usage(name) for name in client.keys(f"lqe:*:{endpoint_id}*")}
    assert len(sizes) < 30
    assert sum(sizes.values()) < 500_000


def test_calls_count_in_their_minute(endpoint_id: str) -> None:
    note(
        endpoint_id,
        call(NOW - DAY),  # a day and no second ago: not of these 1440 minutes
        call(NOW - DAY + MINUTE, cache="hit"),
        call(NOW - HOUR, cache="stale"),
        call(NOW - MINUTE, status=429),
        call(NOW - MINUTE, status=304, cache="hit"),
        call(NOW, status=504),
        call(NOW + 59.9),
        call(NOW + 60),
    )
    found = activity(endpoint_id, now=NOW + 30)
    assert len(found.calls) == usage.MINUTES
    where = {minute - usage.MINUTES + 1: count for minute, count in enumerate(found.calls) if count}
    assert where == {-1439: 1, -60: 1, -1: 2, 0: 2}
    assert (found.refused[-2], found.failed[-1], found.cached[-2]) == (1, 1, 1)
    assert (sum(found.refused), sum(found.failed), sum(found.cached)) == (1, 1, 3)
    assert found.cached_share == 3 / 4
    assert activity(endpoint_id, now=NOW + 60).calls[-1] == 1


def test_durations_are_those_of_the_last_60_minutes_without_refusals(endpoint_id: str) -> None:
    note(
        endpoint_id,
        call(NOW - HOUR, milliseconds=9_000),
        call(NOW - HOUR + MINUTE, milliseconds=10),
        call(NOW, milliseconds=10),
        call(NOW, milliseconds=10, status=504),
        call(NOW, milliseconds=9_000, status=400),
    )
    durations = activity(endpoint_id).durations
    assert sum(durations.counts) == 3
    assert durations.quantile_ms(0.95) == pytest.approx(10, rel=0.3)


def test_endpoints_are_apart_and_processes_add_up(endpoint_id: str) -> None:
    other = uuid4().hex
    note(endpoint_id, call())
    note(other, call(), call())
    note(endpoint_id, call())
    found = usage.activity([other, endpoint_id], now=NOW)
    assert [sum(found[each].calls) for each in (endpoint_id, other)] == [2, 2]
    assert usage.activity([], now=NOW) == {}
    unused = activity(uuid4().hex)
    assert (sum(unused.calls), unused.cached_share, unused.durations.quantile_ms(0.5)) == (0, None, None)


def test_noting_never_fails_and_memory_is_bounded_while_redis_is_away(own_redis: OwnRedis, endpoint_id: str) -> None:
    own_redis.kill()
    for _ in range(recent_calls._PENDING_LIMIT + 10):
        usage.note_outcome(endpoint_id, call())
    assert len(recent_calls._pending) == recent_calls._PENDING_LIMIT
    recent_calls.flush()
    assert not recent_calls._pending
    with pytest.raises(CacheUnavailable):
        usage.last_calls(endpoint_id)
    with pytest.raises(CacheUnavailable):
        usage.activity([endpoint_id], now=NOW)


def test_what_another_release_wrote_is_left_out(endpoint_id: str) -> None:
    note(endpoint_id, call())
    for text in (b"[1]", b"nothing", b'{"at":1}', b"7"):
        get_redis_connection("default").lpush(keys.calls_name(endpoint_id), text)
    assert usage.last_calls(endpoint_id) == [call()]


@hypothesis_settings(max_examples=200, deadline=None)
@given(
    milliseconds=st.lists(st.floats(0.51, UPPER_BOUNDS_MS[-1]), min_size=1, max_size=100),
    share=st.sampled_from([0.01, 0.5, 0.95, 1.0]),
)
def test_a_quantile_is_right_to_a_bucket(milliseconds: list[float], share: float) -> None:
    counts = [0] * BUCKETS
    for each in milliseconds:
        counts[bucket_of(each)] += 1
    ordered = sorted(milliseconds)
    exact = ordered[max(0, -int(-share * len(ordered) // 1) - 1)]
    found = Durations(tuple(counts)).quantile_ms(share)
    assert found is not None
    assert exact / 1.31 <= found <= exact * 1.31


def test_a_bucket_holds_what_does_not_exceed_its_bound() -> None:
    assert [bucket_of(value) for value in (0.0, 0.5, 0.51, UPPER_BOUNDS_MS[-1], 10**9)] == [0, 0, 1, 46, 47]
    assert Durations((*[0] * 47, 1)).quantile_ms(0.5) == UPPER_BOUNDS_MS[-1]
