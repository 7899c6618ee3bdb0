"""Text: functions that PostgreSQL has too, with the same or another name; fields are read as text."""

from __future__ import annotations

from typing import Final

from sqlglot import exp
from sqlglot.dialects.bigquery import BigQuery

from googlesql.coercions import as_integer, as_text
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, Rule, number_of
from googlesql.refusals import refusal_of
from googlesql.tree import Case, Constant, Expression, call, cast, infix, integer, string

_SAME: Final[dict[type[exp.Expr], tuple[str, Kind]]] = {
    exp.Lower: ("lower", Kind.TEXT),
    exp.Upper: ("upper", Kind.TEXT),
    exp.Reverse: ("reverse", Kind.TEXT),
    exp.Length: ("length", Kind.INTEGER),
    exp.ByteLength: ("octet_length", Kind.INTEGER),
    exp.Ascii: ("ascii", Kind.INTEGER),
    exp.Unicode: ("ascii", Kind.INTEGER),  # PostgreSQL's is the code point of the first character
}
_LARGEST_COUNT: Final = 2**31 - 1  # of characters in PostgreSQL's functions


def same(node: exp.Func, lowering: Lowering) -> Expression:
    name, kind = _SAME[type(node)]
    value = lowering.lower(node.this)
    if value.kind is Kind.OTHER and name == "length":
        return call("length", value, kind=kind)  # of bytes
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
    value, part = map(as_text, lowering.lower_all([node.this, node.args.get("substr")]))
    numbers = [node.args.get(name) for name in ("position", "occurrence")]
    if numbers == [None, None]:
        return call("strpos", value, part, kind=Kind.INTEGER)
    counts = [integer(1) if number is None else as_integer(lowering.lower(number)) for number in numbers]
    return call("text_position", value, part, *counts, kind=Kind.INTEGER)


def contains(node: exp.Contains, lowering: Lowering) -> Expression:
    # contains_substr(a, b)  ->  strpos(lower(a), lower(b)) > 0
    if node.args.get("json_scope") is not None:
        raise refusal_of(node, "with json_scope is not supported", construct="CONTAINS_SUBSTR")
    value, part = map(as_text, lowering.lower_all([node.this, node.expression]))
    return infix(call("strpos", value, part, kind=Kind.INTEGER), ">", integer(0), kind=Kind.BOOLEAN)


def replacement(node: exp.Replace, lowering: Lowering) -> Expression:
    values = lowering.lower_all([node.this, node.expression, node.args.get("replacement")])
    return call("replace", *map(as_text, values), kind=Kind.TEXT)


def substring(node: exp.Substring, lowering: Lowering) -> Expression:
    value = as_text(lowering.lower(node.this))
    start, length = node.args.get("start"), node.args.get("length")
    first, size = number_of(start), number_of(length)
    if first is None or first < -_LARGEST_COUNT or first > _LARGEST_COUNT or (length is not None and size is None):
        numbers = [as_integer(lowering.lower(number)) for number in (start, length) if number is not None]
        return call("text_part", value, *numbers, kind=Kind.TEXT)
    if first < 0:
        # substr(x, -3, 2)  ->  left(right(x, 3), 2)
        value = call("right", value, integer(-first), kind=Kind.TEXT)
        return value if length is None else _left(value, size)
    begin = integer(max(first, 1))
    if length is None:
        return call("substr", value, begin, kind=Kind.TEXT)
    return (
        _left(value, size) if size is None or size < 0 else call("substr", value, begin, _count(size), kind=Kind.TEXT)
    )


def _left(value: Expression, size: int | None) -> Expression:
    if size is None or size < 0:
        return cast(Constant(kind=Kind.NULL, sql="NULL"), "text", Kind.TEXT)
    return call("left", value, _count(size), kind=Kind.TEXT)


def _count(size: int) -> Expression:
    return integer(min(size, _LARGEST_COUNT))


def side(node: exp.Left | exp.Right, lowering: Lowering) -> Expression:
    value = as_text(lowering.lower(node.this))
    name = "left" if isinstance(node, exp.Left) else "right"
    size = number_of(node.expression)
    if size is not None:
        return _left(value, size) if name == "left" or size < 0 else call(name, value, _count(size), kind=Kind.TEXT)
    count = as_integer(lowering.lower(node.expression))
    # A count below zero would leave characters out in PostgreSQL.
    bounded = cast(call("LEAST", count, integer(_LARGEST_COUNT), kind=Kind.INTEGER), "integer", Kind.INTEGER)
    made = call(name, value, bounded, kind=Kind.TEXT)
    fits = infix(count, ">=", integer(0), kind=Kind.BOOLEAN)
    return Case(kind=Kind.TEXT, operand=None, branches=((fits, made),), default=None)


def trim(node: exp.Trim, lowering: Lowering) -> Expression:
    side = str(node.args.get("position") or "").upper()
    value = as_text(lowering.lower(node.this))
    if node.args.get("expression") is not None:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "btrim")
        return call(name, value, as_text(lowering.lower(node.expression)), kind=Kind.TEXT)
    # Removes all white space, while PostgreSQL's trim removes only blanks.
    pattern = {"LEADING": r"^\s+", "TRAILING": r"\s+$"}.get(side, r"^\s+|\s+$")
    return call("regexp_replace", value, string(pattern), string(""), string("g"), kind=Kind.TEXT)


def capitals(node: exp.Initcap, lowering: Lowering) -> Expression:
    value, delimiters = map(as_text, lowering.lower_all([node.this, node.args.get("expression")]))
    if isinstance(delimiters, Constant) and delimiters.text == _INITCAP_DEFAULT:
        delimiters = string(' \t\n\r\\[](){}/|<>!?@"^#$&~_,.:;*%+-')
    return call("initial_capitals", value, delimiters, kind=Kind.TEXT)


# sqlglot's delimiters if the text names none, with backslashes.
_INITCAP_DEFAULT: Final = BigQuery.INITCAP_DEFAULT_DELIMITER_CHARS


def translation(node: exp.Translate, lowering: Lowering) -> Expression:
    values = lowering.lower_all([node.this, node.args.get("from_"), node.args.get("to")])
    return call("translate", *map(as_text, values), kind=Kind.TEXT)


def character(node: exp.Chr, lowering: Lowering) -> Expression:
    # Of 0 and of what is no character: NULL, where PostgreSQL's fails
    if len(node.expressions) != 1:
        raise refusal_of(node, "takes one code point", construct="CHR")
    code = number_of(node.expressions[0])
    if code is None or not (0 < code < 0x11_0000 and not 0xD800 <= code < 0xE000):
        raise refusal_of(node, "needs a constant code point of a character other than 0", construct="CHR")
    return call("chr", integer(code), kind=Kind.TEXT)


# --- Bytes ------------------------------------------------------------------------------------------------------------
_DIGEST_BITS: Final = {256: "sha256", 512: "sha512"}


def digest(node: exp.MD5Digest | exp.SHA2Digest, lowering: Lowering) -> Expression:
    # sha256(x)  ->  sha256(convert_to(x, 'UTF8')), md5(x)  ->  decode(md5(x), 'hex'): bytes, base64 in results
    if isinstance(node, exp.MD5Digest):
        return call("decode", md5(node, lowering), string("hex"), kind=Kind.OTHER)
    name = _DIGEST_BITS[number_of(node.args.get("length")) or 256]
    return call(name, _bytes(lowering.lower(node.this)), kind=Kind.OTHER)


def _bytes(value: Expression) -> Expression:
    if value.kind is Kind.OTHER:
        return value
    return call("convert_to", as_text(value), string("UTF8"), kind=Kind.OTHER)


def encoded(node: exp.LowerHex | exp.ToBase64, lowering: Lowering) -> Expression:
    value = _bytes(lowering.lower(node.this))
    if isinstance(node, exp.LowerHex):
        return call("encode", value, string("hex"), kind=Kind.TEXT)
    lines = call("encode", value, string("base64"), kind=Kind.TEXT)
    return call("replace", lines, call("chr", integer(10), kind=Kind.TEXT), string(""), kind=Kind.TEXT)


def md5(node: exp.MD5 | exp.MD5Digest, lowering: Lowering) -> Expression:
    # to_hex(md5(x))  ->  md5(x)
    return call("md5", as_text(lowering.lower(node.this)), kind=Kind.TEXT)


def net_function(node: exp.NetFunc, lowering: Lowering) -> Expression:
    if not isinstance(node.this, exp.Host):
        name = node.this.sql_name() if isinstance(node.this, exp.Func) else ""
        name = node.this.name if isinstance(node.this, exp.Anonymous) else name
        raise refusal_of(node, construct=f"NET.{name.upper() or 'FUNC'}")
    return call("host_of", as_text(lowering.lower(node.this.this)), kind=Kind.TEXT)


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
    exp.Initcap: capitals,
    exp.Translate: translation,
    exp.Chr: character,
    exp.LowerHex: encoded,
    exp.ToBase64: encoded,
    exp.MD5: md5,
    exp.MD5Digest: digest,
    exp.SHA2Digest: digest,
    exp.NetFunc: net_function,
}
