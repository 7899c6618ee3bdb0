"""The sums that a batch of calls becomes: each call counts once in its minute and once in its hour."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from endpoints.auditing.call_entries import NO_ENDPOINT, Entry, sums_of
from endpoints.cache.usage.recent_calls import BUCKETS, RecentCall, bucket_of

START = datetime(2026, 3, 1, 10, 58, tzinfo=UTC).timestamp()
HEAD = 3  # start, endpoint, prefix


def call(*, at: float, status: int = 200, cache: str = "miss", milliseconds: float = 1.0, prefix: str = "a") -> Entry:
    recent = RecentCall(
        at=at,
        access_token="dashboard",
        access_token_prefix=prefix,
        status=status,
        error_code="",
        rows=1,
        milliseconds=milliseconds,
        cache=cache,
        version=1,
    )
    return Entry(recent, None, "", "query", [], None)


def refusals(count: int, *, at: float) -> Entry:
    return Entry(call(at=at, status=429).call, None, "", "query", [], None, count)


CALLS = st.builds(
    call,
    at=st.floats(START, START + 3 * 3600),
    status=st.sampled_from([200, 304, 400, 429, 500, 504]),
    cache=st.sampled_from(["miss", "hit", "stale", "bypass"]),
    milliseconds=st.floats(0.1, 100_000),
    prefix=st.sampled_from(["a", "b"]),
)
REFUSALS = st.builds(refusals, st.integers(1, 1000), at=st.floats(START, START + 3 * 3600))


def totals(entries: list[Entry], *, seconds: int) -> dict[tuple[datetime, str], Counter[str]]:
    """Count the calls of each period and caller the plain way."""
    found: dict[tuple[datetime, str], Counter[str]] = {}
    for entry in entries:
        start = datetime.fromtimestamp(entry.call.at // seconds * seconds, UTC)
        counted = found.setdefault((start, entry.call.access_token_prefix), Counter())
        status = entry.call.status
        counted["calls"] += entry.calls
        counted["refused"] += entry.calls if 400 <= status < 500 else 0
        counted["failed"] += entry.calls if status >= 500 else 0
        counted["cached"] += entry.calls if status < 400 and entry.call.cache in ("hit", "stale") else 0
        counted["timed"] += entry.calls if not 400 <= status < 500 else 0
    return found


@given(st.lists(CALLS | REFUSALS, max_size=30))
def test_each_call_counts_once_in_its_minute_and_its_hour(entries: list[Entry]) -> None:
    sums = sums_of(entries)
    for rows, seconds in ((sums.minutes, 60), (sums.hours, 3600)):
        expected = totals(entries, seconds=seconds)
        assert {(start, prefix) for start, _, prefix, *_ in rows} == set(expected)
        for start, endpoint, prefix, calls, refused, failed, cached, durations in rows:
            counted = expected[start, prefix]
            assert endpoint == NO_ENDPOINT
            assert (calls, refused, failed, cached) == tuple(
                counted[name] for name in ("calls", "refused", "failed", "cached")
            )
            assert sum(durations) == counted["timed"]


@given(st.lists(CALLS | REFUSALS, max_size=30))
def test_rows_come_in_one_order_whatever_the_order_of_the_calls(entries: list[Entry]) -> None:
    assert sums_of(entries) == sums_of(entries[::-1])
    rows = sums_of(entries).minutes
    assert [row[:HEAD] for row in rows] == sorted(row[:HEAD] for row in rows)


def test_a_call_is_counted_in_the_bucket_of_its_duration_in_minutes_and_hours() -> None:
    entries = [
        call(at=START, milliseconds=3.0),
        call(at=START + 60, milliseconds=3.0),
        call(at=START, milliseconds=900.0),
    ]
    sums = sums_of(entries)
    expected = [0] * BUCKETS
    expected[bucket_of(3.0)] += 2
    expected[bucket_of(900.0)] += 1
    (hour,) = sums.hours
    assert hour[-1] == expected
    assert [row[3] for row in sums.minutes] == [2, 1]
