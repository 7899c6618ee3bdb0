"""APPROX_…: exact here. An aggregate in the FROM of a subquery belongs to the SELECT around it.

approx_top_count(x, 2)
  ->  (select jsonb_agg(jsonb_build_object('value', value, 'count', total) order by total desc) from
       (select listed as value, count(*) as total from json_elements(jsonb_agg(x)) as listed
        group by 1 order by 2 desc, 1 limit 2))
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sqlglot import exp

from googlesql.coercions import as_json, as_number, as_text
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, Rule, number_of
from googlesql.refusals import refusal_of
from googlesql.rules.gathering import present
from googlesql.rules.json_and_arrays import argument
from googlesql.scopes import index_of
from googlesql.tree import (
    ArrayOf,
    Call,
    Constant,
    Expression,
    FromItem,
    Name,
    Ordered,
    Output,
    Select,
    Subquery,
    call,
    cast,
    infix,
    integer,
    ordered,
    string,
)

MAX_QUANTILES: Final = 1_000
MAX_TOP: Final = 10_000


def count(node: exp.ApproxDistinct, lowering: Lowering) -> Expression:
    value = lowering.ungrouped().lower(node.this)
    value = as_text(value) if value.kind is Kind.JSON else value
    return Call(kind=Kind.INTEGER, name="count", arguments=(value,), distinct=True)


# --- Quantiles --------------------------------------------------------------------------------------------------------
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
    call_node = call_node.this if isinstance(call_node, exp.IgnoreNulls) else call_node
    arguments = [call_node.this, call_node.expression]
    distinct = isinstance(call_node.this, exp.Distinct)
    if distinct:  # sqlglot hangs both arguments below DISTINCT
        arguments = [*call_node.this.expressions, None][:2]
    parts = number_of(arguments[1])
    if parts is None or not 1 <= parts <= MAX_QUANTILES or (index is not None and not 0 <= index <= parts):
        raise refusal_of(call_node, construct="APPROX_QUANTILES")
    value = lowering.ungrouped().lower(arguments[0])
    value = as_number(value) if value.kind in (Kind.JSON, Kind.TEXT) else value
    if index is not None:
        return _percentile(_fraction(index, parts), value, lowering, distinct=distinct)
    every = ArrayOf(kind=Kind.OTHER, items=tuple(_fraction(step, parts) for step in range(parts + 1)))
    found = _percentile(cast(every, "double precision[]", Kind.OTHER), value, lowering, distinct=distinct)
    return call("to_jsonb", found, kind=Kind.JSON)


def _percentile(fraction: Expression, value: Expression, lowering: Lowering, *, distinct: bool) -> Expression:
    if not distinct:
        return Call(kind=value.kind, name="percentile_disc", arguments=(fraction,), within=(ordered(value),))
    # PostgreSQL has no DISTINCT here:  (select percentile_disc(…) … from unnest(array_agg(distinct x)) as listed)
    values = Call(kind=Kind.OTHER, name="array_agg", arguments=(value,), distinct=True, condition=present(value))
    alias = lowering.scope.free_alias("listed")
    element = Name(kind=value.kind, owner=None, column=alias)
    found = Call(kind=value.kind, name="percentile_disc", arguments=(fraction,), within=(ordered(element),))
    item = FromItem(call=call("unnest", values, kind=Kind.OTHER), alias=alias)
    select = Select(outputs=(Output("quantile", value.kind),), items=(found,), from_items=(item,))
    return Subquery(kind=value.kind, query=select)


def _fraction(index: int, parts: int) -> Expression:
    return Constant(kind=Kind.NUMBER, sql=repr(index / parts).removesuffix(".0"))


# --- Most frequent values ---------------------------------------------------------------------------------------------
def top_count(node: exp.ApproxTopK, lowering: Lowering) -> Expression:
    value = argument(lowering.ungrouped().lower(node.this))
    values = Call(kind=Kind.JSON, name="jsonb_agg", arguments=(value,))
    alias = lowering.scope.free_alias("listed")
    element = Name(kind=Kind.JSON, owner=None, column=alias)
    total = Call(kind=Kind.INTEGER, name="count", star=True)
    return _top(values, alias, element, total, name="count", limit=_limit(node.expression, node))


def top_sum(node: exp.ApproxTopSum, lowering: Lowering) -> Expression:
    value, weight = lowering.ungrouped().lower_all([node.this, node.expression])
    pair = call("jsonb_build_array", argument(value), as_json(as_number(weight)), kind=Kind.JSON)
    values = Call(kind=Kind.JSON, name="jsonb_agg", arguments=(pair,))
    alias = lowering.scope.free_alias("listed")
    listed = Name(kind=Kind.JSON, owner=None, column=alias)
    element, weighed = (infix(listed, "->", integer(index), kind=Kind.JSON) for index in (0, 1))
    total = call("sum", as_number(weighed), kind=Kind.NUMBER)
    return _top(values, alias, element, total, name="sum", limit=_limit(node.args.get("count"), node))


def _limit(node: exp.Expr | None, function: exp.Expr) -> int:
    limit = number_of(node)
    if limit is None or not 1 <= limit <= MAX_TOP:
        raise refusal_of(function, f"needs a whole number from 1 to {MAX_TOP:,} as its last argument")
    return limit


def _top(values: Call, alias: str, element: Expression, total: Expression, *, name: str, limit: int) -> Expression:
    """Return the `limit` values with the greatest totals, as BigQuery's array of structs."""
    listed = Select(
        outputs=(Output("value", Kind.JSON), Output("total", Kind.NUMBER)),
        items=(element, total),
        from_items=(FromItem(call=call("json_elements", values, kind=Kind.JSON), alias=alias),),
        group=(integer(1),),
        order=(Ordered(expression=integer(2), descending=True, nulls="LAST"), ordered(integer(1))),
        limit=integer(limit),
    )
    one, sum_ = (Name(kind=Kind.OTHER, owner="totals", column=column) for column in ("value", "total"))
    struct = call("jsonb_build_object", string("value"), one, string(name), sum_, kind=Kind.JSON)
    greatest_first = (Ordered(expression=sum_, descending=True, nulls="LAST"), ordered(one))
    gathered = replace(Call(kind=Kind.JSON, name="jsonb_agg", arguments=(struct,)), order=greatest_first)
    select = Select(
        outputs=(Output("top", Kind.JSON),), items=(gathered,), from_items=(FromItem(query=listed, alias="totals"),)
    )
    return Subquery(kind=Kind.JSON, query=select)


RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.ApproxDistinct: count,
    exp.ApproxQuantiles: quantiles,
    exp.ApproxTopK: top_count,
    exp.ApproxTopSum: top_sum,
}
