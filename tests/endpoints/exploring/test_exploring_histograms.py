from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.exploring.exploring import MAX_BARS, MAX_DAYS, WIDTHS, Bar, fill_bars, fitting_period
from endpoints.lql import Aggregate, Period

NOON = datetime(2026, 3, 14, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("length", "period"),
    [
        (timedelta(minutes=3), Period.SECOND),
        (timedelta(minutes=15), Period.MINUTE),
        (timedelta(hours=1), Period.MINUTE),
        (timedelta(days=1), Period.HOUR),
        (timedelta(days=7), Period.HOUR),
        (timedelta(days=8), Period.DAY),
        (timedelta(days=MAX_DAYS), Period.DAY),
    ],
)
def test_the_period_fits_the_range(length: timedelta, period: Period) -> None:
    assert fitting_period(NOON, NOON + length) is period


@pytest.mark.parametrize("length", [timedelta(0), timedelta(seconds=-1), timedelta(days=MAX_DAYS, microseconds=1)])
def test_refuses_ranges_that_are_empty_or_too_long(length: timedelta) -> None:
    with pytest.raises(ValueError, match="range"):
        fitting_period(NOON, NOON + length)


def test_buckets_without_rows_are_there_and_the_outer_ones_are_cut_to_the_range() -> None:
    start, end = NOON + timedelta(minutes=20), NOON + timedelta(hours=2, minutes=10)
    counted = {NOON: "3", NOON + timedelta(hours=2): "1"}
    bars = fill_bars(counted, start=start, end=end, period=Period.HOUR, aggregate=Aggregate.COUNT).bars
    one, two = NOON + timedelta(hours=1), NOON + timedelta(hours=2)
    assert bars == (Bar(start, one, "3"), Bar(one, two, "0"), Bar(two, end, "1"))


def test_an_average_of_nothing_is_none() -> None:
    histogram = fill_bars({}, start=NOON, end=NOON + timedelta(days=1), period=Period.DAY, aggregate=Aggregate.AVERAGE)
    assert [bar.value for bar in histogram.bars] == [None, None]


@given(
    start=st.floats(946684800, 4102444800).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
    length=st.timedeltas(timedelta(microseconds=1), timedelta(days=MAX_DAYS)),
)
def test_bars_cover_the_range_without_gap(start: datetime, length: timedelta) -> None:
    end = start + length
    period = fitting_period(start, end)
    bars = fill_bars({}, start=start, end=end, period=period, aggregate=Aggregate.COUNT).bars
    assert (bars[0].start, bars[-1].end) == (start, end)
    assert all(left.end == right.start for left, right in pairwise(bars))
    assert len(bars) <= (MAX_DAYS if period is Period.DAY else MAX_BARS) + 1
    assert all(bar.end - bar.start <= WIDTHS[period] for bar in bars)
