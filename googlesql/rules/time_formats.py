"""FORMAT_TIMESTAMP and similar functions: directives of strftime as to_char() and what it does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from googlesql import Refused
from googlesql.coercions import as_date, as_datetime, as_text, as_time, as_timestamp
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, Rule, text_of
from googlesql.refusals import origin, refusal_of
from googlesql.rules.time_parts import DAYS_BEHIND_MONDAY, week_of_year
from googlesql.rules.time_zones import in_zone, zone_of
from googlesql.tree import (
    Case,
    Expression,
    Extract,
    call,
    cast,
    chain,
    in_utc,
    infix,
    integer,
    string,
)

DIRECTIVE: Final = re.compile(r"%E(?:[*]|\d\d?)S|%E4Y|%E?[A-Za-z%]|[^%]+|%", re.DOTALL)
# strftime → to_char
_OF_DATES: Final = {
    "%Y": "YYYY", "%E4Y": "YYYY", "%y": "YY", "%m": "MM", "%d": "DD", "%j": "DDD", "%b": "Mon", "%h": "Mon",
    "%B": "FMMonth", "%a": "Dy", "%A": "FMDay", "%F": "YYYY-MM-DD", "%D": "MM/DD/YY", "%x": "MM/DD/YY",
    "%G": "IYYY", "%g": "IY", "%V": "IW", "%u": "ID", "%Q": "Q",
}  # fmt: skip
_OF_TIMES: Final = {
    "%H": "HH24", "%I": "HH12", "%M": "MI", "%S": "SS", "%p": "AM", "%P": "am", "%R": "HH24:MI", "%T": "HH24:MI:SS",
    "%X": "HH24:MI:SS", "%r": "HH12:MI:SS AM", "%E0S": "SS",
    **{f"%E{digits}S": f"SS.FF{digits}" for digits in range(1, 7)},
}  # fmt: skip
_LITERAL: Final = {"%n": "\n", "%t": "\t", "%%": "%", "%": "%"}
_PADDED: Final = {"%e": "FMDD", "%k": "FMHH24", "%l": "FMHH12"}  # with a blank before one digit
_WEEKS: Final = {"%U": DAYS_BEHIND_MONDAY["WEEK"], "%W": DAYS_BEHIND_MONDAY["ISOWEEK"]}
_COMPOSED: Final = {"%c": ("%a", " ", "%b", " ", "%e", " ", "%T", " ", "%Y")}
_ZONES: Final = frozenset({"%Z", "%z", "%Ez"})
_DATES: Final = frozenset({*_OF_DATES, *_WEEKS, "%e", "%w", "%C"})
_TIMES: Final = frozenset({*_OF_TIMES, "%k", "%l", "%E*S"})
# Directives of what a type does not have stay as they are written, as in BigQuery.
_LEFT_OUT: Final = {
    Kind.TIMESTAMP: frozenset[str](),
    Kind.DATETIME: _ZONES,
    Kind.DATE: _ZONES | _TIMES | {"%c", "%s"},
    Kind.TIME: _ZONES | _DATES | {"%c", "%s"},
}


@dataclass(frozen=True, slots=True)
class _Moment:
    """A moment to be formatted: as local time, and for a TIMESTAMP its distance from UTC."""

    local: Expression
    kind: Kind
    epoch: Expression | None = None
    distance: Expression | None = None  # None in UTC


def format_moment(node: exp.TimeToStr, lowering: Lowering) -> Expression:
    # format_timestamp('%Y-%m-%d', t)  ->  to_char(t at time zone 'UTC', 'YYYY-MM-DD')
    written = text_of(node.args.get("format"))
    if written is None:
        raise refusal_of(node, "needs a constant format", construct="FORMAT_TIMESTAMP")
    moment = _moment(node, lowering)
    parts: list[Expression] = []
    template = ""
    for piece in _directives(written, _LEFT_OUT[moment.kind]):
        if piece in _LEFT_OUT[moment.kind] or not piece.startswith("%") or piece in _LITERAL:
            literal = _LITERAL.get(piece, piece)
            template += '"' + literal.replace("\\", "\\\\").replace('"', '\\"') + '"'
        elif (pattern := _OF_DATES.get(piece) or _OF_TIMES.get(piece)) is not None:
            template += pattern
        else:
            parts += (
                [_formatted(moment, template), _computed(piece, moment, node)]
                if template
                else [_computed(piece, moment, node)]
            )
            template = ""
    if template or not parts:
        parts.append(_formatted(moment, template))
    return chain("||", *parts, kind=Kind.TEXT)


def _directives(written: str, left_out: frozenset[str]) -> Iterator[str]:
    for piece in DIRECTIVE.findall(written):
        yield from (piece,) if piece in left_out else _COMPOSED.get(piece, (piece,))


def _moment(node: exp.TimeToStr, lowering: Lowering) -> _Moment:
    written, zone = node.this, node.args.get("zone")
    value = lowering.lower(written.this)
    if isinstance(written, exp.TsOrDsToTimestamp):
        moment = as_timestamp(value)
        utc = in_utc(moment, Kind.DATETIME)
        if zone is None:
            return _Moment(utc, Kind.TIMESTAMP, moment)
        local = in_zone(moment, zone_of(zone, lowering), Kind.DATETIME)
        return _Moment(local, Kind.TIMESTAMP, moment, infix(local, "-", utc, kind=Kind.INTERVAL))
    if isinstance(written, exp.TsOrDsToDate):
        return _Moment(cast(as_date(value), "timestamp", Kind.DATETIME), Kind.DATE)
    if isinstance(written, exp.TsOrDsToTime):
        return _Moment(as_time(value), Kind.TIME)
    return _Moment(as_datetime(value), Kind.DATETIME, as_datetime(value))


def _formatted(moment: _Moment, template: str) -> Expression:
    if not template:  # of which to_char() makes NULL
        return call("left", as_text(moment.local), integer(0), kind=Kind.TEXT)
    return call("to_char", moment.local, string(template), kind=Kind.TEXT)


def _computed(piece: str, moment: _Moment, node: exp.Expr) -> Expression:
    """Return a directive that to_char() does not have. Raises Refused if there is none of the name."""
    if piece == "%s" and moment.epoch is not None:
        seconds = call("floor", Extract(kind=Kind.NUMBER, part="epoch", operand=moment.epoch), kind=Kind.NUMBER)
        return cast(cast(seconds, "bigint", Kind.INTEGER), "text", Kind.TEXT)
    if piece in _PADDED:
        return call("format", string("%2s"), _formatted(moment, _PADDED[piece]), kind=Kind.TEXT)
    if piece in _WEEKS:
        return call("to_char", week_of_year(moment.local, _WEEKS[piece]), string("FM00"), kind=Kind.TEXT)
    if piece == "%w":
        return cast(Extract(kind=Kind.NUMBER, part="dow", operand=moment.local), "text", Kind.TEXT)
    if piece == "%C":
        return call("left", _formatted(moment, "YYYY"), integer(2), kind=Kind.TEXT)
    if piece == "%E*S":
        fraction = call("rtrim", _formatted(moment, "SS.US"), string("0"), kind=Kind.TEXT)
        return call("rtrim", fraction, string("."), kind=Kind.TEXT)
    if piece in _ZONES:
        return _distance(piece, moment)
    raise Refused(piece, "is not a supported part of a time format", offset=origin(node))


def _distance(piece: str, moment: _Moment) -> Expression:
    if moment.distance is None:
        return string({"%Z": "UTC", "%z": "+0000"}.get(piece, "+00:00"))
    zero = cast(string("0"), "interval", Kind.INTERVAL)
    west = infix(moment.distance, "<", zero, kind=Kind.BOOLEAN)
    sign = Case(kind=Kind.TEXT, operand=None, branches=((west, string("-")),), default=string("+"))
    size = call("GREATEST", moment.distance, infix(zero, "-", moment.distance, kind=Kind.INTERVAL), kind=Kind.INTERVAL)
    if piece != "%Z":
        digits = call("to_char", size, string("HH24MI" if piece == "%z" else "HH24:MI"), kind=Kind.TEXT)
        return chain("||", sign, digits, kind=Kind.TEXT)
    # %Z: UTC, UTC-4, UTC+0530
    whole = infix(call("date_trunc", string("hour"), size, kind=Kind.INTERVAL), "=", size, kind=Kind.BOOLEAN)
    none = infix(size, "=", zero, kind=Kind.BOOLEAN)
    hours = chain("||", sign, call("to_char", size, string("FMHH24"), kind=Kind.TEXT), kind=Kind.TEXT)
    both = chain("||", sign, call("to_char", size, string("HH24MI"), kind=Kind.TEXT), kind=Kind.TEXT)
    behind = Case(kind=Kind.TEXT, operand=None, branches=((none, string("")), (whole, hours)), default=both)
    return chain("||", string("UTC"), behind, kind=Kind.TEXT)


RULES: Final[dict[type[exp.Expr], Rule]] = {exp.TimeToStr: format_moment}
