# ruff: noqa: DTZ001 - every datetime here is UTC without zone
"""Days are whole, shorthands count from one clock reading, and the calendar's ends are no trap."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.lql.intervals import Bound, between, compared, rule_bounds, shorthand_interval
from endpoints.lql.refusals import Fault
from endpoints.lql.rules import (
    Now,
    Operator,
    Shorthand,
    ShorthandKind,
    TimeRangeRule,
    TimeRule,
    TimeShorthandRule,
    Unit,
)

NOW = datetime(2024, 3, 31, 15, 45, 30, 250_000)  # a Sunday
CUT = datetime(2024, 3, 31, 15, 45, 30)
LAST_MICROSECOND = time(23, 59, 59, 999_999)


def end(day: date) -> datetime:
    return datetime.combine(day, LAST_MICROSECOND)


@pytest.mark.parametrize(
    ("unit", "lower"),
    [
        (Unit.SECOND, CUT),
        (Unit.MINUTE, datetime(2024, 3, 31, 15, 45)),
        (Unit.HOUR, datetime(2024, 3, 31, 15)),
        (Unit.DAY, datetime(2024, 3, 31)),
        (Unit.WEEK, datetime(2024, 3, 25)),
        (Unit.MONTH, datetime(2024, 3, 1)),
        (Unit.YEAR, datetime(2024, 1, 1)),
    ],
)
def test_this_unit_runs_from_its_start_to_now(unit: Unit, lower: datetime) -> None:
    assert shorthand_interval(Shorthand(ShorthandKind.THIS, unit), NOW) == (lower, CUT)


@pytest.mark.parametrize(
    ("unit", "count", "lower"),
    [
        (Unit.SECOND, 1, datetime(2024, 3, 31, 15, 45, 29, 250_000)),
        (Unit.SECOND, 9999, NOW - timedelta(seconds=9999)),
        (Unit.MINUTE, 1, datetime(2024, 3, 31, 15, 44)),
        (Unit.MINUTE, 43, datetime(2024, 3, 31, 15, 2)),
        (Unit.HOUR, 100, datetime(2024, 3, 27, 11)),
        (Unit.DAY, 1, datetime(2024, 3, 30)),
        (Unit.DAY, 365, datetime(2023, 4, 1)),
        (Unit.WEEK, 1, datetime(2024, 3, 24)),
        (Unit.MONTH, 1, datetime(2024, 2, 29)),
        (Unit.MONTH, 2, datetime(2024, 1, 31)),
        (Unit.MONTH, 4, datetime(2023, 11, 30)),
        (Unit.MONTH, 13, datetime(2023, 2, 28)),
        (Unit.YEAR, 1, datetime(2023, 3, 31)),
        (Unit.YEAR, 2023, datetime(1, 3, 31)),
    ],
)
def test_last_units_run_from_a_cut_moment_to_now(unit: Unit, count: int, lower: datetime) -> None:
    assert shorthand_interval(Shorthand(ShorthandKind.LAST, unit, count), NOW) == (lower, CUT)


def test_a_leap_day_a_year_ago_is_the_end_of_february() -> None:
    leap_day = datetime(2024, 2, 29, 12)
    assert shorthand_interval(Shorthand(ShorthandKind.LAST, Unit.YEAR, 1), leap_day)[0] == datetime(2023, 2, 28)
    assert shorthand_interval(Shorthand(ShorthandKind.LAST, Unit.YEAR, 4), leap_day)[0] == datetime(2020, 2, 29)


@pytest.mark.parametrize(
    ("unit", "count"), [(Unit.YEAR, 2024), (Unit.YEAR, 9999), (Unit.MONTH, 24288), (Unit.WEEK, 106_000)]
)
def test_refuses_an_interval_from_before_the_year_1(unit: Unit, count: int) -> None:
    with pytest.raises(Fault, match="before the year 1"):
        rule_bounds(TimeShorthandRule(Shorthand(ShorthandKind.LAST, unit, count)), NOW)


def test_today_and_yesterday_are_whole_days() -> None:
    today, yesterday = (
        shorthand_interval(Shorthand(kind), NOW) for kind in (ShorthandKind.TODAY, ShorthandKind.YESTERDAY)
    )
    assert today == (datetime(2024, 3, 31), end(date(2024, 3, 31)))
    assert yesterday == (datetime(2024, 3, 30), end(date(2024, 3, 30)))


@pytest.mark.parametrize("day", [date(2024, 2, 29), date.min, date.max])
def test_a_day_is_whole_for_every_operator(day: date) -> None:
    start = datetime.combine(day, time.min)
    assert compared(Operator.EQUAL, day) == (
        Bound(Operator.GREATER_OR_EQUAL, start),
        Bound(Operator.LESS_OR_EQUAL, end(day)),
    )
    assert compared(Operator.GREATER, day) == (Bound(Operator.GREATER, end(day)),)
    assert compared(Operator.GREATER_OR_EQUAL, day) == (Bound(Operator.GREATER_OR_EQUAL, start),)
    assert compared(Operator.LESS, day) == (Bound(Operator.LESS, start),)
    assert compared(Operator.LESS_OR_EQUAL, day) == (Bound(Operator.LESS_OR_EQUAL, end(day)),)


@pytest.mark.parametrize("operator", [Operator.EQUAL, Operator.GREATER, Operator.LESS_OR_EQUAL])
def test_a_moment_is_exact(operator: Operator) -> None:
    assert compared(operator, NOW) == (Bound(operator, NOW),)
    assert rule_bounds(TimeRule(operator, Now()), NOW) == (Bound(operator, CUT),)


def test_ranges_include_both_ends() -> None:
    days = TimeRangeRule(date(2024, 1, 1), date(2024, 1, 31))
    assert rule_bounds(days, NOW) == between(datetime(2024, 1, 1), end(date(2024, 1, 31)))
    moments = TimeRangeRule(datetime(2024, 1, 1), datetime(2024, 1, 31))
    assert rule_bounds(moments, NOW) == between(datetime(2024, 1, 1), datetime(2024, 1, 31))


@given(st.datetimes(min_value=datetime(200, 1, 1)), st.sampled_from(Unit), st.integers(1, 99))
def test_a_longer_interval_begins_earlier_and_all_end_with_now(now: datetime, unit: Unit, count: int) -> None:
    shorter, longer = (shorthand_interval(Shorthand(ShorthandKind.LAST, unit, n), now) for n in (count, count + 1))
    assert longer[0] < shorter[0] < now
    assert longer[1] == shorter[1] == now.replace(microsecond=0)
    assert shorthand_interval(Shorthand(ShorthandKind.THIS, unit), now)[0] <= now.replace(microsecond=0)
