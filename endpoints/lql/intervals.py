"""Times as intervals between two moments: a day is whole, a shorthand is counted from one clock reading.

PostgreSQL keeps time in whole microseconds (PostgreSQL manual, 8.5), so the last moment of a day is the one before the
next midnight. The day after 9999-12-31 does not exist here, hence this form. Every datetime is in UTC without a zone.
"""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Final

from endpoints.lql.refusals import Fault
from endpoints.lql.rules import (
    Moment,
    Now,
    Operator,
    Shorthand,
    ShorthandKind,
    TimeRangeRule,
    TimeRule,
    TimeShorthandRule,
    Unit,
)

_SPANS: Final = {
    Unit.SECOND: timedelta(seconds=1),
    Unit.MINUTE: timedelta(minutes=1),
    Unit.HOUR: timedelta(hours=1),
    Unit.DAY: timedelta(days=1),
    Unit.WEEK: timedelta(weeks=1),
}


@dataclass(frozen=True, slots=True)
class Bound:
    """One comparison with a moment, such as ``>= 2026-03-17T00:00:00``."""

    operator: Operator
    moment: datetime


# All of them must hold; one or two.
Bounds = tuple[Bound, ...]


def compared(operator: Operator, moment: date | datetime) -> Bounds:
    """Return the bounds for a comparison with a moment or with a whole day."""
    first, last = first_moment(moment), last_moment(moment)
    if operator is Operator.EQUAL:
        return between(first, last)
    is_behind_day = operator in (Operator.GREATER, Operator.LESS_OR_EQUAL)
    return (Bound(operator, last if is_behind_day else first),)


def between(lower: datetime, upper: datetime) -> Bounds:
    """Return the bounds of an interval that includes both ends."""
    if lower == upper:
        return (Bound(Operator.EQUAL, lower),)
    return (Bound(Operator.GREATER_OR_EQUAL, lower), Bound(Operator.LESS_OR_EQUAL, upper))


def rule_bounds(rule: TimeRule | TimeRangeRule | TimeShorthandRule, now: datetime) -> Bounds:
    """Return the bounds of a time rule at this clock reading.

    Raises Fault if the interval begins before the year 1.
    """
    if isinstance(rule, TimeRule):
        return compared(rule.operator, _known(rule.moment, now))
    if isinstance(rule, TimeRangeRule):
        return between(first_moment(rule.lower), last_moment(rule.upper))
    try:
        return between(*shorthand_interval(rule.shorthand, now))
    except (OverflowError, ValueError):
        raise Fault(rule.position, "the interval begins before the year 1", expected=("fewer units",)) from None


def first_moment(moment: date | datetime) -> datetime:
    """Return a moment as it is; for a day, the midnight at which it begins."""
    return moment if isinstance(moment, datetime) else datetime.combine(moment, time.min)


def last_moment(moment: date | datetime) -> datetime:
    """Return a moment as it is; for a day, its last microsecond."""
    return moment if isinstance(moment, datetime) else datetime.combine(moment, time.max)


def shorthand_interval(shorthand: Shorthand, now: datetime) -> tuple[datetime, datetime]:
    """Return both ends, which are part of the interval. Raises OverflowError or ValueError before the year 1.

    ``today`` and ``yesterday`` are whole days; the others end with the clock reading, cut to the second.
    """
    if shorthand.kind is ShorthandKind.TODAY:
        return first_moment(now.date()), last_moment(now.date())
    if shorthand.kind is ShorthandKind.YESTERDAY:
        day = now.date() - timedelta(days=1)
        return first_moment(day), last_moment(day)
    unit = shorthand.unit or Unit.DAY
    lower = _start(unit, now) if shorthand.kind is ShorthandKind.THIS else _before(unit, shorthand.count or 1, now)
    return lower, now.replace(microsecond=0)


def _known(moment: Moment, now: datetime) -> date | datetime:
    return now.replace(microsecond=0) if isinstance(moment, Now) else moment


def _start(unit: Unit, now: datetime) -> datetime:
    """Return the start of the current second, minute, hour, day, week, month or year."""
    if unit is Unit.SECOND:
        return now.replace(microsecond=0)
    if unit is Unit.MINUTE:
        return now.replace(second=0, microsecond=0)
    if unit is Unit.HOUR:
        return now.replace(minute=0, second=0, microsecond=0)
    day = now.date()
    if unit is Unit.WEEK:
        day -= timedelta(days=day.weekday())
    elif unit is Unit.MONTH:
        day = day.replace(day=1)
    elif unit is Unit.YEAR:
        day = day.replace(month=1, day=1)
    return first_moment(day)


def _before(unit: Unit, count: int, now: datetime) -> datetime:
    """Return the beginning of ``last@``: `count` units before the start of the current one.

    As the language's reference says, seconds are not cut, and weeks, months and years count back from today's
    midnight.
    """
    if unit is Unit.SECOND:
        return now - count * _SPANS[unit]
    if unit in (Unit.MINUTE, Unit.HOUR):
        return _start(unit, now) - count * _SPANS[unit]
    today = now.date()
    if unit in (Unit.MONTH, Unit.YEAR):
        return first_moment(_months_before(today, count * (12 if unit is Unit.YEAR else 1)))
    return first_moment(today - count * _SPANS[unit])


def _months_before(day: date, count: int) -> date:
    """Return the same day so many months earlier, or the last day of that month if it is shorter."""
    year, month = divmod(day.year * 12 + day.month - 1 - count, 12)
    if year < 1:
        raise OverflowError
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))
