"""In GROUP BY, HAVING and ORDER BY, names of the select list come before columns, as in BigQuery.

If both have the name, PostgreSQL silently groups by the column instead:

    select timestamp_trunc(timestamp, hour) as timestamp, count(*) as n … group by timestamp having n > 1 order by n
      ->  … group by 1 having count(*) > 1 order by 2
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from endpoints.dialects.bigquery.refusals import refusal_of
from endpoints.dialects.bigquery.scopes import Scope

_AGGREGATES = (exp.AggFunc, exp.CountIf)


def alias_references(select: exp.Select, scope: Scope) -> exp.Select:
    """Return the SELECT with the item's number for every such name or, within an expression, with the item itself."""
    items = {item.alias.casefold(): (number, item.this) for number, item in enumerate(select.expressions, 1)}
    group, having, order = (select.args.get(name) for name in ("group", "having", "order"))
    if group is not None:
        _group(select, group, items)
    if having is not None:
        having.set("this", _substituted(having.this, items, scope, in_group=True))
    if order is not None:
        for item in order.expressions:
            item.set("this", _position(item.this, items) or _substituted(item.this, items, scope, in_group=False))
    return select


Items = Mapping[str, tuple[int, exp.Expr]]


def _group(select: exp.Select, group: exp.Group, items: Items) -> None:
    for name in ("grouping_sets", "cube", "rollup", "totals"):
        if group.args.get(name):
            raise refusal_of(group, construct=name.upper().replace("_", " "))
    if group.args.get("all"):
        plain = [number for number, item in enumerate(select.expressions, 1) if not item.find(*_AGGREGATES)]
        group.set("expressions", [exp.Literal.number(number) for number in plain])
        return
    grouped: list[exp.Expr] = []
    for item in group.expressions:
        if isinstance(item, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
            raise refusal_of(item, construct=item.key.upper())
        grouped.append(_position(item, items, groupable=True) or item)
    group.set("expressions", grouped)


def _position(node: exp.Expr, items: Items, *, groupable: bool = False) -> exp.Expr | None:
    """Return the number of the item that a whole GROUP BY or ORDER BY expression names or repeats."""
    if isinstance(node, exp.Paren):
        return _position(node.this, items, groupable=groupable)
    if isinstance(node, exp.Column) and len(node.parts) == 1 and node.name.casefold() in items:
        number, item = items[node.name.casefold()]
        if not (groupable and item.find(*_AGGREGATES)):
            return exp.Literal.number(number)
    if isinstance(node, exp.Literal):
        return None
    return next((exp.Literal.number(number) for number, item in items.values() if item == node), None)


def _substituted(node: exp.Expr, items: Items, scope: Scope, *, in_group: bool) -> exp.Expr:
    """Return an expression with the names of items replaced by the items."""

    def replaced(found: exp.Expr) -> exp.Expr:
        if not isinstance(found, exp.Column) or len(found.parts) != 1 or found.name.casefold() not in items:
            return found
        item = items[found.name.casefold()][1]
        if in_group and scope.has_column(found.name) and not item.find(*_AGGREGATES):
            return found
        if found.find_ancestor(*_AGGREGATES) is not None and item.find(*_AGGREGATES):
            return found
        scope.work.spend(sum(1 for _ in item.walk()))
        return item.copy()

    return node.transform(replaced, copy=False)
