from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logsources import partitions

JUNE_2 = date(2025, 6, 2)
DAYS = st.dates(min_value=date(2000, 1, 1), max_value=date(2090, 1, 1))


@pytest.mark.parametrize(
    ("moment", "day"),
    [
        (datetime(2025, 6, 2, tzinfo=UTC), date(2025, 6, 2)),
        (datetime(2025, 6, 2, 23, 59, 59, 999_999, tzinfo=UTC), date(2025, 6, 2)),
        # Summer time begins and ends in Berlin: 23:30 UTC the day before, and 00:30 UTC.
        (datetime(2025, 3, 30, 0, 30, tzinfo=ZoneInfo("Europe/Berlin")), date(2025, 3, 29)),
        (datetime(2025, 10, 26, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")), date(2025, 10, 26)),
        (datetime(2025, 6, 2, 23, tzinfo=ZoneInfo("America/New_York")), date(2025, 6, 3)),
        (datetime(2025, 6, 2, 13, tzinfo=timezone(timedelta(hours=14))), date(2025, 6, 1)),
    ],
)
def test_day_of_a_moment_is_its_utc_day(moment, day) -> None:
    assert partitions.utc_day(moment) == day


def test_refuses_moment_without_time_zone() -> None:
    with pytest.raises(ValueError, match="time zone"):
        partitions.utc_day(datetime(2025, 6, 2))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("first", "last", "days"),
    [
        (JUNE_2, JUNE_2, [JUNE_2]),
        (date(2024, 2, 28), date(2024, 3, 1), [date(2024, 2, 28), date(2024, 2, 29), date(2024, 3, 1)]),
        (JUNE_2, date(2025, 6, 1), []),
    ],
)
def test_days_between_includes_both_ends(first, last, days) -> None:
    assert list(partitions.days_between(first, last)) == days


@given(DAYS)
@settings(max_examples=200, deadline=None)
def test_partition_name_says_its_day(day) -> None:
    name = partitions.partition_name("edge_logs", day)
    assert partitions.partition_day("edge_logs", name) == day


@pytest.mark.parametrize(
    "name",
    [
        "edge_logs_default",
        "edge_logs",
        "edge_logs_p2025060",
        "edge_logs_p20250231",
        "other_edge_logs_p20250602",
        "edge_logs_p20250602x",
        "edge_logs_p20250602\n",
        "edge_logs_p٢٠٢٥٠٦٠٢",
    ],
)
def test_other_names_are_no_daily_partitions(name) -> None:
    assert partitions.partition_day("edge_logs", name) is None


def test_longest_source_name_leaves_room_for_partition_names() -> None:
    longest = "x" * partitions.MAX_SOURCE_NAME_LENGTH
    assert len(partitions.partition_name(longest, JUNE_2)) <= 63
    assert len(partitions.default_partition_name(longest)) <= 63


@given(DAYS)
@settings(max_examples=200, deadline=None)
def test_day_bounds_leave_no_gap(day) -> None:
    lower, upper = partitions.day_bounds(day)
    assert upper - lower == timedelta(days=1)
    assert partitions.day_bounds(day + timedelta(days=1))[0] == upper
    assert partitions.utc_day(lower) == partitions.utc_day(upper - timedelta(microseconds=1)) == day


def test_needs_yesterday_to_days_ahead() -> None:
    assert partitions.needed_days(JUNE_2, days_ahead=2) == tuple(date(2025, 6, day) for day in (1, 2, 3, 4))


@pytest.mark.parametrize(
    ("retention_days", "first"), [(1, date(2025, 6, 1)), (90, date(2025, 3, 4)), (None, date(2024, 4, 28))]
)
def test_window_reaches_from_retention_to_days_ahead(retention_days, first) -> None:
    window = partitions.partition_window(JUNE_2, retention_days, days_ahead=3)
    assert (window.first, window.last) == (first, date(2025, 6, 5))
    assert first in window
    assert first - timedelta(days=1) not in window
    assert date(2025, 6, 6) not in window


def test_window_holds_the_longest_retention() -> None:
    assert partitions.partition_window(JUNE_2, partitions.MAX_RETENTION_DAYS).first < date(1926, 1, 1)


def test_keeps_every_day_without_retention() -> None:
    assert partitions.expired_days([date(1990, 1, 1), JUNE_2], JUNE_2, retention_days=None) == ()


def test_expires_days_before_the_retention_oldest_first() -> None:
    days = [date(2025, 5, day) for day in (31, 30, 29)]
    assert partitions.expired_days([JUNE_2, *days], JUNE_2, retention_days=3) == (date(2025, 5, 29),)


@given(DAYS, st.integers(1, 400), st.integers(0, 500), st.integers(0, 86_399))
@settings(max_examples=200, deadline=None)
def test_expires_a_day_only_when_its_last_instant_is_older_than_the_retention(day, retention, age, second) -> None:
    now = partitions.start_of_day(day + timedelta(days=age)) + timedelta(seconds=second)
    expired = partitions.expired_days([day], partitions.utc_day(now), retention_days=retention)
    last_instant = partitions.day_bounds(day)[1] - timedelta(microseconds=1)
    assert bool(expired) == (now - last_instant > timedelta(days=retention))
