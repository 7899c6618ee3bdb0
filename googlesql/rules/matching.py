"""LIKE, also with several patterns: x like any (p, q)  ->  x like p or x like q."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from googlesql.coercions import as_json, as_text
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, Rule
from googlesql.refusals import refusal_of
from googlesql.tree import Expression, FromItem, Name, Output, Select, Subquery, call, chain, infix


def like(node: exp.Like | exp.ILike, lowering: Lowering, escape: exp.Expr | None = None) -> Expression:
    if isinstance(node.expression, exp.Any | exp.All):
        if escape is not None:
            raise refusal_of(escape, "cannot be used with several patterns", construct="ESCAPE")
        return _of_several(node, lowering)
    value, pattern = (as_text(operand) for operand in lowering.lower_all([node.this, node.expression]))
    matched = infix(value, _word(node), pattern, kind=Kind.BOOLEAN)
    if escape is None:
        return matched
    return infix(matched, "ESCAPE", as_text(lowering.lower(escape)), kind=Kind.BOOLEAN)


def _word(node: exp.Like | exp.ILike) -> str:
    word = "ILIKE" if isinstance(node, exp.ILike) else "LIKE"
    return f"NOT {word}" if node.args.get("negate") else word


def _of_several(node: exp.Like | exp.ILike, lowering: Lowering) -> Expression:
    # x not like any (p, q) is true if x differs from one of them, and not like all, from each.
    quantifier = node.expression
    patterns = _listed(quantifier.this)
    if patterns is None:
        return _of_array(node, lowering)
    lowering.scope.work.spend(len(patterns) * sum(1 for _ in node.this.walk()))
    value = as_text(lowering.lower(node.this))
    matched = [infix(value, _word(node), as_text(lowering.lower(item)), kind=Kind.BOOLEAN) for item in patterns]
    return chain("OR" if isinstance(quantifier, exp.Any) else "AND", *matched, kind=Kind.BOOLEAN)


def _listed(patterns: exp.Expr) -> list[exp.Expr] | None:
    """Return the patterns of a list, or None for an array or a query."""
    if isinstance(patterns, exp.Unnest) and len(patterns.expressions) == 1:
        patterns = patterns.expressions[0]
    if isinstance(patterns, exp.Paren):
        return [patterns.this]
    is_list = isinstance(patterns, exp.Tuple | exp.Array) and patterns.expressions
    if not is_list or any(isinstance(item, exp.Query) for item in patterns.expressions):
        return None
    return list(patterns.expressions)


def _of_array(node: exp.Like | exp.ILike, lowering: Lowering) -> Expression:
    # x like any unnest(y)  ->  x like any (array(select element #>> '{}' from json_elements(y) as element))
    word = "ANY" if isinstance(node.expression, exp.Any) else "ALL"
    patterns = node.expression.this
    alias = lowering.scope.free_alias("listed")
    if isinstance(patterns, exp.Unnest) and len(patterns.expressions) == 1:
        elements = call("json_elements", as_json(lowering.lower(patterns.expressions[0])), kind=Kind.JSON)
        item, element = FromItem(call=elements, alias=alias), Name(kind=Kind.JSON, owner=None, column=alias)
    elif isinstance(patterns, exp.Query):
        query = lowering.query(patterns)
        if len(query.outputs) != 1:
            raise refusal_of(patterns, "returns more than one column", construct=f"the query after LIKE {word}")
        item = FromItem(query=query, alias=alias)
        element = Name(kind=query.outputs[0].kind, owner=alias, column=query.outputs[0].name)
    else:
        raise refusal_of(node.expression, "needs patterns in brackets", construct=f"LIKE {word}")
    select = Select(outputs=(Output("pattern", Kind.TEXT),), items=(as_text(element),), from_items=(item,))
    array = Subquery(kind=Kind.OTHER, query=select, word="ARRAY")
    value = as_text(lowering.lower(node.this))
    return infix(value, _word(node), call(word, array, kind=Kind.OTHER), kind=Kind.BOOLEAN)


def escaped(node: exp.Escape, lowering: Lowering) -> Expression:
    if not isinstance(node.this, exp.Like | exp.ILike):
        raise refusal_of(node, construct="ESCAPE")
    return like(node.this, lowering, node.expression)


RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.Like: like,
    exp.ILike: like,
    exp.Escape: escaped,
}
