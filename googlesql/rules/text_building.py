"""LPAD, RPAD and REPEAT: text of a constant length, so that no value can fill the memory."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from googlesql.coercions import as_text
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, Rule, number_of, text_of
from googlesql.refusals import refusal_of
from googlesql.tree import Expression, call, chain, infix, integer, string

LONGEST: Final = 9_999  # characters, as much as format() may pad to in a sandbox query
_LONGEST_WRITTEN: Final = 64  # characters of padding that the resulting text itself contains


def padded(node: exp.Pad, lowering: Lowering) -> Expression:
    # lpad(x, 5, '*')  ->  left('*****', greatest(5 - length(x), 0)) || left(x, 5)
    length = _constant(node, node.expression)
    pattern = node.args.get("fill_pattern")
    written = " " if pattern is None else text_of(pattern)
    if written == "":
        raise refusal_of(node, "needs a pattern of at least one character")
    value = as_text(lowering.lower(node.this))
    padding = _padding(written, length) if written else _repeated(as_text(lowering.lower(pattern)), length)
    if not node.args.get("is_left"):
        return call("left", chain("||", value, padding, kind=Kind.TEXT), integer(length), kind=Kind.TEXT)
    missing = infix(integer(length), "-", call("length", value, kind=Kind.INTEGER), kind=Kind.INTEGER)
    before = call("left", padding, call("GREATEST", missing, integer(0), kind=Kind.INTEGER), kind=Kind.TEXT)
    return chain("||", before, call("left", value, integer(length), kind=Kind.TEXT), kind=Kind.TEXT)


def repeated(node: exp.Repeat, lowering: Lowering) -> Expression:
    return _repeated(as_text(lowering.lower(node.this)), _constant(node, node.args.get("times")))


def _constant(node: exp.Expr, written: exp.Expr | None) -> int:
    number = number_of(written)
    if number is None or not 0 <= number <= LONGEST:
        raise refusal_of(node, f"needs a constant length from 0 to {LONGEST:,}")
    return number


def _padding(pattern: str, length: int) -> Expression:
    if length <= _LONGEST_WRITTEN:
        return string((pattern * length)[:length])
    return _repeated(string(pattern), length)


def _repeated(value: Expression, times: int) -> Expression:
    # repeat(x, 3)  ->  replace(format('%3s', ''), ' ', x)
    if times == 0:
        return call("left", value, integer(0), kind=Kind.TEXT)
    blanks = call("format", string(f"%{times}s"), string(""), kind=Kind.TEXT)
    return call("replace", blanks, string(" "), value, kind=Kind.TEXT)


RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.Pad: padded,
    exp.Repeat: repeated,
}
