"""EXTRACT and FORMAT_TIMESTAMP: parts of a moment, in UTC."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from endpoints.dialects.bigquery.coercions import as_date, as_datetime, as_timestamp
from endpoints.dialects.bigquery.kinds import Kind
from endpoints.dialects.bigquery.lowering import Lowering, Rule, text_of
from endpoints.dialects.bigquery.refusals import Refusal, origin, refusal_of
from endpoints.dialects.bigquery.tree import Expression, Extract, call, cast, infix, integer, string

# --- Time units -------------------------------------------------------------------------------------------------------
# Parts of time: their names in BigQuery and in PostgreSQL, and their lengths.
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


# --- Time parts -------------------------------------------------------------------------------------------------------
_PARTS: Final = {
    "MICROSECOND": "microseconds", "MILLISECOND": "milliseconds", "SECOND": "second", "MINUTE": "minute",
    "HOUR": "hour", "DAY": "day", "DAYOFWEEK": "dow", "DAYOFYEAR": "doy", "ISOWEEK": "week", "MONTH": "month",
    "QUARTER": "quarter", "YEAR": "year", "ISOYEAR": "isoyear",
}  # fmt: skip
_PER_MINUTE: Final = {"MICROSECOND": 1_000_000, "MILLISECOND": 1_000}  # PostgreSQL counts the seconds in
# strftime → to_char; only unambiguous parts.
_FORMATS: Final = {
    "%Y": "YYYY", "%m": "MM", "%d": "DD", "%H": "HH24", "%M": "MI", "%S": "SS", "%F": "YYYY-MM-DD", "%T": "HH24:MI:SS",
    "%R": "HH24:MI", "%E*S": "SS.US", "%E6S": "SS.US", "%E3S": "SS.MS", "%y": "YY", "%b": "Mon", "%B": "FMMonth",
    "%a": "Dy", "%A": "FMDay", "%j": "DDD", "%I": "HH12", "%p": "AM", "%Z": '"UTC"', "%z": '"+0000"',
    "%Ez": '"+00:00"', "%e": "FMDD", "%%": '"%"', "%s": "",
}  # fmt: skip
_DIRECTIVE: Final = re.compile(r"%(?:E[*0-9]?[A-Za-z]|.)|[^%]+", re.DOTALL)


def extract(node: exp.Extract, lowering: Lowering) -> Expression:
    operand, part = node.expression, node.name.upper()
    if isinstance(operand, exp.AtTimeZone):
        value: Expression = infix(
            as_timestamp(lowering.lower(operand.this)),
            "AT TIME ZONE",
            lowering.lower(operand.args.get("zone")),
            kind=Kind.DATETIME,
        )
    else:
        value = as_datetime(lowering.lower(operand))
    if part == "DATE":
        return as_date(value)
    if part not in _PARTS:
        raise refusal_of(node, construct=f"EXTRACT({part} …)")
    number = cast(Extract(kind=Kind.NUMBER, part=_PARTS[part], operand=value), "bigint", Kind.INTEGER)
    if part == "SECOND":
        seconds = call("floor", Extract(kind=Kind.NUMBER, part="second", operand=value), kind=Kind.NUMBER)
        return cast(seconds, "bigint", Kind.INTEGER)
    if part in _PER_MINUTE:
        return infix(number, "%", integer(_PER_MINUTE[part]), kind=Kind.INTEGER)
    return infix(number, "+", integer(1), kind=Kind.INTEGER) if part == "DAYOFWEEK" else number


def format_moment(node: exp.TimeToStr, lowering: Lowering) -> Expression:
    # format_timestamp('%Y-%m-%d', t)  ->  to_char(t at time zone 'UTC', 'YYYY-MM-DD')
    written = text_of(node.args.get("format"))
    if written is None or node.args.get("zone") is not None:
        raise refusal_of(node, construct="FORMAT_TIMESTAMP")
    pieces: list[str] = []
    for piece in _DIRECTIVE.findall(written):
        if not piece.startswith("%"):
            pieces.append('"' + piece.replace("\\", "\\\\").replace('"', '\\"') + '"')
        elif _FORMATS.get(piece):
            pieces.append(_FORMATS[piece])
        else:
            raise Refusal(piece, "is not a supported part of a time format", offset=origin(node))
    return call("to_char", as_datetime(lowering.lower(node.this)), string("".join(pieces)), kind=Kind.TEXT)


RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.Extract: extract,
    exp.TimeToStr: format_moment,
}
