"""Moments: the clock, truncation, adding and subtracting, differences, Unix time, parsing."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from endpoints.dialects.bigquery.coercions import as_date, as_datetime, as_number, as_text, as_timestamp
from endpoints.dialects.bigquery.kinds import Kind
from endpoints.dialects.bigquery.lowering import Lowering, Rule, number_of, text_of
from endpoints.dialects.bigquery.refusals import refusal_of
from endpoints.dialects.bigquery.rules.time_parts import INTERVAL_UNITS, MICROSECONDS, TRUNCATION_UNITS, unit_of
from endpoints.dialects.bigquery.tree import (
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

_ISO_FORMAT: Final = re.compile(r"%(?:Y-%m-%d|F)(?:[T ](?:%H:%M(?::%(?:E\*?\d?)?S)?|%T)(?:Z| ?%E?z)?)?")


def now(node: exp.Expr, _: Lowering) -> Expression:
    return call("now", kind=Kind.TIMESTAMP)


def today(node: exp.Expr, _: Lowering) -> Expression:
    return cast(in_utc(call("now", kind=Kind.TIMESTAMP), Kind.DATETIME), "date", Kind.DATE)


def local_now(node: exp.Expr, _: Lowering) -> Expression:
    return in_utc(call("now", kind=Kind.TIMESTAMP), Kind.DATETIME)


def interval(count: Expression, unit: str, node: exp.Expr) -> Expression:
    """Return an interval: INTERVAL 24 HOUR  ->  INTERVAL '24 hour'."""
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
    if node.this is None or isinstance(node.args.get("unit"), exp.IntervalSpan):
        raise refusal_of(node, construct="INTERVAL of several parts")
    return interval(_count(node.this, lowering), unit_of(node), node)


def _count(node: exp.Expr, lowering: Lowering) -> Expression:
    """Return the number of units; sqlglot turns the number in INTERVAL 24 HOUR into a string."""
    if isinstance(node, exp.Literal) and re.fullmatch(r"[+-]?\d{1,9}", str(node.this).strip()):
        return integer(int(node.this))
    number = number_of(node)
    return integer(number) if number is not None else lowering.lower(node)


def _added(operator: str) -> Rule:
    def rule(node: exp.Func, lowering: Lowering) -> Expression:
        # timestamp_sub(t, interval 24 hour)  ->  t - interval '24 hour'
        moment = _moment(node, lowering.lower(node.this))
        amount = node.expression
        if isinstance(amount, exp.Interval):
            span = lowering.lower(amount)
        else:
            span = interval(_count(amount, lowering), unit_of(node), node)
        result = infix(moment, operator, span, kind=moment.kind)
        return cast(result, "date", Kind.DATE) if moment.kind is Kind.DATE else result

    return rule


def _moment(node: exp.Expr, value: Expression) -> Expression:
    name = type(node).__name__
    if name.startswith("Timestamp"):
        return as_timestamp(value)
    if name.startswith("Datetime"):
        return as_datetime(value)
    return value if value.kind in (Kind.TIMESTAMP, Kind.DATETIME) and "Trunc" in name else as_date(value)


def truncation(node: exp.Func, lowering: Lowering) -> Expression:
    # timestamp_trunc(t, minute)  ->  date_trunc('minute', t, 'UTC')
    moment = _moment(node, lowering.lower(node.this))
    unit = unit_of(node)
    if unit not in TRUNCATION_UNITS:
        raise refusal_of(node, construct=f"{unit}")
    sunday = unit == "WEEK"
    day = Constant(kind=Kind.INTERVAL, sql="INTERVAL '1 day'")
    if sunday:
        moment = infix(moment, "+", day, kind=Kind.DATETIME if moment.kind is Kind.DATE else moment.kind)
    arguments = [string(TRUNCATION_UNITS[unit]), moment]
    if moment.kind is Kind.TIMESTAMP:
        zone = node.args.get("zone")
        arguments.append(as_text(lowering.lower(zone)) if zone is not None else string("UTC"))
    result: Expression = Call(kind=moment.kind, name="date_trunc", arguments=tuple(arguments))
    if sunday:
        result = infix(result, "-", day, kind=moment.kind)
    is_date = (isinstance(node, exp.DateTrunc) and moment.kind not in (Kind.TIMESTAMP, Kind.DATETIME)) or (
        isinstance(node, exp.DateTrunc) and sunday
    )
    return cast(result, "date", Kind.DATE) if is_date else result


def difference(node: exp.Func, lowering: Lowering) -> Expression:
    """Whole units between two moments; for dates, days and longer units are counted by their boundaries."""
    unit = unit_of(node)
    if isinstance(node, exp.DateDiff | exp.DatetimeDiff) and unit == "DAY":
        left, right = (as_date(value) for value in lowering.lower_all([node.this, node.expression]))
        return infix(left, "-", right, kind=Kind.INTEGER)
    if unit not in MICROSECONDS or isinstance(node, exp.DateDiff):
        raise refusal_of(node, construct=f"a difference in {unit}")
    convert = as_datetime if isinstance(node, exp.DatetimeDiff) else as_timestamp
    left, right = (convert(value) for value in lowering.lower_all([node.this, node.expression]))
    seconds = Extract(kind=Kind.NUMBER, part="epoch", operand=infix(left, "-", right, kind=Kind.INTERVAL))
    micros = infix(seconds, "*", integer(1_000_000), kind=Kind.NUMBER)
    units = infix(micros, "/", integer(MICROSECONDS[unit]), kind=Kind.NUMBER)
    return cast(call("trunc", units, kind=Kind.NUMBER), "bigint", Kind.INTEGER)


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
    return call("to_timestamp", value, kind=Kind.TIMESTAMP)


def to_timestamp(node: exp.Func, lowering: Lowering) -> Expression:
    zone = node.args.get("zone")
    if zone is not None and (text_of(zone) or "").upper() not in ("UTC", "+00", "+00:00"):
        raise refusal_of(node, construct="TIMESTAMP with a time zone")
    return as_timestamp(lowering.lower(node.this))


def to_datetime(node: exp.Func, lowering: Lowering) -> Expression:
    value = lowering.lower(node.this)
    zone = node.args.get("expression")
    if zone is None:
        return as_datetime(value)
    return infix(as_timestamp(value), "AT TIME ZONE", as_text(lowering.lower(zone)), kind=Kind.DATETIME)


def to_date(node: exp.Func, lowering: Lowering) -> Expression:
    if node.args.get("zone") is not None or node.args.get("expressions"):
        raise refusal_of(node, construct="DATE with a time zone")
    return as_date(lowering.lower(node.this))


def parse(node: exp.StrToTime, lowering: Lowering) -> Expression:
    # parse_timestamp('%Y-%m-%dT%H:%M:%E*S%Ez', x)  ->  try_timestamp(x)
    written = text_of(node.args.get("format")) or ""
    if not _ISO_FORMAT.fullmatch(written):
        raise refusal_of(node, "reads only ISO 8601 formats", construct="PARSE_TIMESTAMP")
    return as_timestamp(lowering.lower(node.this))


RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.CurrentTimestamp: now,
    exp.CurrentDate: today,
    exp.CurrentDatetime: local_now,
    exp.Interval: interval_literal,
    **dict.fromkeys((exp.TimestampAdd, exp.DatetimeAdd, exp.DateAdd), _added("+")),
    **dict.fromkeys((exp.TimestampSub, exp.DatetimeSub, exp.DateSub), _added("-")),
    **dict.fromkeys((exp.TimestampTrunc, exp.DatetimeTrunc, exp.DateTrunc), truncation),
    **dict.fromkeys((exp.TimestampDiff, exp.DatetimeDiff, exp.DateDiff), difference),
    exp.UnixSeconds: _unix(1),
    exp.UnixMillis: _unix(1_000),
    exp.UnixMicros: _unix(1_000_000),
    exp.UnixToTime: from_unix,
    exp.Timestamp: to_timestamp,
    exp.TsOrDsToTimestamp: to_timestamp,
    exp.TsOrDsToDatetime: to_datetime,
    exp.Datetime: to_datetime,
    exp.Date: to_date,
    exp.TsOrDsToDate: to_date,
    exp.StrToTime: parse,
}
