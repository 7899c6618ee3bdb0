"""Text: functions that PostgreSQL has too, with the same or another name; fields are read as text."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from sqlglot import exp

from endpoints.dialects.bigquery.coercions import as_number, as_text
from endpoints.dialects.bigquery.kinds import Kind
from endpoints.dialects.bigquery.lowering import Lowering, Rule, number_of, offset_of, text_of
from endpoints.dialects.bigquery.patterns import PatternError, translate_pattern
from endpoints.dialects.bigquery.refusals import Refusal, refusal_of
from endpoints.dialects.bigquery.tree import (
    Call,
    Chain,
    Constant,
    Expression,
    Subscript,
    call,
    cast,
    chain,
    infix,
    integer,
    string,
)

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


# --- Pattern functions ------------------------------------------------------------------------------------------------
# REGEXP_CONTAINS and similar functions; `patterns` translates the pattern itself.
_LEADING_FLAGS: Final = re.compile(r"\(\?([is]+)\)")
_BACKREFERENCE: Final = re.compile(r"\\(\\|\d)")


def pattern(node: exp.Expr, lowering: Lowering) -> Expression:
    """Return PostgreSQL's form of the pattern; a pattern known only per row stays as it is, except for `.`."""
    value = as_text(lowering.lower(node))
    if isinstance(value, Constant) and value.text is not None:
        try:
            return string(translate_pattern(value.text), origin=value.origin)
        except PatternError as error:
            raise Refusal("the pattern", str(error), offset=_known(value.origin, node)) from error
    flags = "p"
    if isinstance(value, Chain) and isinstance(first := value.operands[0], Constant) and first.text is not None:
        match = _LEADING_FLAGS.match(first.text)
        if match is not None:
            # (?i) must stay at the very beginning.
            flags = match[1].replace("s", "") + ("" if "s" in match[1] else "p")
            rest = string(first.text[match.end() :], origin=first.origin)
            value = replace(value, operands=(rest, *value.operands[1:]))
    return chain("||", string(f"(?{flags})") if flags else string(""), value, kind=Kind.TEXT)


def _known(offset: int, node: exp.Expr) -> int | None:
    found = offset if offset >= 0 else offset_of(node)
    return found if found >= 0 else None


def contains_pattern(node: exp.RegexpLike, lowering: Lowering) -> Expression:
    value = as_text(lowering.lower(node.this))
    return infix(value, "~", pattern(node.expression, lowering), kind=Kind.BOOLEAN)


def extract(node: exp.RegexpExtract, lowering: Lowering) -> Expression:
    # regexp_extract(x, 'a(b)')  ->  (regexp_match(x, 'a(b)'))[1]
    if number_of(node.args.get("position")) not in (None, 1) or number_of(node.args.get("occurrence")) not in (None, 1):
        raise refusal_of(node, construct="REGEXP_EXTRACT with a position")
    found = call(
        "regexp_match", as_text(lowering.lower(node.this)), pattern(node.expression, lowering), kind=Kind.OTHER
    )
    return Subscript(kind=Kind.TEXT, operand=found, index="1")


def extract_all(node: exp.RegexpExtractAll, lowering: Lowering) -> Expression:
    raise refusal_of(node, construct="REGEXP_EXTRACT_ALL")


def pattern_replacement(node: exp.RegexpReplace, lowering: Lowering) -> Expression:
    values = [as_text(lowering.lower(node.this)), pattern(node.expression, lowering)]
    written = text_of(node.args.get("replacement"))
    if written is None:
        values.append(as_text(lowering.lower(node.args.get("replacement"))))
    else:
        # the whole match is \0 in BigQuery and \& here
        text = _BACKREFERENCE.sub(lambda match: r"\&" if match[1] == "0" else match.group(), written)
        values.append(string(text))
    return Call(kind=Kind.TEXT, name="regexp_replace", arguments=(*values, string("g")))


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
    exp.RegexpLike: contains_pattern,
    exp.RegexpExtract: extract,
    exp.RegexpExtractAll: extract_all,
    exp.RegexpReplace: pattern_replacement,
}
