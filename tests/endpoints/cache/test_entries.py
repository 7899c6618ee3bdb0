from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from django_redis import get_redis_connection
from structlog.testing import capture_logs

from endpoints.cache import CachePolicy, CacheUnavailable, ResultKey, acquire, finish, result_key
from endpoints.cache.entries import entity_tag, fetch, live_entries, purge, store
from endpoints.cache.keys import share_names
from endpoints.results.compression import zstd_frame
from endpoints.results.outcomes import Outcome, ResultFormat
from tests.endpoints.cache.results import outcome, request

POLICY = CachePolicy(fresh_seconds=100, stale_seconds=50, lease_seconds=10)
BODIES = [b"", b"\0", b"rows", b"row of a log " * 400_000, random.Random(3).randbytes(5 << 20)]


def put(key: ResultKey, result: Outcome, policy: CachePolicy = POLICY) -> None:
    lease = acquire(key.lease, seconds=10)
    assert lease is not None
    try:
        assert store(key, result, policy, lease=lease)
    finally:
        finish(lease)


def let_pass(key: ResultKey, seconds: float) -> None:
    """Age an entry, as Redis sees it."""
    client = get_redis_connection("default")
    client.pexpire(key.entry, client.pttl(key.entry) - round(seconds * 1000))


@pytest.mark.parametrize("body", BODIES, ids=["empty", "one byte", "small", "5 MB", "5 MB of noise"])
def test_result_comes_back_with_all_that_is_known_of_it(key: ResultKey, body: bytes) -> None:
    stored = outcome(body, format=ResultFormat.CSV)
    put(key, stored)
    entry = fetch(key, POLICY)
    assert entry is not None
    assert entry.outcome == stored
    assert entry.etag == entity_tag(body)
    assert entry.is_fresh


@pytest.mark.parametrize("truncated", [False, True])
@pytest.mark.parametrize("next_page", ["", "token"])
def test_a_result_at_its_querys_own_limit_comes_back_as_one(key: ResultKey, truncated: bool, next_page: str) -> None:
    stored = outcome(b"rows", truncated=truncated, next_page=next_page, at_own_limit=not truncated)
    put(key, stored)
    entry = fetch(key, POLICY)
    assert entry is not None
    assert entry.outcome == stored


# --- Shares -----------------------------------------------------------------------------------------------------------


def noise(kilobytes: int) -> Outcome:
    return outcome(random.Random(kilobytes).randbytes(kilobytes * 1000))  # zlib makes nothing smaller of it


def put_for(share: str, name: str, result: Outcome, policy: CachePolicy = POLICY) -> bool:
    """Store a result of a share; tell whether it had room."""
    try:
        put(result_key(ENDPOINT, 1, request(sandbox_text=name)), result, replace(policy, share=share))
    except CacheUnavailable:
        return False
    return True


ENDPOINT = uuid4().hex


@pytest.fixture
def share(settings: Any) -> str:
    settings.ENDPOINTS_SANDBOX_CACHE_BYTES = 100_000
    return uuid4().hex


def test_a_share_has_room_for_so_many_bytes_and_other_shares_have_their_own(share: str) -> None:
    assert [put_for(share, name, noise(30)) for name in "abcd"] == [True, True, True, False]
    assert put_for(share, "small", noise(5))
    assert [put_for(uuid4().hex, name, noise(90)) for name in "ef"] == [True, True]
    assert put_for("", "without a bound", noise(5000))
    assert not put_for(share, "too large by itself", noise(101))
    assert fetch(result_key(ENDPOINT, 1, request(sandbox_text="d")), POLICY) is None


def test_a_result_that_is_renewed_counts_once_and_keeps_its_older_one_if_there_is_no_room(share: str) -> None:
    assert [put_for(share, "a", noise(size)) for size in (60, 60, 60, 90, 120, 20, 60)] == [
        *(True, True, True, True, False, True, True)
    ]
    assert put_for(share, "b", noise(30))
    assert not put_for(share, "a", noise(80))
    entry = fetch(result_key(ENDPOINT, 1, request(sandbox_text="a")), POLICY)
    assert entry is not None
    assert len(entry.outcome.body) == 60_000


def test_what_has_expired_gives_its_bytes_back(share: str) -> None:
    client = get_redis_connection("default")
    assert [put_for(share, name, noise(45)) for name in "abc"] == [True, True, False]
    _, ends = share_names(share)
    client.zadd(ends, dict.fromkeys(client.zrange(ends, 0, 0), 1))
    assert [put_for(share, name, noise(45)) for name in "cd"] == [True, False]


@pytest.mark.parametrize("evicted", [0, 1])
def test_a_share_of_which_redis_has_evicted_a_part_begins_anew(share: str, evicted: int) -> None:
    assert put_for(share, "a", noise(90))
    get_redis_connection("default").delete(share_names(share)[evicted])
    assert [put_for(share, name, noise(90)) for name in "bc"] == [True, False]


def test_a_share_expires_with_its_last_result(share: str) -> None:
    assert put_for(share, "a", noise(1), replace(POLICY, fresh_seconds=1000))
    assert put_for(share, "b", noise(1))
    for name in share_names(share):
        assert 1000 < get_redis_connection("default").ttl(name) <= 1050


def test_there_is_nothing_before_the_first_run(key: ResultKey) -> None:
    assert fetch(key, POLICY) is None


@pytest.mark.parametrize(
    ("passed", "fresh", "remaining"), [(0, True, 100), (60, True, 40), (99, True, 1), (100, False, 0), (149, False, 0)]
)
def test_age_follows_from_how_long_redis_keeps_the_entry(
    key: ResultKey, passed: float, fresh: bool, remaining: float
) -> None:
    put(key, outcome())
    let_pass(key, passed)
    entry = fetch(key, POLICY)
    assert entry is not None
    assert entry.is_fresh is fresh
    assert entry.age_seconds == pytest.approx(passed, abs=0.9)
    assert POLICY.remaining(entry.age_seconds) == pytest.approx(remaining, abs=0.9)


def test_caller_with_a_shorter_period_sees_the_entry_stale_or_not_at_all(key: ResultKey) -> None:
    put(key, outcome())
    let_pass(key, 20)
    entry = fetch(key, replace(POLICY, fresh_seconds=10, stale_seconds=50))
    assert entry is not None
    assert not entry.is_fresh
    assert fetch(key, replace(POLICY, fresh_seconds=10, stale_seconds=5)) is None


def test_entry_lives_no_longer_than_both_periods(key: ResultKey) -> None:
    put(key, outcome())
    assert 149_000 < get_redis_connection("default").pttl(key.entry) <= 150_000


def cut(value: bytes) -> bytes:
    return value[:-1]


def flip_in_the_frame(value: bytes) -> bytes:
    start = value.index(b"\x28\xb5\x2f\xfd")  # how a zstd frame begins
    return value[:start] + bytes([value[start] ^ 1]) + value[start + 1 :]


@pytest.mark.parametrize("damage", [cut, flip_in_the_frame, lambda value: b"LQE9" + value[4:], lambda value: b""])
def test_damaged_entry_is_logged_and_never_served(key: ResultKey, damage: Callable[[bytes], bytes]) -> None:
    body = b"row" * 10_000
    put(key, replace(outcome(body), zstd=zstd_frame(body)))
    client = get_redis_connection("default")
    client.set(key.entry, damage(client.get(key.entry)), keepttl=True)
    with capture_logs() as logs:
        assert fetch(key, POLICY) is None
    assert [line["event"] for line in logs] == ["cache_entry_unreadable"]
    put(key, outcome(b"anew"))
    entry = fetch(key, POLICY)
    assert entry is not None
    assert entry.outcome.body == b"anew"


def test_entry_that_never_expires_is_not_ours(key: ResultKey) -> None:
    put(key, outcome())
    get_redis_connection("default").persist(key.entry)
    assert fetch(key, replace(POLICY, fresh_seconds=1000, stale_seconds=0)) is None


def test_an_entry_that_seems_to_come_from_the_future_is_not_served(key: ResultKey) -> None:
    put(key, outcome())
    # So it looks when the clock of Redis has gone back: the entry has longer to live than it was given.
    get_redis_connection("default").pexpire(key.entry, 3_600_000)
    assert fetch(key, POLICY) is None
    put(key, outcome(b"anew"))
    entry = fetch(key, POLICY)
    assert entry is not None
    assert 0 <= entry.age_seconds < 1


def test_only_the_holder_of_the_lease_stores(key: ResultKey) -> None:
    lost = acquire(key.lease, seconds=10)
    assert lost is not None
    get_redis_connection("default").delete(key.lease)
    assert not store(key, outcome(b"gone"), POLICY, lease=lost)
    holder = acquire(key.lease, seconds=10)
    assert holder is not None
    assert not store(key, outcome(b"gone"), POLICY, lease=lost)
    assert fetch(key, POLICY) is None
    assert store(key, outcome(), POLICY, lease=holder)


def test_purge_removes_every_version_of_one_endpoint(endpoint_id: str) -> None:
    keys = [result_key(endpoint_id, version, request(redact=redact)) for version in (1, 2) for redact in (True, False)]
    other = result_key(uuid4().hex, 1, request())
    for each in (*keys, other):
        put(each, outcome())
    assert purge(str(UUID(endpoint_id))) == 4
    assert [fetch(each, POLICY) for each in keys] == [None] * 4
    assert fetch(other, POLICY) is not None
    assert (live_entries(endpoint_id), live_entries(other.endpoint_id)) == (0, 1)
    assert purge(endpoint_id) == 0


def test_purge_finds_entries_whose_index_redis_has_evicted(key: ResultKey) -> None:
    put(key, outcome())
    get_redis_connection("default").delete(f"lqe:index:{key.endpoint_id}")
    assert purge(key.endpoint_id) == 1


def test_run_that_began_before_a_purge_does_not_put_its_result_back(key: ResultKey) -> None:
    before = acquire(key.lease, seconds=10)
    assert before is not None
    purge(key.endpoint_id)
    after = acquire(key.lease, seconds=10)
    assert after is not None, "a new run need not wait for the old one"
    assert not store(key, outcome(b"old"), POLICY, lease=before)
    assert store(key, outcome(b"new"), POLICY, lease=after)


def test_purges_among_many_names_of_others(key: ResultKey) -> None:
    client = get_redis_connection("default")
    client.mset({f"other:{number}": b"" for number in range(3000)})
    put(key, outcome())
    assert purge(key.endpoint_id) == 1
    assert len(client.keys("other:*")) == 3000
    assert client.keys(f"*{key.endpoint_id}*") == []


def test_entries_that_redis_evicted_are_not_counted(key: ResultKey) -> None:
    put(key, outcome())
    get_redis_connection("default").delete(key.entry)
    assert live_entries(key.endpoint_id) == 0


def test_index_goes_with_the_last_entry(endpoint_id: str) -> None:
    client = get_redis_connection("default")
    index = f"lqe:index:{endpoint_id}"
    for redact, fresh_seconds in ((False, 1000), (True, 10)):
        put(result_key(endpoint_id, 1, request(redact=redact)), outcome(), replace(POLICY, fresh_seconds=fresh_seconds))
    assert 1_040_000 < client.pttl(index) <= 1_050_000
    client.zadd(index, {"1:expired": 1.0})
    put(result_key(endpoint_id, 2, request()), outcome())
    assert client.zscore(index, "1:expired") is None
