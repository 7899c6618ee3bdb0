"""Histograms over a range of time: how wide their buckets are, and every bucket with its value. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from endpoints.lql.rules import Aggregate, Period

MAX_BARS: Final = 180  # a bar is then some four pixels wide on a page of 1280
MAX_DAYS: Final = 400

WIDTHS: Final[Mapping[Period, timedelta]] = {
    Period.SECOND: timedelta(seconds=1),
    Period.MINUTE: timedelta(minutes=1),
    Period.HOUR: timedelta(hours=1),
    Period.DAY: timedelta(days=1),
}
# Of nothing these are 0, whatever the rows; an average of nothing is none.
_ZERO_OF_NOTHING: Final = frozenset((Aggregate.COUNT, Aggregate.COUNT_DISTINCT))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Bar:
    """One bucket: `start` to `end` (exclusive), cut to the range; `value` None where an aggregate has nothing."""

    start: datetime
    end: datetime
    value: int | float | None


@dataclass(frozen=True, slots=True)
class Histogram:
    """The bars of a range, in order and without gaps."""

    aggregate: Aggregate
    period: Period
    bars: tuple[Bar, ...]


def fitting_period(start: datetime, end: datetime) -> Period:
    """Return the narrowest period that gives at most MAX_BARS buckets; days for what is longer.

    Raises ValueError for a range that is empty or longer than MAX_DAYS.
    """
    if start >= end:
        raise ValueError("The range ends before it begins.")
    if end - start > timedelta(days=MAX_DAYS):
        raise ValueError(f"The range is longer than {MAX_DAYS} days.")
    return next((period for period, width in WIDTHS.items() if (end - start) / width <= MAX_BARS), Period.DAY)


def fill_bars(
    values: Mapping[datetime, int | float | None],
    *,
    start: datetime,
    end: datetime,
    period: Period,
    aggregate: Aggregate,
) -> Histogram:
    """Return the histogram of a range: buckets that have no value get 0 or None, as the aggregate has it."""
    width = WIDTHS[period]
    nothing = 0 if aggregate in _ZERO_OF_NOTHING else None
    bars: list[Bar] = []
    bucket = start - (start - _EPOCH) % width
    while bucket < end:
        bars.append(Bar(max(bucket, start), min(bucket + width, end), values.get(bucket, nothing)))
        bucket += width
    return Histogram(aggregate, period, tuple(bars))
