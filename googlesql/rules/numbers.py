"""Numbers: bits, signs, overflows of the SAFE_ forms, infinity, trigonometry."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from googlesql.coercions import as_float, as_integer, as_number
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, Rule, number_of
from googlesql.refusals import refusal_of
from googlesql.tree import (
    NULL,
    Case,
    Expression,
    Prefix,
    call,
    cast,
    infix,
    integer,
    opposite,
    string,
)

_BITS: Final = 64
_FLOATS: Final[dict[type[exp.Expr], str]] = {
    exp.Cbrt: "cbrt",
    exp.Sin: "sin",
    exp.Cos: "cos",
    exp.Tan: "tan",
    exp.Cot: "cot",
    exp.Atan: "atan",
    exp.Sinh: "sinh",
    exp.Cosh: "cosh",
    exp.Tanh: "tanh",
}


def float_function(node: exp.Func, lowering: Lowering) -> Expression:
    return call(_FLOATS[type(node)], as_float(lowering.lower(node.this)), kind=Kind.FLOAT)


def angle(node: exp.Atan2, lowering: Lowering) -> Expression:
    return call("atan2", *map(as_float, lowering.lower_all([node.this, node.expression])), kind=Kind.FLOAT)


def complement(node: exp.BitwiseNot, lowering: Lowering) -> Expression:
    return Prefix(kind=Kind.INTEGER, operator="~", operand=as_integer(lowering.lower(node.this)))


def bits(node: exp.BitwiseCount, lowering: Lowering) -> Expression:
    # The digits of the hexadecimal form, each as its bits: bit(64) is no type of a sandbox query.
    value = cast(as_integer(lowering.lower(node.this)), "bigint", Kind.INTEGER)
    digits = call("to_hex", value, kind=Kind.TEXT)
    ones = call("translate", digits, string("0123456789abcdef"), string(_ONES), kind=Kind.TEXT)
    for mark, written in _MARKS:
        ones = call("replace", ones, string(mark), string(written), kind=Kind.TEXT)
    return call("length", ones, kind=Kind.INTEGER)


# 0 has no bit; 1, 2, 4 and 8 have one, written 1; the marks stand for two, three and four.
_ONES: Final = "x11t1tth1tththhf"
_MARKS: Final = (("x", ""), ("t", "11"), ("h", "111"), ("f", "1111"))


def shift(node: exp.BitwiseLeftShift | exp.BitwiseRightShift, lowering: Lowering) -> Expression:
    """A shift by a constant: BigQuery's fills with zeros, and one by all 64 bits leaves none."""
    count = number_of(node.expression)
    is_left = isinstance(node, exp.BitwiseLeftShift)
    if count is None or count < 0:
        raise refusal_of(node, "needs a constant number of bits", construct="<<" if is_left else ">>")
    value = as_integer(lowering.lower(node.this))
    if count >= _BITS:
        return infix(value, "*", integer(0), kind=Kind.INTEGER)
    wide = cast(value, "bigint", Kind.INTEGER)
    shifted = infix(wide, "<<" if is_left else ">>", integer(count), kind=Kind.INTEGER)
    if is_left or count == 0:
        return shifted
    return infix(shifted, "&", integer(2 ** (_BITS - count) - 1), kind=Kind.INTEGER)


def safe_operation(node: exp.Func, lowering: Lowering) -> Expression:
    # safe_add(a, b)  ->  try_integer(a::numeric + b)
    operands = [as_number(value) for value in lowering.lower_all([node.this, node.expression])]
    operator = _SAFE_OPERATORS[type(node)]
    kinds = {value.kind for value in operands}
    if Kind.FLOAT in kinds or Kind.NUMBER in kinds:
        kind = Kind.FLOAT if Kind.FLOAT in kinds else Kind.NUMBER
        return infix(operands[0], operator, operands[1], kind=kind)
    wide = infix(cast(operands[0], "numeric", Kind.NUMBER), operator, operands[1], kind=Kind.NUMBER)
    return call("try_integer", wide, kind=Kind.INTEGER)


_SAFE_OPERATORS: Final[dict[type[exp.Expr], str]] = {
    exp.SafeAdd: "+",
    exp.SafeSubtract: "-",
    exp.SafeMultiply: "*",
}


def safe_negative(node: exp.SafeNegate, lowering: Lowering) -> Expression:
    value = as_number(lowering.lower(node.this))
    if value.kind is Kind.INTEGER:
        return call("try_integer", opposite(cast(value, "numeric", Kind.NUMBER)), kind=Kind.INTEGER)
    return opposite(value)


def is_special(node: exp.IsNan | exp.IsInf, lowering: Lowering) -> Expression:
    value = as_float(lowering.lower(node.this))
    if isinstance(node, exp.IsNan):
        return infix(value, "=", _special("NaN"), kind=Kind.BOOLEAN)
    return infix(call("abs", value, kind=Kind.FLOAT), "=", _special("Infinity"), kind=Kind.BOOLEAN)


def _special(name: str) -> Expression:
    return cast(string(name), "double precision", Kind.FLOAT)


def ieee_division(left: Expression, right: Expression) -> Expression:
    """Return a division in which a divisor of 0 gives infinity or NaN."""
    left, right = as_float(left), as_float(right)
    zero = infix(right, "=", integer(0), kind=Kind.BOOLEAN)
    endless = infix(call("sign", left, kind=Kind.FLOAT), "*", _special("Infinity"), kind=Kind.FLOAT)
    nothing = infix(left, "=", integer(0), kind=Kind.BOOLEAN)
    by_zero = Case(kind=Kind.FLOAT, operand=None, branches=((nothing, _special("NaN")),), default=endless)
    divided = infix(left, "/", right, kind=Kind.FLOAT)
    return Case(kind=Kind.FLOAT, operand=None, branches=((zero, by_zero),), default=divided)


def chance(node: exp.Rand, _: Lowering) -> Expression:
    raise refusal_of(node, "has another result in every row and every call, but results are cached", construct="RAND")


def identifier(node: exp.Uuid, _: Lowering) -> Expression:
    return cast(call("gen_random_uuid", kind=Kind.UUID), "text", Kind.TEXT)


def null_if_zero(value: Expression) -> Expression:
    number = as_number(value)
    return call("NULLIF", number, integer(0), kind=number.kind) if number.kind is not Kind.NULL else NULL


def zero_if_null(value: Expression) -> Expression:
    number = as_number(value)
    return call("COALESCE", number, integer(0), kind=number.kind) if number.kind is not Kind.NULL else integer(0)


RULES: Final[dict[type[exp.Expr], Rule]] = {
    **dict.fromkeys(_FLOATS, float_function),
    exp.Atan2: angle,
    exp.BitwiseNot: complement,
    exp.BitwiseCount: bits,
    exp.BitwiseLeftShift: shift,
    exp.BitwiseRightShift: shift,
    **dict.fromkeys(_SAFE_OPERATORS, safe_operation),
    exp.SafeNegate: safe_negative,
    exp.IsNan: is_special,
    exp.IsInf: is_special,
    exp.Rand: chance,
    exp.Uuid: identifier,
}
