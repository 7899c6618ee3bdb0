"""Parts and units of time: their names in BigQuery and in PostgreSQL, EXTRACT, and weeks that begin on any day."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from googlesql.coercions import as_date, as_datetime, as_timestamp
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, Rule
from googlesql.refusals import NOT_SUPPORTED, refusal_of
from googlesql.rules.time_zones import in_zone, zone_of
from googlesql.tree import Expression, Extract, call, cast, infix, integer

# --- Units ------------------------------------------------------------------------------------------------------------
# BigQuery's unit → PostgreSQL's unit of an interval, and the number of them.
INTERVAL_UNITS: Final = {
    "MICROSECOND": ("microsecond", 1),
    "MILLISECOND": ("millisecond", 1),
    "SECOND": ("second", 1),
    "MINUTE": ("minute", 1),
    "HOUR": ("hour", 1),
    "DAY": ("day", 1),
    "WEEK": ("week", 1),
    "MONTH": ("month", 1),
    "QUARTER": ("month", 3),
    "YEAR": ("year", 1),
}
# The units of date_trunc(); its week begins on Monday, so other weeks and ISOYEAR need more.
TRUNCATION_UNITS: Final = {
    "MICROSECOND": "microseconds",
    "MILLISECOND": "milliseconds",
    "SECOND": "second",
    "MINUTE": "minute",
    "HOUR": "hour",
    "DAY": "day",
    "MONTH": "month",
    "QUARTER": "quarter",
    "YEAR": "year",
}
MICROSECONDS: Final = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
}
# The days on which a week may begin, and how many days they are behind Monday.
_WEEKDAYS: Final = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
DAYS_BEHIND_MONDAY: Final = {
    "WEEK": 6,
    "ISOWEEK": 0,
    **{f"WEEK({day})": number for number, day in enumerate(_WEEKDAYS)},
}


def unit_of(node: exp.Expr, default: str = "DAY") -> str:
    """Return the unit in a function call, in capitals: DAY, WEEK, WEEK(TUESDAY)."""
    unit = node.args.get("unit")
    if unit is None:
        return default
    return named_unit(unit, node)


def named_unit(unit: exp.Expr, node: exp.Expr) -> str:
    """Return the name of a unit in capitals. Raises Refused for a week that begins on no day."""
    if isinstance(unit, exp.WeekStart):
        name = f"WEEK({unit.name.upper()})"
        if name not in DAYS_BEHIND_MONDAY:
            raise refusal_of(node, construct=name)
        return name
    name = str(unit.name).upper()
    if not name:
        raise refusal_of(node, construct=unit.sql("bigquery"))
    return name


# --- EXTRACT ----------------------------------------------------------------------------------------------------------
_PARTS: Final = {
    "MICROSECOND": "microseconds", "MILLISECOND": "milliseconds", "SECOND": "second", "MINUTE": "minute",
    "HOUR": "hour", "DAY": "day", "DAYOFWEEK": "dow", "DAYOFYEAR": "doy", "ISOWEEK": "week", "MONTH": "month",
    "QUARTER": "quarter", "YEAR": "year", "ISOYEAR": "isoyear",
}  # fmt: skip
_PER_MINUTE: Final = {"MICROSECOND": 1_000_000, "MILLISECOND": 1_000}  # PostgreSQL counts the seconds in
_OF_TIME: Final = frozenset({"MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR"})


def number_of_part(part: str, value: Expression) -> Expression:
    """Return a part of a moment in PostgreSQL's name as a whole number."""
    number: Expression = Extract(kind=Kind.NUMBER, part=part, operand=value)
    return cast(number, "integer", Kind.INTEGER)


def week_of_year(value: Expression, days_behind_monday: int) -> Expression:
    """Return the number of the week, 0 before the first day on which weeks begin.

    (day of the year + 6 - days since the week began) / 7
    """
    # dow counts from Sunday; 13 keeps the operand of % above zero
    since = infix(number_of_part("dow", value), "+", integer(13 - days_behind_monday), kind=Kind.INTEGER)
    since = infix(since, "%", integer(7), kind=Kind.INTEGER)
    days = infix(number_of_part("doy", value), "+", integer(6), kind=Kind.INTEGER)
    return infix(infix(days, "-", since, kind=Kind.INTEGER), "/", integer(7), kind=Kind.INTEGER)


def extract(node: exp.Extract, lowering: Lowering) -> Expression:
    operand = node.expression
    part = named_unit(node.this, node)
    if isinstance(operand, exp.AtTimeZone):
        zone = zone_of(operand.args["zone"], lowering)
        value = in_zone(as_timestamp(lowering.lower(operand.this)), zone, Kind.DATETIME)
    else:
        value = lowering.lower(operand)
        value = value if value.kind is Kind.TIME and part in _OF_TIME else as_datetime(value)
    if part in ("DATE", "TIME", "DATETIME"):
        return as_date(value) if part == "DATE" else value if part == "DATETIME" else cast(value, "time", Kind.TIME)
    if part != "ISOWEEK" and part in DAYS_BEHIND_MONDAY:
        return week_of_year(value, DAYS_BEHIND_MONDAY[part])
    if part not in _PARTS:
        reason = "is PostgreSQL's; write unix_seconds(timestamp)" if part == "EPOCH" else NOT_SUPPORTED
        raise refusal_of(node, reason, construct=f"EXTRACT({part} …)")
    if part == "SECOND":
        seconds = call("floor", Extract(kind=Kind.NUMBER, part="second", operand=value), kind=Kind.NUMBER)
        return cast(seconds, "bigint", Kind.INTEGER)
    number: Expression = Extract(kind=Kind.NUMBER, part=_PARTS[part], operand=value)
    if part == "MILLISECOND":
        number = call("floor", number, kind=Kind.NUMBER)
    number = cast(number, "bigint", Kind.INTEGER)
    if part in _PER_MINUTE:
        return infix(number, "%", integer(_PER_MINUTE[part]), kind=Kind.INTEGER)
    return infix(number, "+", integer(1), kind=Kind.INTEGER) if part == "DAYOFWEEK" else number


RULES: Final[dict[type[exp.Expr], Rule]] = {exp.Extract: extract}
