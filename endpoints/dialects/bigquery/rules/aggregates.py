"""Aggregates: their arguments see single rows, so fields in them are read in the shortest way."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sqlglot import exp

from endpoints.dialects.bigquery.coercions import as_boolean, as_json, as_number, as_text
from endpoints.dialects.bigquery.kinds import Kind
from endpoints.dialects.bigquery.lowering import Lowering, Rule, number_of
from endpoints.dialects.bigquery.refusals import refusal_of
from endpoints.dialects.bigquery.rules.json_and_arrays import argument
from endpoints.dialects.bigquery.scopes import index_of
from endpoints.dialects.bigquery.tree import (
    ArrayOf,
    Call,
    Case,
    Constant,
    Expression,
    Ordered,
    Subscript,
    Test,
    call,
    cast,
    infix,
    ordered,
    string,
)

MAX_QUANTILES: Final = 1_000


def _argument(node: exp.Expr | None) -> tuple[exp.Expr | None, bool]:
    """Return the argument of an aggregate without DISTINCT, and whether it had DISTINCT."""
    if not isinstance(node, exp.Distinct):
        return node, False
    if len(node.expressions) != 1:
        raise refusal_of(node, construct="DISTINCT of several columns")
    return node.expressions[0], True


def count(node: exp.Count, lowering: Lowering) -> Expression:
    counted, distinct = _argument(node.this)
    if counted is None or isinstance(counted, exp.Star):
        return Call(kind=Kind.INTEGER, name="count", star=True)
    if node.expressions:
        raise refusal_of(node, construct="COUNT of several columns")
    value = lowering.ungrouped().lower(counted)
    if value.kind is Kind.JSON:
        value = as_text(value)  # a JSON null is not counted
    return Call(kind=Kind.INTEGER, name="count", arguments=(value,), distinct=distinct)


def approximate_count(node: exp.ApproxDistinct, lowering: Lowering) -> Expression:
    value = lowering.ungrouped().lower(node.this)
    value = as_text(value) if value.kind is Kind.JSON else value
    return Call(kind=Kind.INTEGER, name="count", arguments=(value,), distinct=True)


def total(node: exp.Sum | exp.Avg, lowering: Lowering) -> Expression:
    summed, distinct = _argument(node.this)
    value = as_number(lowering.ungrouped().lower(summed))
    if isinstance(node, exp.Avg):
        # A numeric average has sixteen decimal places, even if they are meaningless.
        average = Call(kind=Kind.NUMBER, name="avg", arguments=(value,), distinct=distinct)
        return cast(average, "double precision", Kind.FLOAT)
    kind = Kind.NUMBER if value.kind in (Kind.INTEGER, Kind.NULL) else value.kind
    return Call(kind=kind, name="sum", arguments=(value,), distinct=distinct)


def extremum(node: exp.Min | exp.Max, lowering: Lowering) -> Expression:
    name = "min" if isinstance(node, exp.Min) else "max"
    compared, _ = _argument(node.this)
    value = lowering.ungrouped().lower(compared)
    match value.kind:
        case Kind.JSON:
            return _extremum_of_fields(name, value)
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


def any_value(node: exp.AnyValue, lowering: Lowering) -> Expression:
    # any_value(x)  ->  (array_agg(x) filter (where x is not null))[1]; PostgreSQL has any_value only from 16 on
    value = lowering.ungrouped().lower(node.this)
    value = as_json(value) if value.kind is Kind.JSON else argument(value)
    gathered = Call(kind=Kind.OTHER, name="array_agg", arguments=(value,), condition=_present(value))
    return Subscript(kind=value.kind, operand=gathered, index="1")


def logical(node: exp.LogicalOr | exp.LogicalAnd, lowering: Lowering) -> Expression:
    name = "bool_or" if isinstance(node, exp.LogicalOr) else "bool_and"
    return call(name, as_boolean(lowering.ungrouped().lower(node.this)), kind=Kind.BOOLEAN)


def statistic(node: exp.Func, lowering: Lowering) -> Expression:
    value = as_number(lowering.ungrouped().lower(node.this))
    return cast(call(_STATISTICS[type(node)], value, kind=Kind.NUMBER), "double precision", Kind.FLOAT)


_STATISTICS: Final[dict[type[exp.Expr], str]] = {
    exp.Stddev: "stddev",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "variance",
    exp.VariancePop: "var_pop",
}


def quantiles(node: exp.Expr, lowering: Lowering) -> Expression:
    """approx_quantiles(x, 100)[offset(95)]  ->  percentile_disc(0.95) within group (order by x), which is exact."""
    index: int | None = None
    call_node = node
    if isinstance(node, exp.Bracket):
        call_node = node.this
        written, first = index_of(node)
        number = number_of(written)
        if number is None:
            raise refusal_of(node, construct="APPROX_QUANTILES(…)[…]")
        index = number - first
    parts = number_of(call_node.expression)
    if parts is None or not 1 <= parts <= MAX_QUANTILES or (index is not None and not 0 <= index <= parts):
        raise refusal_of(call_node, construct="APPROX_QUANTILES")
    value = lowering.ungrouped().lower(call_node.this)
    value = as_number(value) if value.kind in (Kind.JSON, Kind.TEXT) else value
    if index is not None:
        return _percentile(_fraction(index, parts), value)
    every = ArrayOf(kind=Kind.OTHER, items=tuple(_fraction(step, parts) for step in range(parts + 1)))
    return call("to_jsonb", _percentile(cast(every, "double precision[]", Kind.OTHER), value), kind=Kind.JSON)


def _percentile(fraction: Expression, value: Expression) -> Expression:
    return Call(kind=value.kind, name="percentile_disc", arguments=(fraction,), within=(ordered(value),))


def _fraction(index: int, parts: int) -> Expression:
    return Constant(kind=Kind.NUMBER, sql=f"{index / parts:.6f}".rstrip("0").rstrip("."))


def text(node: exp.GroupConcat, lowering: Lowering) -> Expression:
    inner, order, limit = _clauses(node.this, lowering)
    if limit is not None:
        raise refusal_of(node, construct="STRING_AGG with LIMIT")
    joined, distinct = _argument(inner)
    separator = node.args.get("separator")
    # With DISTINCT PostgreSQL orders only by the argument as written, so both are text.
    order = tuple(replace(item, expression=_text_of_field(item.expression)) for item in order)
    arguments = (
        as_text(lowering.ungrouped().lower(joined)),
        as_text(lowering.lower(separator)) if separator is not None else string(","),
    )
    return Call(kind=Kind.TEXT, name="string_agg", arguments=arguments, distinct=distinct, order=order)


def _present(value: Expression) -> Expression:
    """Return the condition that there is a value; a JSON null is none."""
    return Test(kind=Kind.BOOLEAN, operand=_text_of_field(value), question="IS NOT NULL")


def _text_of_field(value: Expression) -> Expression:
    if value.kind is Kind.JSON and isinstance(value, Call) and value.name == "NULLIF":
        value = value.arguments[0]  # as text, a JSON null is NULL
    return as_text(value) if value.kind is Kind.JSON else value


def filtered(node: exp.Filter, lowering: Lowering) -> Expression:
    # PostgreSQL's own: count(*) filter (where …)
    value = lowering.lower(node.this)
    if not isinstance(value, Call) or value.condition is not None:
        raise refusal_of(node)
    return replace(value, condition=as_boolean(lowering.ungrouped().lower(node.expression.this)))


def array(node: exp.ArrayAgg, lowering: Lowering) -> Expression:
    return _array(node, lowering, ignore_nulls=False)


def ignoring_nulls(node: exp.IgnoreNulls, lowering: Lowering) -> Expression:
    if isinstance(node.this, exp.ArrayAgg):
        return _array(node.this, lowering, ignore_nulls=True)
    if isinstance(node.this, exp.AnyValue):
        return any_value(node.this, lowering)
    raise refusal_of(node, construct="IGNORE NULLS")


def _array(node: exp.ArrayAgg, lowering: Lowering, *, ignore_nulls: bool) -> Expression:
    # array_agg(x order by y limit 3)  ->  jsonb_path_query_array(jsonb_agg(x order by y), '$[0 to 2]')
    inner, order, limit = _clauses(node.this, lowering)
    gathered, distinct = _argument(inner)
    value = argument(lowering.ungrouped().lower(gathered))
    present = _present(value) if ignore_nulls else None
    agg = Call(kind=Kind.JSON, name="jsonb_agg", arguments=(value,), distinct=distinct, order=order, condition=present)
    if limit is None:
        return agg
    return call("jsonb_path_query_array", agg, string(f"$[0 to {max(limit - 1, 0)}]"), kind=Kind.JSON)


def _clauses(node: exp.Expr | None, lowering: Lowering) -> tuple[exp.Expr | None, tuple[Ordered, ...], int | None]:
    """Return the argument of an aggregate, its ORDER BY and its LIMIT."""
    limit: int | None = None
    order: tuple[Ordered, ...] = ()
    if isinstance(node, exp.Limit):
        limit = number_of(node.expression)
        if limit is None:
            raise refusal_of(node, construct="LIMIT")
        node = node.this
    if isinstance(node, exp.Order):
        order = lowering.ungrouped().order(node)
        node = node.this
    return node, order, limit


RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.Count: count,
    exp.ApproxDistinct: approximate_count,
    exp.Sum: total,
    exp.Avg: total,
    exp.Min: extremum,
    exp.Max: extremum,
    exp.AnyValue: any_value,
    exp.LogicalOr: logical,
    exp.LogicalAnd: logical,
    **dict.fromkeys(_STATISTICS, statistic),
    exp.ApproxQuantiles: quantiles,
    exp.GroupConcat: text,
    exp.ArrayAgg: array,
    exp.IgnoreNulls: ignoring_nulls,
    exp.Filter: filtered,
}
