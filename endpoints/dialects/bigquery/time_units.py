"""Parts of time: their names in BigQuery and in PostgreSQL, and their lengths."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from endpoints.dialects.bigquery.refusals import refusal_of

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
# The units of date_trunc(); its week begins on Monday, BigQuery's on Sunday unless it is an ISOWEEK.
TRUNCATION_UNITS: Final = {
    "MICROSECOND": "microseconds",
    "MILLISECOND": "milliseconds",
    "SECOND": "second",
    "MINUTE": "minute",
    "HOUR": "hour",
    "DAY": "day",
    "WEEK": "week",
    "ISOWEEK": "week",
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


def unit_of(node: exp.Expr) -> str:
    """Return the unit in a function call, in capitals; WEEK if its week begins on Sunday."""
    unit = node.args.get("unit")
    if isinstance(unit, exp.WeekStart):
        day = unit.name.upper()
        if day not in ("SUNDAY", "MONDAY"):
            raise refusal_of(node, construct=f"WEEK({day})")
        return "WEEK" if day == "SUNDAY" else "ISOWEEK"
    if unit is None:
        return "DAY"
    name = str(unit.name).upper()
    if not name:
        raise refusal_of(node, construct=unit.sql("bigquery"))
    return name
