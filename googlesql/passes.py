"""Rewrites of sqlglot's tree before it is lowered, each from a SELECT to a SELECT.

`output_names` comes first, because every later one looks items up by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from sqlglot import exp

from googlesql.refusals import refusal_of
from googlesql.scopes import Scope, Source, parts_of


# --- Output names -----------------------------------------------------------------------------------------------------
# Gives every item of a select list the name that its column has in BigQuery.
#
# select t.id, count(*), m.request.path -> select t.id as id, count(*) as f0_, m.request.path as path
def output_names(select: exp.Select) -> exp.Select:
    """Return the SELECT with AS after every item except `*`."""
    unnamed = 0
    items: list[exp.Expr] = []
    for item in select.expressions:
        if isinstance(item, exp.Alias) or _is_star(item):
            items.append(item)
            continue
        name = _name(item)
        if name is None:
            name = exp.to_identifier(f"f{unnamed}_")
            unnamed += 1
        items.append(exp.Alias(this=item, alias=name))
    select.set("expressions", items)
    return select


def _is_star(item: exp.Expr) -> bool:
    return isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))


def _name(item: exp.Expr) -> exp.Identifier | None:
    """Return the last name of a path; a path that ends in a subscript has none."""
    if isinstance(item, exp.Paren):
        return _name(item.this)
    parts = parts_of(item)
    if parts is None:
        return exp.to_identifier(item.expression.name) if isinstance(item, exp.Dot) else None
    identifiers, steps = parts
    if not steps:
        return exp.to_identifier(identifiers[-1].name)
    return exp.to_identifier(steps[-1]) if isinstance(steps[-1], str) else None


# --- Stars ------------------------------------------------------------------------------------------------------------
# Replaces `*` by its columns, so that the names of a query's output are known.
#
# select *, count(*) over () from t -> select t.id as id, t.timestamp as timestamp, …, count(*) over () as f0_ select
# * except (metadata) -> … without that column
MAX_COLUMNS: Final = 1664  # of a result in PostgreSQL, MaxTupleAttributeNumber in its sources
_WORK_OF_COLUMN: Final = 2  # this pass makes nodes, which are later lowered like those of the text


def expand_stars(select: exp.Select, scope: Scope) -> exp.Select:
    """Return the SELECT without `*` in its list; every item has a name."""
    if not any(item.is_star for item in select.expressions):
        return select
    items: list[exp.Expr] = []
    for item in select.expressions:
        star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
        if isinstance(star, exp.Star):
            for column in _columns(item, star, scope):
                scope.work.spend(_WORK_OF_COLUMN)
                items.append(column)
                if len(items) > MAX_COLUMNS:
                    raise refusal_of(item, f"means more than {MAX_COLUMNS} columns", construct="*")
        else:
            items.append(item)
    if not items:
        raise refusal_of(select, "means no column", construct="*")
    select.set("expressions", items)
    return output_names(select)


def _columns(item: exp.Expr, star: exp.Star, scope: Scope) -> Iterator[exp.Expr]:
    owner = item.args.get("table") if isinstance(item, exp.Column) else None
    if owner is None:
        sources = list(scope.sources)
    else:
        source = scope.source(owner.name)
        if source is None:
            raise refusal_of(item, "is not a table here", construct=owner.name)
        sources = [source]
    left_out = {node.name.casefold() for node in star.args.get("except_") or []}
    replaced = {node.alias.casefold(): node for node in star.args.get("replace") or []}
    seen: set[str] = set()
    for source in sources:
        for column in _of_source(source):
            name = column.alias.casefold()
            if name in left_out or (name in seen and name in scope.merged):
                continue
            seen.add(name)
            yield replaced.get(name, column)


def _of_source(source: Source) -> Iterator[exp.Alias]:
    if source.columns is None:
        if source.name:
            yield exp.Alias(this=exp.column(exp.to_identifier(source.name)), alias=exp.to_identifier(source.name))
        return
    for output in source.columns.outputs:
        column = exp.column(exp.to_identifier(output.name), table=exp.to_identifier(source.name))
        yield exp.Alias(this=column, alias=exp.to_identifier(output.name))


# --- Alias references -------------------------------------------------------------------------------------------------
# In GROUP BY, HAVING, QUALIFY and ORDER BY, names of the select list come before columns, as in BigQuery.
#
# If both have the name, PostgreSQL silently groups by the column instead:
#
#     select timestamp_trunc(timestamp, hour) as timestamp, count(*) as n … group by timestamp having n > 1 order by n
#       ->  … group by 1 having count(*) > 1 order by 2
AGGREGATES: Final = (exp.AggFunc, exp.CountIf)
_SETS: Final = (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)


def alias_references(select: exp.Select, scope: Scope) -> exp.Select:
    """Return the SELECT with the item's number for every such name or, within an expression, with the item itself."""
    items = {item.alias.casefold(): (number, item.this) for number, item in enumerate(select.expressions, 1)}
    group, order = select.args.get("group"), select.args.get("order")
    if group is not None:
        _group(select, group, items)
    for condition in (select.args.get("having"), select.args.get("qualify")):
        if condition is not None:
            condition.set("this", _substituted(condition.this, items, scope))
    if order is not None:
        for item in order.expressions:
            item.set("this", _position(item.this, items) or _substituted(item.this, items, scope))
    return select


def _has_aggregate(item: exp.Expr) -> bool:
    """Whether an item has an aggregate of its own: those of a query inside it see the rows of that query."""
    inner = item.walk(prune=lambda node: isinstance(node, exp.Query))
    return any(isinstance(node, AGGREGATES) for node in inner)


Items = Mapping[str, tuple[int, exp.Expr]]


def _group(select: exp.Select, group: exp.Group, items: Items) -> None:
    if group.args.get("all"):
        plain = [number for number, item in enumerate(select.expressions, 1) if not _has_aggregate(item)]
        group.set("expressions", [exp.Literal.number(number) for number in plain])
    else:
        _group_items(group, items)


def _group_items(node: exp.Expr, items: Items) -> None:
    """Replace the items of a GROUP BY or, within it, of a ROLLUP, CUBE or list of grouping sets."""
    grouped: list[exp.Expr] = []
    for item in node.expressions:
        if isinstance(item, _SETS):
            _group_items(item, items)
            grouped.append(item)
        else:
            grouped.append(_position(item, items, groupable=True) or item)
    node.set("expressions", grouped)


def _position(node: exp.Expr, items: Items, *, groupable: bool = False) -> exp.Expr | None:
    """Return the number of the item that a whole GROUP BY or ORDER BY expression names or repeats."""
    if isinstance(node, exp.Paren):
        return _position(node.this, items, groupable=groupable)
    if isinstance(node, exp.Column) and len(node.parts) == 1 and node.name.casefold() in items:
        number, item = items[node.name.casefold()]
        if not (groupable and _has_aggregate(item)):
            return exp.Literal.number(number)
    if isinstance(node, exp.Literal):
        return None
    return next((exp.Literal.number(number) for number, item in items.values() if item == node), None)


def _substituted(node: exp.Expr, items: Items, scope: Scope) -> exp.Expr:
    """Return an expression with the names of items replaced by the items; a query inside it has names of its own."""
    names = [
        found
        for found in node.walk(prune=lambda inner: isinstance(inner, exp.Query))
        if isinstance(found, exp.Column) and len(found.parts) == 1 and found.name.casefold() in items
    ]
    for found in names:
        item = items[found.name.casefold()][1]
        if _within_aggregate(found) and _has_aggregate(item):
            continue  # no aggregate has another one in it, so it must be the column
        scope.work.spend(sum(1 for _ in item.walk()))
        if found is node:
            return item.copy()
        found.replace(item.copy())
    return node


def _within_aggregate(node: exp.Expr) -> bool:
    """Whether a node is in an aggregate without OVER; a window function takes aggregates: sum(sum(x)) over ()."""
    ancestor = node.find_ancestor(*AGGREGATES)
    if ancestor is None:
        return False
    around = ancestor.parent
    if isinstance(around, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        around = around.parent
    return not isinstance(around, exp.Window) or _within_aggregate(around)
