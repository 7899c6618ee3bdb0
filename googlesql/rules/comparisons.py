"""Comparisons and logic: both sides become the one kind in which they can be compared."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from googlesql.coercions import alike, as_boolean, as_json, as_text, output
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, Rule
from googlesql.refusals import refusal_of
from googlesql.tree import (
    Between,
    Chain,
    Expression,
    FromItem,
    In,
    Name,
    Output,
    Select,
    Test,
    call,
    chain,
    infix,
    negated,
    string,
)

# --- Comparisons ------------------------------------------------------------------------------------------------------
_OPERATORS: Final[dict[type[exp.Expr], str]] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}


def comparison(node: exp.Binary, lowering: Lowering) -> Expression:
    if isinstance(node.this, exp.Tuple) and isinstance(node.expression, exp.Tuple):
        equal = _equal_tuples(node.this, node.expression, lowering)
        if isinstance(node, exp.EQ | exp.NEQ):
            return equal if isinstance(node, exp.EQ) else negated(equal)
    values = lowering.lower_all([node.this, node.expression])
    left, right = alike(values)
    if left.kind is Kind.JSON and right.kind is Kind.JSON and isinstance(node, exp.EQ | exp.NEQ):
        # A JSON null is no value, as in BigQuery.
        left, right = as_text(left), as_text(right)
    if Kind.FLOAT in (left.kind, right.kind) and not isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
        return call("compared", left, string(_OPERATORS[type(node)]), right, kind=Kind.BOOLEAN)
    return infix(left, _OPERATORS[type(node)], right, kind=Kind.BOOLEAN)


def _equal_tuples(left: exp.Tuple, right: exp.Tuple, lowering: Lowering) -> Expression:
    # (a, b) = (c, d)  ->  a = c and b = d
    if len(left.expressions) != len(right.expressions):
        raise refusal_of(right, "has another number of values", construct="(…, …)")
    pairs = zip(left.expressions, right.expressions, strict=True)
    equal = [comparison(exp.EQ(this=one, expression=other), lowering) for one, other in pairs]
    return chain("AND", *equal, kind=Kind.BOOLEAN)


def logic(node: exp.And | exp.Or, lowering: Lowering) -> Expression:
    # ((a and b) and c) and d  ->  a AND b AND c AND d
    operands: list[exp.Expr] = []
    left: exp.Expr = node
    while type(left) is type(node):
        operands.append(left.expression)
        left = left.this
    operands.append(left)
    conditions = tuple(as_boolean(lowering.lower(operand)) for operand in reversed(operands))
    return Chain(kind=Kind.BOOLEAN, operator="AND" if isinstance(node, exp.And) else "OR", operands=conditions)


def negation(node: exp.Not, lowering: Lowering) -> Expression:
    if isinstance(node.this, exp.Is):
        return _is(node.this, lowering, "IS NOT")
    return negated(as_boolean(lowering.lower(node.this)))


def is_test(node: exp.Is, lowering: Lowering) -> Expression:
    return _is(node, lowering, "IS NOT" if node.args.get("negate") else "IS")


def _is(node: exp.Is, lowering: Lowering, words: str) -> Expression:
    value = lowering.lower(node.this)
    asked = node.expression
    if isinstance(asked, exp.Null):
        if value.kind is Kind.JSON and not (isinstance(value, Name) and value.owner is not None):
            value = as_text(value)  # a field or an element that is a JSON null counts as none
        return Test(kind=Kind.BOOLEAN, operand=value, question=f"{words} NULL")
    if isinstance(asked, exp.Boolean):
        question = f"{words} {'TRUE' if asked.this else 'FALSE'}"
        return Test(kind=Kind.BOOLEAN, operand=as_boolean(value), question=question)
    raise refusal_of(node, construct="IS")


def between(node: exp.Between, lowering: Lowering) -> Expression:
    operand, low, high = alike(lowering.lower_all([node.this, node.args.get("low"), node.args.get("high")]))
    return Between(kind=Kind.BOOLEAN, operand=operand, low=low, high=high)


def membership(node: exp.In, lowering: Lowering) -> Expression:
    items = node.expressions
    if isinstance(node.this, exp.Tuple) and items and all(isinstance(item, exp.Tuple) for item in items):
        # (a, b) in ((1, 2), (3, 4))  ->  a = 1 and b = 2 or a = 3 and b = 4
        return chain("OR", *(_equal_tuples(node.this, item, lowering) for item in items), kind=Kind.BOOLEAN)
    operand = lowering.lower(node.this)
    query, unnested = node.args.get("query"), node.args.get("unnest")
    if query is not None:
        return _in_query(operand, query, lowering)
    if unnested is not None:
        return _in_array(operand, unnested.expressions[0], lowering)
    if node.args.get("field") is not None:
        raise refusal_of(node, construct="IN")
    operand, *values = alike([operand, *lowering.lower_all(node.expressions)])
    return In(kind=Kind.BOOLEAN, operand=operand, items=tuple(values))


def _in_query(operand: Expression, node: exp.Expr, lowering: Lowering) -> Expression:
    query = lowering.query(node)
    if len(query.outputs) != 1:
        raise refusal_of(node, "returns more than one column", construct="the query after IN")
    given = Name(kind=query.outputs[0].kind, owner=None, column="")
    wanted, converted = alike([operand, given])
    if wanted.kind is Kind.JSON:
        wanted, converted = as_text(wanted), as_text(given)
    if converted is not given:
        query = _converted(query.outputs[0], FromItem(query=query, alias="listed"), wanted)
    return In(kind=Kind.BOOLEAN, operand=output(wanted), query=query)


def _converted(column: Output, listed: FromItem, operand: Expression) -> Select:
    # x in (select field …)  ->  x in (select (listed.field)::text from (select field …) as listed)
    given = Name(kind=column.kind, owner="listed", column=column.name)
    item = as_text(given) if operand.kind is Kind.TEXT else alike([operand, given])[1]
    return Select(outputs=(Output(column.name, item.kind),), items=(item,), from_items=(listed,))


def _in_array(operand: Expression, node: exp.Expr, lowering: Lowering) -> Expression:
    if isinstance(node, exp.Array) and not any(isinstance(item, exp.Query) for item in node.expressions):
        operand, *items = alike([operand, *lowering.lower_all(node.expressions)])
        if items:
            return In(kind=Kind.BOOLEAN, operand=operand, items=tuple(items))
    array = as_json(lowering.lower(node))
    alias = lowering.scope.free_alias("listed")
    element = Name(kind=Kind.JSON, owner=None, column=alias)
    wanted, given = alike([operand, element])
    if wanted.kind is Kind.JSON:
        wanted, given = as_text(wanted), as_text(given)
    elements = Select(
        outputs=(Output("listed", given.kind),),
        items=(given,),
        from_items=(FromItem(call=call("json_elements", array, kind=Kind.JSON), alias=alias),),
    )
    return In(kind=Kind.BOOLEAN, operand=wanted, query=elements)


RULES: Final[dict[type[exp.Expr], Rule]] = {
    **dict.fromkeys(_OPERATORS, comparison),
    exp.And: logic,
    exp.Or: logic,
    exp.Not: negation,
    exp.Is: is_test,
    exp.Between: between,
    exp.In: membership,
}
