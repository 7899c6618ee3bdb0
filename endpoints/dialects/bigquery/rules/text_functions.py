"""Text: functions that PostgreSQL has too, with the same or another name; fields are read as text."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from endpoints.dialects.bigquery.coercions import as_number, as_text
from endpoints.dialects.bigquery.kinds import Kind
from endpoints.dialects.bigquery.lowering import Lowering, Rule, number_of
from endpoints.dialects.bigquery.refusals import refusal_of
from endpoints.dialects.bigquery.tree import Constant, Expression
from endpoints.dialects.bigquery.values import call, cast, infix, integer, string

_SAME: Final[dict[type[exp.Expr], tuple[str, Kind]]] = {
    exp.Lower: ("lower", Kind.TEXT),
    exp.Upper: ("upper", Kind.TEXT),
    exp.Initcap: ("initcap", Kind.TEXT),
    exp.Reverse: ("reverse", Kind.TEXT),
    exp.Length: ("length", Kind.INTEGER),
}


def same(node: exp.Func, lowering: Lowering) -> Expression:
    name, kind = _SAME[type(node)]
    value = lowering.lower(node.this)
    return call(name, as_text(value), kind=kind)


def starts_with(node: exp.StartsWith, lowering: Lowering) -> Expression:
    value, prefix = map(as_text, lowering.lower_all([node.this, node.expression]))
    return call("starts_with", value, prefix, kind=Kind.BOOLEAN)


def ends_with(node: exp.EndsWith, lowering: Lowering) -> Expression:
    # ends_with(a, b)  ->  right(a, length(b)) = b
    value, suffix = map(as_text, lowering.lower_all([node.this, node.expression]))
    end = call("right", value, call("length", suffix, kind=Kind.INTEGER), kind=Kind.TEXT)
    return infix(end, "=", suffix, kind=Kind.BOOLEAN)


def position(node: exp.StrPosition, lowering: Lowering) -> Expression:
    if node.args.get("position") is not None or node.args.get("occurrence") is not None:
        raise refusal_of(node, construct="INSTR with a position")
    value, part = map(as_text, lowering.lower_all([node.this, node.args.get("substr")]))
    return call("strpos", value, part, kind=Kind.INTEGER)


def contains(node: exp.Contains, lowering: Lowering) -> Expression:
    # contains_substr(a, b)  ->  strpos(lower(a), lower(b)) > 0
    value, part = map(as_text, lowering.lower_all([node.this, node.expression]))
    return infix(call("strpos", value, part, kind=Kind.INTEGER), ">", integer(0), kind=Kind.BOOLEAN)


def replacement(node: exp.Replace, lowering: Lowering) -> Expression:
    values = lowering.lower_all([node.this, node.expression, node.args.get("replacement")])
    return call("replace", *map(as_text, values), kind=Kind.TEXT)


def substring(node: exp.Substring, lowering: Lowering) -> Expression:
    value = as_text(lowering.lower(node.this))
    start, length = node.args.get("start"), node.args.get("length")
    first = number_of(start)
    if first is not None and first < 0:
        # substr(x, -3, 2)  ->  left(right(x, 3), 2)
        tail = call("right", value, integer(-first), kind=Kind.TEXT)
        return tail if length is None else call("left", tail, _count(lowering.lower(length)), kind=Kind.TEXT)
    begin = integer(max(first, 1)) if first is not None else _count(lowering.lower(start))
    counts = [begin] if length is None else [begin, _count(lowering.lower(length))]
    return call("substr", value, *counts, kind=Kind.TEXT)


def side(node: exp.Left | exp.Right, lowering: Lowering) -> Expression:
    value, count = lowering.lower_all([node.this, node.expression])
    name = "left" if isinstance(node, exp.Left) else "right"
    return call(name, as_text(value), _count(count), kind=Kind.TEXT)


def _count(value: Expression) -> Expression:
    return value if isinstance(value, Constant) and value.kind is Kind.INTEGER else _as_int(value)


def _as_int(value: Expression) -> Expression:
    return cast(as_number(value), "integer", Kind.INTEGER)


def trim(node: exp.Trim, lowering: Lowering) -> Expression:
    side = str(node.args.get("position") or "").upper()
    value = as_text(lowering.lower(node.this))
    if node.args.get("expression") is not None:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "btrim")
        return call(name, value, as_text(lowering.lower(node.expression)), kind=Kind.TEXT)
    # Removes all white space, while PostgreSQL's trim removes only blanks.
    pattern = {"LEADING": r"^\s+", "TRAILING": r"\s+$"}.get(side, r"^\s+|\s+$")
    return call("regexp_replace", value, string(pattern), string(""), string("g"), kind=Kind.TEXT)


def digest(node: exp.Func, lowering: Lowering) -> Expression:
    # to_hex(md5(x))  ->  md5(x)
    inner = node.this
    if isinstance(inner, exp.MD5Digest | exp.MD5):
        return md5(inner, lowering)
    raise refusal_of(node)


def md5(node: exp.MD5 | exp.MD5Digest, lowering: Lowering) -> Expression:
    return call("md5", as_text(lowering.lower(node.this)), kind=Kind.TEXT)


RULES: Final[dict[type[exp.Expr], Rule]] = {
    **dict.fromkeys(_SAME, same),
    exp.StartsWith: starts_with,
    exp.EndsWith: ends_with,
    exp.StrPosition: position,
    exp.Contains: contains,
    exp.Replace: replacement,
    exp.Substring: substring,
    exp.Left: side,
    exp.Right: side,
    exp.Trim: trim,
    exp.LowerHex: digest,
    exp.MD5: md5,
}
