"""Differences of moments in units of time.

Of dates and local times BigQuery counts the boundaries between units, of timestamps the whole units in between.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from googlesql.coercions import as_date, as_datetime, as_time, as_timestamp
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, Rule
from googlesql.refusals import refusal_of
from googlesql.rules.time_parts import DAYS_BEHIND_MONDAY, MICROSECONDS, number_of_part, unit_of
from googlesql.tree import Expression, Extract, call, cast, infix, integer, string

_MONTHS: Final = {"MONTH": ("month", 12), "QUARTER": ("quarter", 4)}
_YEARS: Final = {"YEAR": "year", "ISOYEAR": "isoyear"}


def difference(node: exp.Func, lowering: Lowering) -> Expression:
    """DATE_DIFF, DATETIME_DIFF, TIMESTAMP_DIFF and TIME_DIFF."""
    unit = unit_of(node)
    left, right = lowering.lower_all([node.this, node.expression])
    of_timestamps = isinstance(node, exp.TimestampDiff) or Kind.TIMESTAMP in (left.kind, right.kind)
    if isinstance(node, exp.TimeDiff):
        return _boundaries(as_time(left), as_time(right), unit, node)
    if isinstance(node, exp.TimestampDiff) and Kind.DATETIME in (left.kind, right.kind):
        of_timestamps = False
    if of_timestamps and unit in MICROSECONDS and not (isinstance(node, exp.DateDiff) and unit == "DAY"):
        return _whole_units(as_timestamp(left), as_timestamp(right), unit)
    if unit in MICROSECONDS and unit != "DAY":
        return _boundaries(as_datetime(left), as_datetime(right), unit, node)
    return _days_and_longer(as_date(left), as_date(right), unit, node)


def _whole_units(left: Expression, right: Expression, unit: str) -> Expression:
    micros = _microseconds(infix(left, "-", right, kind=Kind.INTERVAL))
    units = infix(micros, "/", integer(MICROSECONDS[unit]), kind=Kind.NUMBER)
    return cast(call("trunc", units, kind=Kind.NUMBER), "bigint", Kind.INTEGER)


def _microseconds(span: Expression) -> Expression:
    seconds = Extract(kind=Kind.NUMBER, part="epoch", operand=span)
    return infix(seconds, "*", integer(1_000_000), kind=Kind.NUMBER)


def _boundaries(left: Expression, right: Expression, unit: str, node: exp.Expr) -> Expression:
    # floor(left / unit) - floor(right / unit)
    if unit not in MICROSECONDS:
        raise refusal_of(node, construct=f"a difference in {unit}")
    numbers = []
    for moment in (left, right):
        units = infix(_microseconds(moment), "/", integer(MICROSECONDS[unit]), kind=Kind.NUMBER)
        numbers.append(call("floor", units, kind=Kind.NUMBER))
    return cast(infix(numbers[0], "-", numbers[1], kind=Kind.NUMBER), "bigint", Kind.INTEGER)


def _days_and_longer(left: Expression, right: Expression, unit: str, node: exp.Expr) -> Expression:
    if unit == "DAY":
        return infix(left, "-", right, kind=Kind.INTEGER)
    if unit in _MONTHS:
        numbers = [_months(moment, *_MONTHS[unit]) for moment in (left, right)]
    elif unit in _YEARS:
        numbers = [number_of_part(_YEARS[unit], moment) for moment in (left, right)]
    elif unit in DAYS_BEHIND_MONDAY:
        numbers = [_weeks(moment, DAYS_BEHIND_MONDAY[unit]) for moment in (left, right)]
    else:
        raise refusal_of(node, construct=f"a difference in {unit}")
    return infix(numbers[0], "-", numbers[1], kind=Kind.INTEGER)


def _months(moment: Expression, part: str, in_a_year: int) -> Expression:
    years = infix(number_of_part("year", moment), "*", integer(in_a_year), kind=Kind.INTEGER)
    return infix(years, "+", number_of_part(part, moment), kind=Kind.INTEGER)


def _weeks(moment: Expression, days_behind_monday: int) -> Expression:
    # 0001-01-01 was a Monday, and no moment of BigQuery is before it
    first = cast(string(f"0001-01-0{1 + days_behind_monday}"), "date", Kind.DATE)
    days = infix(infix(moment, "-", first, kind=Kind.INTEGER), "+", integer(7), kind=Kind.INTEGER)
    return infix(days, "/", integer(7), kind=Kind.INTEGER)


RULES: Final[dict[type[exp.Expr], Rule]] = dict.fromkeys(
    (exp.TimestampDiff, exp.DatetimeDiff, exp.DateDiff, exp.TimeDiff), difference
)
