"""Aggregates that gather values: arrays, joined texts, any value, and the value with the greatest other value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from googlesql.coercions import as_json, as_text, output
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, Rule, number_of
from googlesql.refusals import refusal_of
from googlesql.rules.json_and_arrays import argument
from googlesql.tree import (
    Call,
    Expression,
    Ordered,
    Subscript,
    Test,
    call,
    ordered,
    string,
)


def present(value: Expression) -> Expression:
    """Return the condition that there is a value; a JSON null is none."""
    return Test(kind=Kind.BOOLEAN, operand=text_of_field(value), question="IS NOT NULL")


def text_of_field(value: Expression) -> Expression:
    """Return a field as text, in which equal values are equal and a JSON null is NULL; any other value as it is."""
    if value.kind is Kind.JSON and isinstance(value, Call) and value.name == "NULLIF":
        value = value.arguments[0]  # as text, a JSON null is NULL
    return as_text(value) if value.kind is Kind.JSON else value


def without_distinct(node: exp.Expr | None) -> tuple[exp.Expr | None, bool]:
    """Return the argument of an aggregate without DISTINCT, and whether it had DISTINCT."""
    if not isinstance(node, exp.Distinct):
        return node, False
    if len(node.expressions) != 1:
        raise refusal_of(node, construct="DISTINCT of several columns")
    return node.expressions[0], True


@dataclass(frozen=True, slots=True)
class Gathered:
    """The argument of an aggregate that gathers values, and the clauses after it."""

    argument: exp.Expr | None
    distinct: bool
    order: tuple[Ordered, ...]
    limit: int | None


def _gathered(node: exp.Expr | None, lowering: Lowering) -> Gathered:
    limit: int | None = None
    order: tuple[Ordered, ...] = ()
    if isinstance(node, exp.Limit):
        limit = number_of(node.expression)
        if limit is None or limit < 1:
            raise refusal_of(node, "needs a whole number from 1 on", construct="LIMIT in an aggregate")
        node = node.this
    if isinstance(node, exp.Order):
        order = lowering.ungrouped().order(node)
        node = node.this
    inner, distinct = without_distinct(node)
    return Gathered(inner, distinct, order, limit)


# --- Arrays -----------------------------------------------------------------------------------------------------------
def array(node: exp.ArrayAgg, lowering: Lowering) -> Expression:
    return array_of_values(node, lowering, ignore_nulls=False)


def array_of_values(node: exp.ArrayAgg, lowering: Lowering, *, ignore_nulls: bool) -> Expression:
    # array_agg(x order by y limit 3)  ->  jsonb_path_query_array(jsonb_agg(x order by y), '$[0 to 2]')
    gathered = _gathered(node.this, lowering)
    value, order = lowering.ungrouped().lower(gathered.argument), gathered.order
    if gathered.distinct:  # PostgreSQL then orders only by the argument as written, so both have one form
        value = output(value)
        order = tuple(replace(item, expression=argument(item.expression)) for item in order)
    value = argument(value)
    values = Call(
        kind=Kind.JSON,
        name="jsonb_agg",
        arguments=(value,),
        distinct=gathered.distinct,
        order=order,
        condition=present(value) if ignore_nulls else None,
    )
    if gathered.limit is None:
        return values
    return call("jsonb_path_query_array", values, string(f"$[0 to {gathered.limit - 1}]"), kind=Kind.JSON)


def joined_arrays(node: exp.ArrayConcatAgg, lowering: Lowering) -> Expression:
    # array_concat_agg(x)  ->  jsonb_path_query_array(jsonb_agg(x) filter (where x is not null), '$[*][*]')
    gathered = _gathered(node.this, lowering)
    if gathered.distinct:
        raise refusal_of(node, construct="ARRAY_CONCAT_AGG with DISTINCT")
    value = as_json(lowering.ungrouped().lower(gathered.argument))
    values = Call(kind=Kind.JSON, name="jsonb_agg", arguments=(value,), order=gathered.order, condition=present(value))
    first = "*" if gathered.limit is None else f"0 to {gathered.limit - 1}"
    return call("jsonb_path_query_array", values, string(f"$[{first}][*]"), kind=Kind.JSON)


# --- Text -------------------------------------------------------------------------------------------------------------
def text(node: exp.GroupConcat, lowering: Lowering) -> Expression:
    gathered = _gathered(node.this, lowering)
    separator = node.args.get("separator")
    between = as_text(lowering.lower(separator)) if separator is not None else string(",")
    value = as_text(lowering.ungrouped().lower(gathered.argument))
    # With DISTINCT PostgreSQL orders only by the argument as written, so both are text.
    order = tuple(replace(item, expression=text_of_field(item.expression)) for item in gathered.order)
    if gathered.limit is None:
        arguments = (value, between)
        return Call(kind=Kind.TEXT, name="string_agg", arguments=arguments, distinct=gathered.distinct, order=order)
    # string_agg(x limit 3)  ->  array_to_string((array_agg(x) filter (where x is not null))[1:3], ',')
    value = argument(value)
    texts = Call(
        kind=Kind.OTHER,
        name="array_agg",
        arguments=(value,),
        distinct=gathered.distinct,
        order=order,
        condition=present(value),
    )
    first = Subscript(kind=Kind.OTHER, operand=texts, index=f"1:{gathered.limit}")
    return call("array_to_string", first, between, kind=Kind.TEXT)


# --- One of several values --------------------------------------------------------------------------------------------
def any_value(node: exp.AnyValue, lowering: Lowering) -> Expression:
    # any_value(x)  ->  (array_agg(x) filter (where x is not null))[1]; PostgreSQL has any_value only from 16 on
    if isinstance(node.this, exp.HavingMax):
        chosen = node.this
        return _value_at_extreme(chosen.this, chosen.expression, lowering, greatest=bool(chosen.args.get("max")))
    value = lowering.ungrouped().lower(node.this)
    value = as_json(value) if value.kind is Kind.JSON else argument(value)
    gathered = Call(kind=Kind.OTHER, name="array_agg", arguments=(value,), condition=present(value))
    return Subscript(kind=value.kind, operand=gathered, index="1")


def value_at_extreme(node: exp.ArgMax | exp.ArgMin, lowering: Lowering) -> Expression:
    return _value_at_extreme(node.this, node.expression, lowering, greatest=isinstance(node, exp.ArgMax))


def _value_at_extreme(of: exp.Expr, by: exp.Expr, lowering: Lowering, *, greatest: bool) -> Expression:
    # any_value(x having max y), max_by(x, y)
    #   ->  (array_agg(x order by y desc, x is null) filter (where y is not null))[1]
    value, key = lowering.ungrouped().lower_all([of, by])
    value = as_json(value) if value.kind is Kind.JSON else argument(value)
    missing = Test(kind=Kind.BOOLEAN, operand=text_of_field(value), question="IS NULL")
    order = (Ordered(expression=key, descending=greatest), ordered(missing))
    values = Call(kind=Kind.OTHER, name="array_agg", arguments=(value,), order=order, condition=present(key))
    return Subscript(kind=value.kind, operand=values, index="1")


def having_extreme(node: exp.HavingMax, _: Lowering) -> Expression:
    raise refusal_of(
        node, "is supported only in ANY_VALUE", construct=f"HAVING {'MAX' if node.args.get('max') else 'MIN'}"
    )


RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.ArrayAgg: array,
    exp.ArrayConcatAgg: joined_arrays,
    exp.GroupConcat: text,
    exp.AnyValue: any_value,
    exp.ArgMax: value_at_extreme,
    exp.ArgMin: value_at_extreme,
    exp.HavingMax: having_extreme,
}
