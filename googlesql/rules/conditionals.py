"""CASE, IF, COALESCE, IFNULL, NULLIF, GREATEST, LEAST: branches of one kind."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from googlesql.coercions import CONVERSIONS, alike, as_boolean, as_text
from googlesql.kinds import NUMERIC_KINDS, Kind
from googlesql.lowering import Lowering, Rule
from googlesql.refusals import refusal_of
from googlesql.rules.json_and_arrays import argument
from googlesql.tree import (
    NULL,
    Call,
    Case,
    Constant,
    Expression,
    call,
    infix,
    integer,
    opposite,
)


def of_one_kind(values: list[Expression]) -> tuple[list[Expression], Kind]:
    """Return the values in a form that fits one column: of one kind, or all as JSON."""
    kinds = {value.kind for value in values} - {Kind.NULL}
    if not kinds:
        return values, Kind.NULL
    if len(kinds) == 1 and Kind.JSON not in kinds:
        return values, kinds.pop()
    if kinds <= NUMERIC_KINDS:
        return values, Kind.FLOAT if Kind.FLOAT in kinds else Kind.NUMBER
    if kinds == {Kind.TEXT, Kind.UUID}:
        return [value if value.kind is Kind.NULL else as_text(value) for value in values], Kind.TEXT
    if Kind.OTHER in kinds:
        return [as_text(value) if value.kind is Kind.JSON else value for value in values], Kind.OTHER
    if Kind.JSON in kinds and len(kinds) == 2:
        # ifnull(m.level, 'log'), coalesce(m.size, 0): the field takes the kind of the value beside it.
        kind = next(iter(kinds - {Kind.JSON}))
        if kind in CONVERSIONS:
            converted = [value if value.kind is Kind.NULL else CONVERSIONS[kind](value) for value in values]
            return converted, Kind.NUMBER if kind in NUMERIC_KINDS else kind
    return [value if value.kind is Kind.NULL else CONVERSIONS[Kind.JSON](value) for value in values], Kind.JSON


def coalesce(node: exp.Coalesce, lowering: Lowering) -> Expression:
    values = [value for value in lowering.lower_all([node.this, *node.expressions]) if value.kind is not Kind.NULL]
    if not values:
        return NULL
    values, kind = of_one_kind(values)
    return values[0] if len(values) == 1 else call("COALESCE", *values, kind=kind)


def extremum(node: exp.Greatest | exp.Least, lowering: Lowering) -> Expression:
    # greatest(a, b)  ->  case when num_nulls(a, b) = 0 then greatest(a, b) end: PostgreSQL's passes over NULLs
    values, kind = of_one_kind(lowering.lower_all([node.this, *node.expressions]))
    if kind is Kind.NULL:
        return NULL
    extreme: Expression = call("GREATEST" if isinstance(node, exp.Greatest) else "LEAST", *values, kind=kind)
    if kind is Kind.FLOAT and isinstance(node, exp.Least):  # NaN is the greatest to PostgreSQL, and any result here
        extreme = opposite(call("GREATEST", *map(opposite, values), kind=kind))
    variable = [value for value in values if not isinstance(value, Constant) or value.kind is Kind.NULL]
    if not variable:
        return extreme
    nulls = infix(call("num_nulls", *map(argument, variable), kind=Kind.INTEGER), "=", integer(0), kind=Kind.BOOLEAN)
    return Case(kind=kind, operand=None, branches=((nulls, extreme),), default=None)


def null_if(node: exp.Nullif, lowering: Lowering) -> Expression:
    left, right = alike(lowering.lower_all([node.this, node.expression]))
    # PostgreSQL gives the type in which it compared them.
    kind = left.kind if right.kind in (left.kind, Kind.NULL) or left.kind not in NUMERIC_KINDS else Kind.NUMBER
    return call("NULLIF", left, right, kind=kind)


def case(node: exp.Case, lowering: Lowering) -> Expression:
    branches = node.args["ifs"]
    if not isinstance(branches, list):  # a call of a function of the name
        raise refusal_of(node, construct="CASE(…)")
    wanted = [branch.this for branch in branches]
    operand: Expression | None = None
    if node.this is not None:
        operand, *conditions = alike(lowering.lower_all([node.this, *wanted]))
    else:
        conditions = [as_boolean(lowering.lower(condition)) for condition in wanted]
    default = node.args.get("default")
    results = lowering.lower_all([*(branch.args["true"] for branch in branches), *([default] if default else [])])
    results, kind = of_one_kind(results)
    return Case(
        kind=kind,
        operand=operand,
        branches=tuple(zip(conditions, results, strict=False)),
        default=results[-1] if default else None,
    )


def conditional(node: exp.If, lowering: Lowering) -> Expression:
    # if(c, a, b)  ->  case when c then a else b end
    results = [node.args["true"], *([node.args["false"]] if node.args.get("false") else [])]
    values, kind = of_one_kind(lowering.lower_all(results))
    condition = as_boolean(lowering.lower(node.this))
    default = values[1] if len(values) > 1 else None
    return Case(kind=kind, operand=None, branches=((condition, values[0]),), default=default)


def count_if(node: exp.CountIf, lowering: Lowering) -> Expression:
    # countif(c)  ->  count(*) filter (where c)
    condition = as_boolean(lowering.ungrouped().lower(node.this))
    return Call(kind=Kind.INTEGER, name="count", star=True, condition=condition)


RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.Coalesce: coalesce,
    exp.Greatest: extremum,
    exp.Least: extremum,
    exp.Nullif: null_if,
    exp.Case: case,
    exp.If: conditional,
    exp.CountIf: count_if,
}
