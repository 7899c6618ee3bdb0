"""Aggregates: their arguments see single rows, so fields in them are read in the shortest way."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sqlglot import exp

from googlesql.coercions import (
    as_boolean,
    as_integer,
    as_json,
    as_number,
    as_text,
    output,
)
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, Rule
from googlesql.refusals import refusal_of
from googlesql.rules.gathering import without_distinct
from googlesql.tree import Call, Case, Expression, call, cast, infix, opposite, string


def count(node: exp.Count, lowering: Lowering) -> Expression:
    counted, distinct = without_distinct(node.this)
    if counted is None or isinstance(counted, exp.Star):
        return Call(kind=Kind.INTEGER, name="count", star=True)
    if node.expressions:
        raise refusal_of(node, construct="COUNT of several columns")
    value = lowering.ungrouped().lower(counted)
    if value.kind is Kind.JSON:
        value = as_text(value)  # a JSON null is not counted
    return Call(kind=Kind.INTEGER, name="count", arguments=(value,), distinct=distinct)


def total(node: exp.Sum | exp.Avg, lowering: Lowering) -> Expression:
    summed, distinct = without_distinct(node.this)
    value = as_number(lowering.ungrouped().lower(summed))
    if isinstance(node, exp.Avg):
        # A numeric average has sixteen decimal places, even if they are meaningless.
        average = Call(kind=Kind.NUMBER, name="avg", arguments=(value,), distinct=distinct)
        return cast(average, "double precision", Kind.FLOAT)
    kind = Kind.NUMBER if value.kind in (Kind.INTEGER, Kind.NULL) else value.kind
    return Call(kind=kind, name="sum", arguments=(value,), distinct=distinct)


def extremum(node: exp.Min | exp.Max, lowering: Lowering) -> Expression:
    name = "min" if isinstance(node, exp.Min) else "max"
    compared, _ = without_distinct(node.this)
    value = lowering.ungrouped().lower(compared)
    match value.kind:
        case Kind.JSON:
            return _extremum_of_fields(name, value)
        case Kind.FLOAT if name == "min":  # NaN comes before all numbers; to PostgreSQL, behind them
            return opposite(call("max", opposite(value), kind=Kind.FLOAT))
        case Kind.UUID:
            value = as_text(value)
        case Kind.BOOLEAN:
            name = "bool_and" if name == "min" else "bool_or"
        case _:
            pass
    return call(name, value, kind=value.kind)


def _extremum_of_fields(name: str, value: Expression) -> Expression:
    """Return the least or greatest number; if there is no number, the least or greatest text."""
    number = infix(call("jsonb_typeof", as_json(value), kind=Kind.TEXT), "=", string("number"), kind=Kind.BOOLEAN)
    numbers = Case(kind=Kind.NUMBER, operand=None, branches=((number, as_number(value)),), default=None)
    return call(
        "COALESCE",
        call("to_jsonb", call(name, numbers, kind=Kind.NUMBER), kind=Kind.JSON),
        call("to_jsonb", call(name, as_text(value), kind=Kind.TEXT), kind=Kind.JSON),
        kind=Kind.JSON,
    )


def logical(node: exp.LogicalOr | exp.LogicalAnd, lowering: Lowering) -> Expression:
    name = "bool_or" if isinstance(node, exp.LogicalOr) else "bool_and"
    return call(name, as_boolean(lowering.ungrouped().lower(node.this)), kind=Kind.BOOLEAN)


def statistic(node: exp.Func, lowering: Lowering) -> Expression:
    measured, distinct = without_distinct(node.this)
    value = as_number(lowering.ungrouped().lower(measured))
    name = _STATISTICS[type(node)]
    return cast(
        Call(kind=Kind.NUMBER, name=name, arguments=(value,), distinct=distinct), "double precision", Kind.FLOAT
    )


_STATISTICS: Final[dict[type[exp.Expr], str]] = {
    exp.Stddev: "stddev",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "variance",
    exp.VariancePop: "var_pop",
}


def statistic_of_pairs(node: exp.Func, lowering: Lowering) -> Expression:
    pair = [as_number(value) for value in lowering.ungrouped().lower_all([node.this, node.args.get("expression")])]
    floats = [cast(value, "double precision", Kind.FLOAT) for value in pair]
    return call(_STATISTICS_OF_PAIRS[type(node)], *floats, kind=Kind.FLOAT)


_STATISTICS_OF_PAIRS: Final[dict[type[exp.Expr], str]] = {
    exp.Corr: "corr",
    exp.CovarPop: "covar_pop",
    exp.CovarSamp: "covar_samp",
}


def bits(node: exp.Func, lowering: Lowering) -> Expression:
    combined, distinct = without_distinct(node.this)
    value = as_integer(lowering.ungrouped().lower(combined))
    name = _BITS[type(node)]
    return Call(kind=Kind.INTEGER, name=name, arguments=(value,), distinct=distinct and name == "bit_xor")


_BITS: Final[dict[type[exp.Expr], str]] = {
    exp.BitwiseAndAgg: "bit_and",
    exp.BitwiseOrAgg: "bit_or",
    exp.BitwiseXorAgg: "bit_xor",
}


def grouping(node: exp.Grouping, lowering: Lowering) -> Expression:
    # 1 in the rows of ROLLUP, CUBE or GROUPING SETS that do not group by the expression
    if len(node.expressions) != 1:
        raise refusal_of(node, "needs one expression of GROUP BY", construct="GROUPING")
    return call("GROUPING", output(lowering.lower(node.expressions[0])), kind=Kind.INTEGER)


def filtered(node: exp.Filter, lowering: Lowering) -> Expression:
    # PostgreSQL's own: count(*) filter (where …)
    value = lowering.lower(node.this)
    if not isinstance(value, Call) or value.condition is not None:
        raise refusal_of(node)
    return replace(value, condition=as_boolean(lowering.ungrouped().lower(node.expression.this)))


RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.Count: count,
    exp.Sum: total,
    exp.Avg: total,
    exp.Min: extremum,
    exp.Max: extremum,
    exp.LogicalOr: logical,
    exp.LogicalAnd: logical,
    **dict.fromkeys(_STATISTICS, statistic),
    **dict.fromkeys(_STATISTICS_OF_PAIRS, statistic_of_pairs),
    **dict.fromkeys(_BITS, bits),
    exp.Grouping: grouping,
    exp.Filter: filtered,
}
