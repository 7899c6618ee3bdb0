"""Decides which daily partitions a log table needs, keeps and drops: arithmetic on UTC days, no I/O.

A day is a UTC calendar day, independent of the server's time zone: `[00:00 UTC, 00:00 UTC of the next day)`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

ONE_DAY = timedelta(days=1)
DAYS_AHEAD = 7  # the scheduler may stop for a week: rows still find their partition
# How far back a source that keeps rows for ever takes them: one row from a wrong clock must not create thousands of
# partitions.
DAYS_BACK_WITHOUT_RETENTION = 400
MAX_RETENTION_DAYS = 36_500
MAX_SOURCE_NAME_LENGTH = 48  # + "_p20250602" stays under PostgreSQL's 63 bytes for a name

_PARTITION_SUFFIX = re.compile(r"_p(\d{8})\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class DayWindow:
    """The days, both included, that may have a partition of their own."""

    first: date
    last: date

    def __contains__(self, day: date) -> bool:
        return self.first <= day <= self.last


def utc_day(moment: datetime) -> date:
    """Return the UTC day of an aware moment; raise ValueError for a naive one, whose day is unknown."""
    if moment.tzinfo is None:
        raise ValueError("a moment without a time zone has no UTC day")
    return moment.astimezone(UTC).date()


def start_of_day(day: date) -> datetime:
    """Return the first instant of the UTC day."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def day_bounds(day: date) -> tuple[datetime, datetime]:
    """Return the first instant of the day and of the next: a partition's FROM and TO (TO is exclusive)."""
    return start_of_day(day), start_of_day(day + ONE_DAY)


def days_between(first: date, last: date) -> Iterator[date]:
    """Yield every day from first to last, both included; nothing if last is earlier."""
    for offset in range((last - first).days + 1):
        yield first + timedelta(days=offset)


def partition_name(source_name: str, day: date) -> str:
    """Return the table for one day: `edge_logs`, 2 June 2025 -> `edge_logs_p20250602`."""
    return f"{source_name}_p{day:%Y%m%d}"


def default_partition_name(source_name: str) -> str:
    """Return the table for the rows of every day without a partition."""
    return f"{source_name}_default"


def partition_day(source_name: str, name: str) -> date | None:
    """Return the day of a daily partition of this source, None for any other name."""
    suffix = _PARTITION_SUFFIX.search(name)
    if suffix is None or name[: suffix.start()] != source_name:
        return None
    digits = suffix.group(1)
    try:
        return date(int(digits[:4]), int(digits[4:6]), int(digits[6:]))
    except ValueError:
        return None


def needed_days(today: date, *, days_ahead: int = DAYS_AHEAD) -> tuple[date, ...]:
    """Return the days that need a partition before rows arrive: yesterday (late rows) to days_ahead after today."""
    return tuple(days_between(today - ONE_DAY, today + timedelta(days=days_ahead)))


def first_kept_day(today: date, retention_days: int) -> date:
    """Return the oldest day that still has rows younger than the retention.

    A day goes only when its last instant is older than `retention_days` full days, so rows live up to a day longer.
    """
    return today - timedelta(days=retention_days)


def partition_window(today: date, retention_days: int | None, *, days_ahead: int = DAYS_AHEAD) -> DayWindow:
    """Return the days that get a partition when rows of that day arrive."""
    days_back = DAYS_BACK_WITHOUT_RETENTION if retention_days is None else retention_days
    return DayWindow(first=first_kept_day(today, days_back), last=today + timedelta(days=days_ahead))


def expired_days(days: Collection[date], today: date, *, retention_days: int | None) -> tuple[date, ...]:
    """Return the days whose rows are all older than the retention, oldest first; none without retention."""
    if retention_days is None:
        return ()
    first_kept = first_kept_day(today, retention_days)
    return tuple(sorted(day for day in days if day < first_kept))
