"""Numbers: ``/`` gives a fraction and ``div`` does not; rounding to places, and the SAFE_ forms."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from googlesql.coercions import as_integer, as_number, as_text, as_timestamp
from googlesql.kinds import MOMENT_KINDS, NUMERIC_KINDS, Kind
from googlesql.lowering import Lowering, Rule, number_of
from googlesql.refusals import refusal_of
from googlesql.rules.time_functions import in_range
from googlesql.tree import (
    Case,
    Cast,
    Chain,
    Constant,
    Expression,
    call,
    cast,
    chain,
    infix,
    integer,
    opposite,
)

_OPERATORS: Final[dict[type[exp.Expr], str]] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "#",
}
_ONE_NUMBER: Final[dict[type[exp.Expr], str]] = {
    exp.Abs: "abs",
    exp.Ceil: "ceil",
    exp.Floor: "floor",
    exp.Sign: "sign",
    exp.Sqrt: "sqrt",
    exp.Exp: "exp",
    exp.Ln: "ln",
}


def kind_of_both(left: Expression, right: Expression) -> Kind:
    """Return the kind of PostgreSQL's result for two numbers."""
    kinds = {left.kind, right.kind}
    if kinds == {Kind.INTEGER}:
        return Kind.INTEGER
    if Kind.OTHER in kinds:
        return Kind.OTHER
    return Kind.FLOAT if Kind.FLOAT in kinds else Kind.NUMBER


def operation(node: exp.Binary, lowering: Lowering) -> Expression:
    left, right = lowering.lower_all([node.this, node.expression])
    operator = _OPERATORS[type(node)]
    if left.kind in MOMENT_KINDS or right.kind in MOMENT_KINDS or Kind.INTERVAL in (left.kind, right.kind):
        return in_range(_with_moments(left, operator, right), lowering)
    left, right = as_number(left), as_number(right)
    if operator in "&|#":
        left, right = (
            value if value.kind is Kind.INTEGER else cast(value, "bigint", Kind.INTEGER) for value in (left, right)
        )
    return infix(left, operator, right, kind=kind_of_both(left, right))


def _with_moments(left: Expression, operator: str, right: Expression) -> Expression:
    if left.kind in (Kind.JSON, Kind.TEXT):
        left = as_timestamp(left)
    if right.kind in (Kind.JSON, Kind.TEXT):
        right = as_timestamp(right)
    both = left.kind in MOMENT_KINDS and right.kind in MOMENT_KINDS
    if Kind.DATE in (left.kind, right.kind) and NUMERIC_KINDS & {left.kind, right.kind}:
        left, right = (
            cast(value, "integer", Kind.INTEGER) if value.kind in NUMERIC_KINDS else value for value in (left, right)
        )
    if Kind.DATE in (left.kind, right.kind) and Kind.INTERVAL in (left.kind, right.kind):
        return infix(left, operator, right, kind=Kind.DATETIME)
    kind = (
        Kind.INTERVAL
        if both
        else next((value.kind for value in (left, right) if value.kind in MOMENT_KINDS), Kind.INTERVAL)
    )
    return infix(left, operator, right, kind=kind)


def division(node: exp.Div, lowering: Lowering) -> Expression:
    # a / b  ->  a::double precision / b
    left, right = (as_number(value) for value in lowering.lower_all([node.this, node.expression]))
    return infix(_float(left), "/", not_zero(right), kind=Kind.FLOAT)


def not_zero(value: Expression) -> Expression:
    """Return a divisor; 0 becomes NULL, as other values that do not fit."""
    if isinstance(value, Constant) and any(digit in "123456789" for digit in value.sql):
        return value
    return call("NULLIF", value, integer(0), kind=value.kind)


def safe_division(node: exp.SafeDivide, lowering: Lowering) -> Expression:
    left, right = (as_number(value) for value in lowering.lower_all([node.this, node.expression]))
    return infix(_float(left), "/", not_zero(right), kind=Kind.FLOAT)


def _float(value: Expression) -> Expression:
    return value if value.kind is Kind.FLOAT else cast(value, "double precision", Kind.FLOAT)


def whole_division(node: exp.IntDiv, lowering: Lowering) -> Expression:
    left, right = (as_number(value) for value in lowering.lower_all([node.this, node.expression]))
    if left.kind is Kind.INTEGER and right.kind is Kind.INTEGER:
        return infix(left, "/", not_zero(right), kind=Kind.INTEGER)
    quotient = call("trunc", infix(_float(left), "/", not_zero(right), kind=Kind.FLOAT), kind=Kind.FLOAT)
    return cast(quotient, "bigint", Kind.INTEGER)


def remainder(node: exp.Mod, lowering: Lowering) -> Expression:
    left, right = (_numeric(as_number(value)) for value in lowering.lower_all([node.this, node.expression]))
    return infix(left, "%", not_zero(right), kind=kind_of_both(left, right))


def _numeric(value: Expression) -> Expression:
    # PostgreSQL has no double precision form of round(x, n), trunc(x, n) and %.
    return cast(value, "numeric", Kind.NUMBER) if value.kind is Kind.FLOAT else value


def rounding(node: exp.Round | exp.Trunc, lowering: Lowering) -> Expression:
    name = "round" if isinstance(node, exp.Round) else "trunc"
    value = as_number(lowering.lower(node.this))
    decimals = node.args.get("decimals")
    if node.args.get("truncate") is not None:
        raise refusal_of(node, "with a rounding mode is not supported", construct="ROUND")
    if name == "round" and value.kind in (Kind.NUMBER, Kind.FLOAT):
        places = integer(0) if decimals is None else as_integer(lowering.lower(decimals))
        return call("rounded", _float(value), places, kind=Kind.FLOAT)
    if decimals is None:
        value = _numeric(value)  # halves away from zero, as in BigQuery
        return call(name, value, kind=Kind.NUMBER)
    number = number_of(decimals)
    count = (
        integer(number)
        if number is not None and number >= 0
        else cast(as_number(lowering.lower(decimals)), "integer", Kind.INTEGER)
    )
    rounded = call(name, cast(value, "numeric", Kind.NUMBER), count, kind=Kind.NUMBER)
    return rounded


def one_number(node: exp.Func, lowering: Lowering) -> Expression:
    value = as_number(lowering.lower(node.this))
    name = _ONE_NUMBER[type(node)]
    if name == "abs":
        return call(name, value, kind=value.kind)
    if name in ("ceil", "floor", "sign"):
        # Of an integer PostgreSQL makes a floating-point number, and so does BigQuery, except of its sign.
        kind = Kind.FLOAT if value.kind is Kind.INTEGER else value.kind
        made = call(name, value, kind=kind)
        return cast(made, "bigint", Kind.INTEGER) if name == "sign" and value.kind is Kind.INTEGER else made
    if name != "exp":
        value = only(value, ">" if name == "ln" else ">=")
    return call(name, _float(value), kind=Kind.FLOAT)


def only(value: Expression, operator: str) -> Expression:
    """Return a number of which a function is defined, compared with 0; others become NULL."""
    if isinstance(value, Constant) and value.sql[:1].isdigit() and any(digit in "123456789" for digit in value.sql):
        return value
    condition = infix(value, operator, integer(0), kind=Kind.BOOLEAN)
    return Case(kind=value.kind, operand=None, branches=((condition, value),), default=None)


def power(node: exp.Pow, lowering: Lowering) -> Expression:
    left, right = (_float(as_number(value)) for value in lowering.lower_all([node.this, node.expression]))
    return call("power", left, right, kind=Kind.FLOAT)


def logarithm(node: exp.Log, lowering: Lowering) -> Expression:
    # log(x) is natural; for log(x, base) sqlglot puts the base first
    base = only(as_number(lowering.lower(node.this)), ">")
    divisor = call("ln", _float(base), kind=Kind.FLOAT)
    if node.args.get("expression") is None:
        return divisor
    value = only(as_number(lowering.lower(node.expression)), ">")
    if isinstance(base, Constant) and base.sql == "10":
        return call("log", _float(value), kind=Kind.FLOAT)  # exact for powers of 10
    return infix(call("ln", _float(value), kind=Kind.FLOAT), "/", not_zero(divisor), kind=Kind.FLOAT)


def negative(node: exp.Neg, lowering: Lowering) -> Expression:
    return opposite(as_number(lowering.lower(node.this)))


def concatenation(node: exp.DPipe, lowering: Lowering) -> Expression:
    # a || b || c: text, and NULL if one is NULL
    parts: list[exp.Expr] = []
    left: exp.Expr = node
    while isinstance(left, exp.DPipe):
        parts.append(left.expression)
        left = left.this
    parts.append(left)
    return chain("||", *map(_part, lowering.lower_all(list(reversed(parts)))), kind=Kind.TEXT)


def concat(node: exp.Concat, lowering: Lowering) -> Expression:
    values = [_part(value) for value in lowering.lower_all(node.expressions)]
    return values[0] if len(values) == 1 else Chain(kind=Kind.TEXT, operator="||", operands=tuple(values))


def _part(value: Expression) -> Expression:
    text = as_text(value)
    # 'a' || NULL, or an operand of unknown type, would make PostgreSQL guess.
    return (
        cast(text, "text", Kind.TEXT) if text.kind in (Kind.NULL, Kind.OTHER) and not isinstance(text, Cast) else text
    )


RULES: Final[dict[type[exp.Expr], Rule]] = {
    **dict.fromkeys(_OPERATORS, operation),
    **dict.fromkeys(_ONE_NUMBER, one_number),
    exp.Div: division,
    exp.SafeDivide: safe_division,
    exp.IntDiv: whole_division,
    exp.Mod: remainder,
    exp.Round: rounding,
    exp.Trunc: rounding,
    exp.Pow: power,
    exp.Log: logarithm,
    exp.Neg: negative,
    exp.DPipe: concatenation,
    exp.Concat: concat,
}
