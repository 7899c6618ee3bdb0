"""Comparisons and logic: both sides become the one kind in which they can be compared."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from endpoints.dialects.bigquery.coercions import alike, as_boolean, as_json, as_text, output, without_null
from endpoints.dialects.bigquery.kinds import Kind
from endpoints.dialects.bigquery.lowering import Lowering, Rule
from endpoints.dialects.bigquery.refusals import refusal_of
from endpoints.dialects.bigquery.tree import (
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
    infix,
    negated,
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
    values = lowering.lower_all([node.this, node.expression])
    left, right = alike(values)
    if left.kind is Kind.JSON and right.kind is Kind.JSON and isinstance(node, exp.EQ | exp.NEQ):
        # A JSON null is no value, as in BigQuery.
        left, right = as_text(left), as_text(right)
    left, right = without_null(left), without_null(right)
    return infix(left, _OPERATORS[type(node)], right, kind=Kind.BOOLEAN)


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
        if value.kind is Kind.JSON:
            value = without_null(value) if isinstance(value, Name) else as_text(value)  # a JSON null counts as none
        return Test(kind=Kind.BOOLEAN, operand=value, question=f"{words} NULL")
    if isinstance(asked, exp.Boolean):
        question = f"{words} {'TRUE' if asked.this else 'FALSE'}"
        return Test(kind=Kind.BOOLEAN, operand=as_boolean(value), question=question)
    raise refusal_of(node, construct="IS")


def between(node: exp.Between, lowering: Lowering) -> Expression:
    values = alike(lowering.lower_all([node.this, node.args.get("low"), node.args.get("high")]))
    operand, low, high = map(without_null, values)
    return Between(kind=Kind.BOOLEAN, operand=operand, low=low, high=high)


def membership(node: exp.In, lowering: Lowering) -> Expression:
    operand = lowering.lower(node.this)
    query, unnested = node.args.get("query"), node.args.get("unnest")
    if query is not None:
        return _in_query(operand, query, lowering)
    if unnested is not None:
        return _in_array(operand, unnested.expressions[0], lowering)
    if node.args.get("field") is not None:
        raise refusal_of(node, construct="IN")
    operand, *items = alike([operand, *lowering.lower_all(node.expressions)])
    return In(kind=Kind.BOOLEAN, operand=operand, items=tuple(items))


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


def like(node: exp.Like | exp.ILike, lowering: Lowering, escape: exp.Expr | None = None) -> Expression:
    if isinstance(node.expression, exp.Any | exp.All | exp.Tuple | exp.Array):
        raise refusal_of(node, construct="LIKE ANY")
    word = "ILIKE" if isinstance(node, exp.ILike) else "LIKE"
    value, pattern = (as_text(operand) for operand in lowering.lower_all([node.this, node.expression]))
    if node.args.get("negate"):
        word = f"NOT {word}"
    matched = infix(value, word, pattern, kind=Kind.BOOLEAN)
    if escape is None:
        return matched
    return infix(matched, "ESCAPE", as_text(lowering.lower(escape)), kind=Kind.BOOLEAN)


def escaped(node: exp.Escape, lowering: Lowering) -> Expression:
    if not isinstance(node.this, exp.Like | exp.ILike):
        raise refusal_of(node, construct="ESCAPE")
    return like(node.this, lowering, node.expression)


RULES: Final[dict[type[exp.Expr], Rule]] = {
    **dict.fromkeys(_OPERATORS, comparison),
    exp.And: logic,
    exp.Or: logic,
    exp.Not: negation,
    exp.Is: is_test,
    exp.Between: between,
    exp.In: membership,
    exp.Like: like,
    exp.ILike: like,
    exp.Escape: escaped,
}
