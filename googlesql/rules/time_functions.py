"""Moments: the clock, intervals, adding and subtracting, truncation, buckets, Unix time."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from googlesql.coercions import as_date, as_datetime, as_number, as_time, as_timestamp
from googlesql.kinds import MOMENT_KINDS, Kind
from googlesql.lowering import Lowering, Rule, number_of, text_of
from googlesql.refusals import refusal_of
from googlesql.rules.time_parts import (
    DAYS_BEHIND_MONDAY,
    INTERVAL_UNITS,
    TRUNCATION_UNITS,
    number_of_part,
    unit_of,
)
from googlesql.rules.time_zones import in_zone, is_utc, zone_of
from googlesql.tree import (
    Call,
    Constant,
    Expression,
    Extract,
    call,
    cast,
    in_utc,
    infix,
    integer,
    string,
)


# --- The clock --------------------------------------------------------------------------------------------------------
def now(node: exp.Expr, lowering: Lowering) -> Expression:
    """CURRENT_TIMESTAMP, CURRENT_DATETIME, CURRENT_DATE and CURRENT_TIME, the last three in UTC or a given zone."""
    moment = call("now", kind=Kind.TIMESTAMP)
    if isinstance(node, exp.CurrentTimestamp):
        return moment
    zone = node.this
    local = in_utc(moment, Kind.DATETIME) if zone is None else in_zone(moment, zone_of(zone, lowering), Kind.DATETIME)
    if isinstance(node, exp.CurrentDate):
        return cast(local, "date", Kind.DATE)
    return cast(local, "time", Kind.TIME) if isinstance(node, exp.CurrentTime) else local


# --- Intervals --------------------------------------------------------------------------------------------------------
_SPANS: Final = {"YEAR-MONTH": r"-?\d{1,5}-\d{1,2}", "DAY-SECOND": r"-?\d{1,7} \d{1,5}:\d{1,2}:\d{1,2}(\.\d{1,6})?",
          "HOUR-SECOND": r"-?\d{1,5}:\d{1,2}:\d{1,2}(\.\d{1,6})?"}  # fmt: skip


def interval(count: Expression, unit: str, node: exp.Expr) -> Expression:
    """Return an interval: INTERVAL 24 HOUR  ->  INTERVAL '24 hour'."""
    if unit not in INTERVAL_UNITS and unit.removesuffix("S") in INTERVAL_UNITS:
        unit = unit.removesuffix("S")  # interval '24 hours', PostgreSQL's
    if unit not in INTERVAL_UNITS:
        raise refusal_of(node, construct=f"INTERVAL … {unit}")
    word, factor = INTERVAL_UNITS[unit]
    if isinstance(count, Constant) and re.fullmatch(r"'?-?\d{1,9}'?", count.sql):
        number = int(count.sql.strip("'")) * factor
        return Constant(kind=Kind.INTERVAL, sql=f"INTERVAL '{number} {word}'")
    one = Constant(kind=Kind.INTERVAL, sql=f"INTERVAL '{factor} {word}'")
    return infix(_plain_number(count), "*", one, kind=Kind.INTERVAL)


def _plain_number(value: Expression) -> Expression:
    number = as_number(value)
    return cast(number, "double precision", Kind.FLOAT) if number.kind is not Kind.FLOAT else number


def interval_literal(node: exp.Interval, lowering: Lowering) -> Expression:
    unit = node.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        # interval '1-2' year to month
        parts = f"{unit.this.name}-{unit.expression.name}".upper()
        written = text_of(node.this) or ""
        if parts not in _SPANS or not re.fullmatch(_SPANS[parts], written):
            raise refusal_of(node, construct=f"INTERVAL … {parts.replace('-', ' TO ')}")
        return Constant(kind=Kind.INTERVAL, sql=f"INTERVAL '{written}'")
    if node.this is None or unit is None:
        raise refusal_of(node, "needs a number and a unit, such as INTERVAL 24 HOUR", construct="INTERVAL")
    return interval(_count(node.this, lowering), unit_of(node), node)


def _count(node: exp.Expr, lowering: Lowering) -> Expression:
    """Return the number of units; sqlglot turns the number in INTERVAL 24 HOUR into a string."""
    if isinstance(node, exp.Literal) and re.fullmatch(r"[+-]?\d{1,9}", str(node.this).strip()):
        return integer(int(node.this))
    number = number_of(node)
    return integer(number) if number is not None else lowering.lower(node)


def in_range(value: Expression, lowering: Lowering) -> Expression:
    """Return a moment of the years 1 to 9999; another one is an error, or NULL in a SAFE. function."""
    fails = Constant(kind=Kind.BOOLEAN, sql="FALSE" if lowering.safe else "TRUE")
    return call("in_range", value, fails, kind=value.kind) if value.kind in MOMENT_KINDS else value


def _added(operator: str) -> Rule:
    def rule(node: exp.Func, lowering: Lowering) -> Expression:
        # timestamp_sub(t, interval 24 hour)  ->  t - interval '24 hour'
        moment = moment_of(node, lowering.lower(node.this))
        amount = node.expression
        if isinstance(amount, exp.Interval):
            span = lowering.lower(amount)
        else:
            span = interval(_count(amount, lowering), unit_of(node), node)
        result = infix(moment, operator, span, kind=moment.kind)
        return in_range(cast(result, "date", Kind.DATE) if moment.kind is Kind.DATE else result, lowering)

    return rule


def moment_of(node: exp.Expr, value: Expression) -> Expression:
    """Return the argument of TIMESTAMP_ADD, DATE_TRUNC and the like in the type of the function's name.

    DATE_ADD, DATE_TRUNC and DATETIME_ADD also take a TIMESTAMP or DATETIME, and return the same.
    """
    name = type(node).__name__
    if name.startswith("Timestamp"):
        return as_datetime(value) if value.kind in (Kind.DATETIME, Kind.DATE) else as_timestamp(value)
    if name.startswith("Time"):
        return as_time(value)
    if value.kind in (Kind.TIMESTAMP, Kind.DATETIME):
        return value
    return as_datetime(value) if name.startswith("Datetime") else as_date(value)


# --- Truncation -------------------------------------------------------------------------------------------------------
def truncation(node: exp.Func, lowering: Lowering) -> Expression:
    # timestamp_trunc(t, minute)  ->  date_trunc('minute', t, 'UTC')
    if isinstance(node.this, exp.Literal) and str(node.this.name).upper() in TRUNCATION_UNITS:  # as PostgreSQL has it
        raise refusal_of(node, f"has the value first: write timestamp_trunc(timestamp, {node.this.name})")
    moment = moment_of(node, lowering.lower(node.this))
    written = node.args.get("zone")
    zone = string("UTC") if written is None else zone_of(written, lowering)
    unit = unit_of(node)
    if moment.kind is Kind.TIME:
        if unit not in ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR"):
            raise refusal_of(node, construct=unit)
        span = cast(moment, "interval", Kind.INTERVAL)
        whole = call("date_trunc", string(TRUNCATION_UNITS[unit]), span, kind=Kind.INTERVAL)
        return cast(whole, "time", Kind.TIME)
    if moment.kind is Kind.TIMESTAMP:
        if unit in TRUNCATION_UNITS and zone.kind is Kind.TEXT:
            return call("date_trunc", string(TRUNCATION_UNITS[unit]), moment, zone, kind=Kind.TIMESTAMP)
        if unit in ("WEEK", "ISOWEEK", "WEEK(SUNDAY)", "WEEK(MONDAY)") and is_utc(zone):
            return in_range(_week(moment, DAYS_BEHIND_MONDAY[unit], zone), lowering)
        local = truncated(in_zone(moment, zone, Kind.DATETIME), unit, node)
        return in_range(in_zone(local, zone, Kind.TIMESTAMP), lowering)
    result = truncated(moment, unit, node)
    return in_range(result, lowering) if unit in DAYS_BEHIND_MONDAY else result


def truncated(moment: Expression, unit: str, node: exp.Expr) -> Expression:
    """Return the beginning of the unit around a DATETIME or DATE."""
    result: Expression
    if unit in DAYS_BEHIND_MONDAY:
        result = _week(moment, DAYS_BEHIND_MONDAY[unit])
    elif unit == "ISOYEAR":
        result = beginning_of_iso_year(number_of_part("isoyear", moment))
    elif unit in TRUNCATION_UNITS:
        result = Call(kind=moment.kind, name="date_trunc", arguments=(string(TRUNCATION_UNITS[unit]), moment))
    else:
        raise refusal_of(node, construct=unit)
    return cast(result, "date", Kind.DATE) if moment.kind is Kind.DATE else result


def _week(moment: Expression, days: int, *zone: Expression) -> Expression:
    # PostgreSQL's week begins on Monday: the moment so many days before, and its week so many days later
    days = days - 7 if days == DAYS_BEHIND_MONDAY["WEEK"] else days
    shift = Constant(kind=Kind.INTERVAL, sql=f"INTERVAL '{abs(days)} day'")
    kind = Kind.DATETIME if moment.kind is Kind.DATE else moment.kind
    if days:
        moment = infix(moment, "-" if days > 0 else "+", shift, kind=kind)
    week = call("date_trunc", string("week"), moment, *zone, kind=kind)
    return infix(week, "+" if days > 0 else "-", shift, kind=kind) if days else week


def beginning_of_iso_year(year: Expression) -> Expression:
    """Return the Monday of the week with 4 January as DATETIME."""
    fourth = call("make_date", year, integer(1), integer(4), kind=Kind.DATE)
    return call("date_trunc", string("week"), cast(fourth, "timestamp", Kind.DATETIME), kind=Kind.DATETIME)


# --- Unix time --------------------------------------------------------------------------------------------------------
def _unix(factor: int) -> Rule:
    def rule(node: exp.Func, lowering: Lowering) -> Expression:
        seconds = Extract(kind=Kind.NUMBER, part="epoch", operand=as_timestamp(lowering.lower(node.this)))
        units = infix(seconds, "*", integer(factor), kind=Kind.NUMBER) if factor > 1 else seconds
        return cast(call("floor", units, kind=Kind.NUMBER), "bigint", Kind.INTEGER)

    return rule


def from_unix(node: exp.UnixToTime, lowering: Lowering) -> Expression:
    value = as_number(lowering.lower(node.this))
    digits = number_of(node.args.get("scale")) or 0
    if digits not in (0, 3, 6):
        raise refusal_of(node)
    if digits:
        value = infix(value, "/", Constant(kind=Kind.NUMBER, sql=f"{10**digits}.0"), kind=Kind.NUMBER)
    return in_range(call("to_timestamp", value, kind=Kind.TIMESTAMP), lowering)


_EPOCH_DATE: Final = cast(string("1970-01-01"), "date", Kind.DATE)


def unix_date(node: exp.UnixDate, lowering: Lowering) -> Expression:
    return infix(as_date(lowering.lower(node.this)), "-", _EPOCH_DATE, kind=Kind.INTEGER)


def from_unix_date(node: exp.DateFromUnixDate, lowering: Lowering) -> Expression:
    days = cast(as_number(lowering.lower(node.this)), "integer", Kind.INTEGER)
    return in_range(infix(_EPOCH_DATE, "+", days, kind=Kind.DATE), lowering)


RULES: Final[dict[type[exp.Expr], Rule]] = {
    **dict.fromkeys((exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentDatetime, exp.CurrentTime), now),
    exp.Interval: interval_literal,
    **dict.fromkeys((exp.TimestampAdd, exp.DatetimeAdd, exp.DateAdd, exp.TimeAdd), _added("+")),
    **dict.fromkeys((exp.TimestampSub, exp.DatetimeSub, exp.DateSub, exp.TimeSub), _added("-")),
    **dict.fromkeys((exp.TimestampTrunc, exp.DatetimeTrunc, exp.DateTrunc, exp.TimeTrunc), truncation),
    exp.UnixSeconds: _unix(1),
    exp.UnixMillis: _unix(1_000),
    exp.UnixMicros: _unix(1_000_000),
    exp.UnixToTime: from_unix,
    exp.UnixDate: unix_date,
    exp.DateFromUnixDate: from_unix_date,
}
