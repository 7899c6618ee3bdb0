"""FORMAT(): a constant template, each of whose directives becomes an expression."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from googlesql import Refused
from googlesql.coercions import as_float, as_integer, as_number, as_text
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, Rule, text_of
from googlesql.refusals import origin, refusal_of
from googlesql.rules.json_functions import json_of
from googlesql.rules.text_building import LONGEST
from googlesql.tree import (
    Case,
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

_DIRECTIVE: Final = re.compile(r"%(?P<flags>[-+ 0#']*)(?P<width>\d+)?(?:\.(?P<places>\d+))?(?P<letter>[A-Za-z%])")
_LARGEST_PLACES: Final = 30  # digits behind the point
_EXACT_DIGITS: Final = 15  # of double precision in to_char()


def formatted(node: exp.Format, lowering: Lowering) -> Expression:
    # format('%d of %s', n, x)  ->  n::text || ' of ' || x; NULL if one is NULL, except for %t and %T
    template = text_of(node.this)
    if template is None:
        raise refusal_of(node, "needs a constant format string", construct="FORMAT")
    values = list(node.expressions)
    parts: list[Expression] = []
    place = 0
    for match in _DIRECTIVE.finditer(template):
        if "%" in template[place : match.start()]:
            break
        if match.start() > place:
            parts.append(string(template[place : match.start()]))
        place = match.end()
        if match["letter"] == "%":
            parts.append(string("%"))
            continue
        if not values:
            raise refusal_of(node, "has more directives than values", construct="FORMAT")
        parts.append(_directive(match, lowering.lower(values.pop(0)), node))
    if "%" in template[place:]:
        raise Refused(template[template.index("%", place) :][:3], "is not a supported format", offset=origin(node))
    if values:
        raise refusal_of(node, "has more values than directives", construct="FORMAT")
    if place < len(template) or not parts:
        parts.append(string(template[place:]))
    return chain("||", *parts, kind=Kind.TEXT)


def _directive(match: re.Match[str], value: Expression, node: exp.Expr) -> Expression:
    flags, letter = match["flags"], match["letter"]
    width, places = int(match["width"] or 0), match["places"]
    if width > LONGEST or int(places or 0) > _LARGEST_PLACES:
        raise refusal_of(node, f"pads to more than {LONGEST:,} characters, or rounds to too many", construct="FORMAT")
    if letter in "di" and places is None:
        return _padded(_signed(as_integer(value), flags), flags, width, numeric=True)
    if letter in "xXo" and places is None and not set(flags) & set("+ '"):
        return _padded(_in_base(as_integer(value), letter, flags, node), flags, width, numeric=True)
    if letter in "fF" and not set(flags) & {"'", "#"}:
        return _padded(_fixed(value, int(places or 6), flags), flags, width, numeric=True)
    if letter in "eEgG" and not set(flags) & {"'", "#"}:
        text = _scientific(value, int(places or 6)) if letter in "eE" else _general(value, int(places or 6))
        text = call("upper", text, kind=Kind.TEXT) if letter in "EG" else text
        return _padded(_with_sign(text, as_number(value), flags), flags, width, numeric=True)
    if letter in "st" and not set(flags) & set("+ 0#'"):
        text = as_text(value) if letter == "s" else _shown(value)
        if places is not None:
            text = call("left", text, integer(int(places)), kind=Kind.TEXT)
        return _padded(text, flags, width, numeric=False)
    if letter in "T" and value.kind in (Kind.TEXT, Kind.INTEGER, Kind.BOOLEAN) and not width and places is None:
        return json_of(value)
    raise Refused(match[0], "is not a supported format", offset=origin(node))


def _shown(value: Expression) -> Expression:
    if value.kind is Kind.FLOAT or (value.kind is Kind.NUMBER and isinstance(value, Constant)):
        # %t of a whole FLOAT64 is 2.0; of a field nobody knows whether it is one, and most are INT64.
        text = as_text(value)
        whole = infix(text, "~", string(r"^-?\d+$"), kind=Kind.BOOLEAN)
        text = Case(kind=Kind.TEXT, operand=None, branches=((whole, chain("||", text, string(".0"), kind=Kind.TEXT)),),
                    default=text)  # fmt: skip
    else:
        text = as_text(value)
    return string("NULL") if value.kind is Kind.NULL else call("COALESCE", text, string("NULL"), kind=Kind.TEXT)


def _signed(value: Expression, flags: str) -> Expression:
    grouped = "FM9G999G999G999G999G999G990" if "'" in flags else ""
    text = call("to_char", value, string(_commas(grouped)), kind=Kind.TEXT) if grouped else as_text(value)
    return _with_sign(text, value, flags)


def _commas(template: str) -> str:
    return template.replace("G", ",")  # G is the separator of the locale


def _with_sign(text: Expression, value: Expression, flags: str) -> Expression:
    mark = "+" if "+" in flags else " " if " " in flags else ""
    if not mark:
        return text
    positive = infix(value, ">=", integer(0), kind=Kind.BOOLEAN)
    sign = Case(kind=Kind.TEXT, operand=None, branches=((positive, string(mark)),), default=string(""))
    return chain("||", sign, text, kind=Kind.TEXT)


def _in_base(value: Expression, letter: str, flags: str, node: exp.Expr) -> Expression:
    if letter == "o":
        raise Refused("%o", "is not a supported format", offset=origin(node))
    absolute = cast(call("abs", value, kind=Kind.INTEGER), "bigint", Kind.INTEGER)
    digits = call("to_hex", absolute, kind=Kind.TEXT)
    digits = call("upper", digits, kind=Kind.TEXT) if letter == "X" else digits
    negative = infix(value, "<", integer(0), kind=Kind.BOOLEAN)
    sign = Case(kind=Kind.TEXT, operand=None, branches=((negative, string("-")),), default=string(""))
    return chain("||", sign, *([string(f"0{letter}")] if "#" in flags else []), digits, kind=Kind.TEXT)


def _fixed(value: Expression, places: int, flags: str) -> Expression:
    # %.2f  ->  to_char(x, 'FM999999999999990.00'), which rounds as C does: 0.25 is 0.2
    number = as_float(value)
    template = "FM" + "9" * (_EXACT_DIGITS - 1) + "0" + ("." + "0" * places if places else "")
    short = call("to_char", number, string(template), kind=Kind.TEXT)
    absolute = call("abs", number, kind=Kind.FLOAT)
    exact = infix(absolute, "<", Constant(kind=Kind.NUMBER, sql=f"1e{_EXACT_DIGITS}"), kind=Kind.BOOLEAN)
    finite = infix(absolute, "<", Constant(kind=Kind.NUMBER, sql="1e300"), kind=Kind.BOOLEAN)
    rounded = call("round", cast(number, "numeric", Kind.NUMBER), integer(places), kind=Kind.NUMBER)
    long = cast(rounded, "text", Kind.TEXT)
    either = Case(kind=Kind.TEXT, operand=None, branches=((exact, short), (finite, long)), default=as_text(number))
    return _with_sign(either, number, flags)


def _scientific(value: Expression, places: int) -> Expression:
    # %e  ->  ltrim(to_char(x, '9.999999EEEE'))
    number = as_number(value)
    template = "9." + "9" * places if places else "9"
    return call("ltrim", call("to_char", number, string(f"{template}EEEE"), kind=Kind.TEXT), kind=Kind.TEXT)


def _general(value: Expression, digits: int) -> Expression:
    """%g: so many digits, none of them a needless zero, with an exponent if the number is very large or small."""
    number, size = as_number(value), max(digits, 1)
    written = _scientific(value, size - 1)
    rounded = cast(written, "numeric", Kind.NUMBER)
    absolute = call("abs", rounded, kind=Kind.NUMBER)
    plain = cast(call("trim_scale", rounded, kind=Kind.NUMBER), "text", Kind.TEXT)
    large = infix(absolute, ">=", integer(10**size), kind=Kind.BOOLEAN)
    tiny = infix(absolute, "<", Constant(kind=Kind.NUMBER, sql="0.0001"), kind=Kind.BOOLEAN)
    small = chain("AND", tiny, infix(number, "<>", integer(0), kind=Kind.BOOLEAN), kind=Kind.BOOLEAN)
    arguments = (written, string(r"\.?0*e"), string("e"))
    exponential = call("regexp_replace", *arguments, kind=Kind.TEXT)
    return Case(kind=Kind.TEXT, operand=None, branches=((large, exponential), (small, exponential)), default=plain)


def _padded(text: Expression, flags: str, width: int, *, numeric: bool) -> Expression:
    """Return the text with blanks, or zeros behind its sign, up to the width; NULL stays NULL."""
    if not width:
        return text
    # left(blanks, greatest(5 - length(x), 0)) || x
    less = infix(integer(width), "-", call("length", text, kind=Kind.INTEGER), kind=Kind.INTEGER)
    missing = call("GREATEST", less, integer(0), kind=Kind.INTEGER)
    zeros = numeric and "0" in flags and "-" not in flags
    blanks = call("format", string(f"%{width}s"), string(""), kind=Kind.TEXT)
    filling = call("translate", blanks, string(" "), string("0"), kind=Kind.TEXT) if zeros else blanks
    padding = call("left", filling, missing, kind=Kind.TEXT)
    if "-" in flags:
        return chain("||", text, padding, kind=Kind.TEXT)
    if not zeros:
        return chain("||", padding, text, kind=Kind.TEXT)
    signed = call("regexp_match", text, string("^([-+ ]?)(.*)$"), kind=Kind.OTHER)
    sign, digits = (_element(signed, index) for index in ("1", "2"))
    return chain("||", sign, padding, digits, kind=Kind.TEXT)


def _element(array: Expression, index: str) -> Expression:
    return Subscript(kind=Kind.TEXT, operand=array, index=index)


RULES: Final[dict[type[exp.Expr], Rule]] = {exp.Format: formatted}
