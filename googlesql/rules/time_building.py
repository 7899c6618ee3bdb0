"""Moments from other values: DATE(…), TIMESTAMP(…), DATETIME(…), TIME(…), LAST_DAY, and the buckets."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from googlesql.coercions import (
    as_date,
    as_datetime,
    as_integer,
    as_text,
    as_time,
    as_timestamp,
)
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, Rule
from googlesql.refusals import refusal_of
from googlesql.rules.time_functions import beginning_of_iso_year, in_range, truncated
from googlesql.rules.time_parts import DAYS_BEHIND_MONDAY, number_of_part, unit_of
from googlesql.rules.time_zones import in_zone, zone_of
from googlesql.tree import (
    Constant,
    Expression,
    call,
    cast,
    chain,
    infix,
    integer,
    string,
)


def to_timestamp(node: exp.Timestamp | exp.TsOrDsToTimestamp, lowering: Lowering) -> Expression:
    value = lowering.lower(node.this)
    written = node.args.get("zone")
    if written is None or value.kind is Kind.TIMESTAMP:
        return as_timestamp(value)
    return in_range(in_zone(as_datetime(value), zone_of(written, lowering), Kind.TIMESTAMP), lowering)


def to_datetime(node: exp.Func, lowering: Lowering) -> Expression:
    value = lowering.lower(node.this)
    second = node.args.get("expression")
    if second is None:
        return as_datetime(value)
    moment = None if isinstance(second, exp.Literal) else lowering.lower(second)
    if value.kind is Kind.TIMESTAMP or moment is None or moment.kind is not Kind.TIME:
        return in_range(in_zone(as_timestamp(value), zone_of(second, lowering), Kind.DATETIME), lowering)
    return infix(as_date(value), "+", moment, kind=Kind.DATETIME)


def to_date(node: exp.Date | exp.TsOrDsToDate, lowering: Lowering) -> Expression:
    if node.args.get("expressions"):
        raise refusal_of(node, construct="DATE")
    return as_date(_local(node, lowering))


def to_time(node: exp.Time | exp.TsOrDsToTime, lowering: Lowering) -> Expression:
    return as_time(_local(node, lowering))


def _local(node: exp.Func, lowering: Lowering) -> Expression:
    """Return the argument, of a call with a zone as local time there."""
    value = lowering.lower(node.this)
    written = node.args.get("zone")
    if written is None:
        return value
    return in_range(in_zone(as_timestamp(value), zone_of(written, lowering), Kind.DATETIME), lowering)


# --- From parts -------------------------------------------------------------------------------------------------------
_DATE: Final = ("year", "month", "day")
_TIME: Final = ("hour", "min", "sec")


def from_parts(node: exp.Func, lowering: Lowering) -> Expression:
    """DATE(y, m, d), DATETIME(y, m, d, h, m, s) and TIME(h, m, s); NULL if there is no such moment."""
    names = {exp.DateFromParts: _DATE, exp.TimeFromParts: _TIME}.get(type(node), (*_DATE, *_TIME))
    kind = {exp.DateFromParts: Kind.DATE, exp.TimeFromParts: Kind.TIME}.get(type(node), Kind.DATETIME)
    written = [node.args.get(name) for name in names]
    if any(part is None for part in written) or len([part for part in node.args.values() if part]) != len(names):
        raise refusal_of(node, f"takes {len(names)} numbers", construct=kind.name)
    texts = [as_text(as_integer(lowering.lower(part))) for part in written]
    if kind is Kind.TIME:
        return as_time(chain("||", *_separated(texts, ":"), kind=Kind.TEXT))
    # The year has at least four digits; one with more is not read.
    size = call("GREATEST", integer(4), call("length", texts[0], kind=Kind.INTEGER), kind=Kind.INTEGER)
    year = call("right", chain("||", string("000"), texts[0], kind=Kind.TEXT), size, kind=Kind.TEXT)
    pieces = _separated([year, *texts[1:3]], "-")
    if kind is Kind.DATETIME:
        pieces += [string(" "), *_separated(texts[3:], ":")]
    text = chain("||", *pieces, kind=Kind.TEXT)
    return as_date(text) if kind is Kind.DATE else as_datetime(text)


def _separated(texts: list[Expression], separator: str) -> list[Expression]:
    pieces: list[Expression] = []
    for text in texts:
        pieces += [string(separator), text] if pieces else [text]
    return pieces


# --- The last day, buckets --------------------------------------------------------------------------------------------
_MONTHS: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def last_day(node: exp.LastDay, lowering: Lowering) -> Expression:
    unit = unit_of(node, "MONTH")
    value = as_date(lowering.lower(node.this))
    if unit in _MONTHS:
        step = Constant(kind=Kind.INTERVAL, sql=f"INTERVAL '{_MONTHS[unit]} month'")
        following: Expression = infix(truncated(value, unit, node), "+", step, kind=Kind.DATETIME)
    elif unit in DAYS_BEHIND_MONDAY:
        week = Constant(kind=Kind.INTERVAL, sql="INTERVAL '7 day'")
        following = infix(truncated(value, unit, node), "+", week, kind=Kind.DATETIME)
    elif unit == "ISOYEAR":
        following = beginning_of_iso_year(infix(number_of_part("isoyear", value), "+", integer(1), kind=Kind.INTEGER))
    else:
        raise refusal_of(node, construct=f"LAST_DAY of {unit}")
    return in_range(infix(cast(following, "date", Kind.DATE), "-", integer(1), kind=Kind.DATE), lowering)


_BUCKETS: Final = {
    "timestamp_bucket": (Kind.TIMESTAMP, as_timestamp),
    "datetime_bucket": (Kind.DATETIME, as_datetime),
    "date_bucket": (Kind.DATE, as_date),
}


def bucket(node: exp.Anonymous, lowering: Lowering) -> Expression:
    # timestamp_bucket(t, interval 15 minute)  ->  date_bin(interval '15 minute', t, '1950-01-01')
    kind, convert = _BUCKETS[node.name.lower()]
    if len(node.expressions) not in (2, 3) or not isinstance(node.expressions[1], exp.Interval):
        raise refusal_of(node, "needs a moment, an INTERVAL and perhaps an origin")
    value, width, *origin = node.expressions
    span = lowering.lower(width)
    if not isinstance(span, Constant) or "month" in span.sql or "year" in span.sql or "-" in span.sql:
        raise refusal_of(node, "needs an interval of days or less, written as a constant")
    moments = [convert(lowering.lower(value))]
    moments.append(convert(lowering.lower(origin[0])) if origin else convert(string("1950-01-01")))
    if kind is Kind.DATE:
        moments = [cast(moment, "timestamp", Kind.DATETIME) for moment in moments]
        return cast(call("date_bin", span, *moments, kind=Kind.DATETIME), "date", Kind.DATE)
    return call("date_bin", span, *moments, kind=kind)


RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.Timestamp: to_timestamp,
    exp.TsOrDsToTimestamp: to_timestamp,
    exp.TsOrDsToDatetime: to_datetime,
    exp.Datetime: to_datetime,
    exp.Date: to_date,
    exp.TsOrDsToDate: to_date,
    exp.Time: to_time,
    exp.TsOrDsToTime: to_time,
    **dict.fromkeys((exp.DateFromParts, exp.TimeFromParts, exp.TimestampFromParts), from_parts),
    exp.LastDay: last_day,
}
# Functions that sqlglot does not know.
BY_NAME: Final = dict.fromkeys(_BUCKETS, bucket)
