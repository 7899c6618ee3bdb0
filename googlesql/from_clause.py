"""FROM: tables, CTEs, subqueries and unnested arrays, each entered in the scope for the items after it.

from edge_logs as t cross join unnest(t.metadata) as m left join unnest(m.request) as r
  ->  FROM "edge_logs" AS "t" CROSS JOIN json_elements("t"."metadata") AS "m"
      LEFT JOIN json_elements("m" -> 'request') AS "r" ON TRUE
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from sqlglot import exp

from googlesql.coercions import as_boolean, as_json
from googlesql.field_paths import FieldPath, Trace
from googlesql.fields import path_of
from googlesql.kinds import Kind, Shape
from googlesql.lowering import Lowering, offset_of
from googlesql.refusals import refusal_of, similar_names
from googlesql.rules.generated_arrays import series
from googlesql.scopes import Columns, Scope, Source
from googlesql.shapes import element_of, shape_of
from googlesql.tree import TRUE, Expression, FromItem, Name, call, infix, integer

_SIDES: Final = {"LEFT": "LEFT JOIN", "RIGHT": "RIGHT JOIN", "FULL": "FULL JOIN"}


def from_items(select: exp.Select, lowering: Lowering) -> tuple[FromItem, ...]:
    """Return the FROM items of a SELECT and enter them in its scope. Raises Refused."""
    clause = select.args.get("from_")
    if clause is None:
        if select.args.get("joins"):
            raise refusal_of(select, construct="JOIN without FROM")
        return ()
    return tuple(_joined(clause.this, select.args.get("joins") or [], lowering))


def _joined(first: exp.Expr, joins: list[exp.Join], lowering: Lowering) -> Iterator[FromItem]:
    yield from _items(first, lowering)
    for join in joins:
        yield from _join(join, lowering)


def _items(node: exp.Expr, lowering: Lowering) -> Iterator[FromItem]:
    """Yield a FROM item and the items joined to it in the same node."""
    yield _item(node, lowering)
    for join in node.args.get("joins") or []:
        yield from _join(join, lowering)


def _join(join: exp.Join, lowering: Lowering) -> Iterator[FromItem]:
    if join.args.get("method") or join.kind not in ("", "INNER", "CROSS", "OUTER"):
        raise refusal_of(join, construct=f"{join.args.get('method') or join.kind} JOIN")
    scope = lowering.scope
    before = len(scope.sources)
    first, *more = _items(join.this, lowering)
    added = scope.sources[before:]
    if join.side in ("LEFT", "FULL"):
        _mark(added)
    if join.side in ("RIGHT", "FULL"):
        _mark(scope.sources[:before])
    on, using = join.args.get("on"), join.args.get("using") or []
    if join.kind == "CROSS" and (on is not None or using):
        raise refusal_of(on if on is not None else using[0], "takes no condition", construct="CROSS JOIN")
    if using:
        names = tuple(_using(identifier, scope) for identifier in using)
        yield replace(first, join=_SIDES.get(join.side, "JOIN"), using=names)
    elif on is not None:
        condition = as_boolean(lowering.lower(on))
        yield replace(first, join=_SIDES.get(join.side, "JOIN"), on=condition)
    elif join.kind != "CROSS" and not isinstance(join.this, exp.Unnest):
        raise refusal_of(join.this, "needs ON or USING", construct=f"{join.side} JOIN".strip())
    elif join.side:
        yield replace(first, join=_SIDES[join.side], on=TRUE)
    else:
        yield replace(first, join="CROSS JOIN")
    yield from more


def _mark(sources: list[Source]) -> None:
    for source in sources:
        source.outer_joined = True


def _using(identifier: exp.Identifier, scope: Scope) -> str:
    scope.merged.add(identifier.name.casefold())
    for source in scope.sources:
        column = source.column(identifier.name)
        if isinstance(column, Name):
            return column.column
    raise refusal_of(identifier, "is not a column of both tables", construct=identifier.name)


def _item(node: exp.Expr, lowering: Lowering) -> FromItem:
    if isinstance(node, exp.Unnest):
        return _unnest(node, lowering)
    if isinstance(node, exp.Subquery):
        return _subquery(node, lowering)
    if isinstance(node, exp.Table):
        return _table(node, lowering)
    raise refusal_of(node, "is not expected in FROM")


def _table(node: exp.Table, lowering: Lowering) -> FromItem:
    _require_plain_alias(node)
    if node.args.get("db") is not None or not isinstance(node.this, exp.Identifier):
        raise refusal_of(
            node,
            "is not a table that this query may read; write the name of a table alone",
            construct=".".join(part.name for part in node.parts),
        )
    found = lowering.scope.table(node.name)
    if found is None:
        similar = similar_names(node.name, lowering.scope.table_names())
        raise refusal_of(node, "is not a table that this query may read", construct=node.name, similar=similar)
    relation, columns = found
    name = node.alias or node.name
    # An alias with a column's name would hide the column; in PostgreSQL the bare name means the column.
    alias = _free_table_alias(name, lowering.scope)
    lowering.scope.sources.append(Source(name, alias, columns))
    return FromItem(relation=relation, alias=alias, origin=offset_of(node))


def _free_table_alias(name: str, scope: Scope) -> str:
    taken = {source.alias.casefold() for source in scope.sources}
    alias, number = name, 1
    while alias.casefold() in taken:
        number += 1
        alias = f"{name}_{number}"
    return alias


def _subquery(node: exp.Subquery, lowering: Lowering) -> FromItem:
    if isinstance(node.this, exp.Table | exp.Unnest | exp.Subquery) and not node.alias:
        # left join (t cross join unnest(t.x) as y) on …
        # Names inside the brackets see only items inside; items joined to the brackets see all of them.
        within = Scope(parent=lowering.scope)
        inner = tuple(_joined(node.this, [], replace(lowering, scope=within)))
        lowering.scope.sources += within.sources
        lowering.scope.merged |= within.merged
        return inner[0] if len(inner) == 1 else FromItem(bracketed=inner)
    _require_plain_alias(node)
    query = lowering.translate_query(node, _outside(lowering.scope))
    name = node.alias
    alias = _free_table_alias(name, lowering.scope) if name else lowering.scope.free_alias("subquery")
    lowering.scope.sources.append(Source(name, alias, Columns.of(query.outputs)))
    return FromItem(query=query, alias=alias, origin=offset_of(node))


def _require_plain_alias(node: exp.Table | exp.Subquery) -> None:
    alias = node.args.get("alias")
    if alias is not None and not isinstance(alias.this, exp.Identifier | None):
        raise refusal_of(node, "is not a plain name", construct="an alias")
    if alias is not None and alias.columns:
        raise refusal_of(alias.columns[0], "cannot rename columns; write AS after each of them", construct="an alias")


def _outside(scope: Scope) -> Scope:
    """Return the scope of a query in FROM, which sees the tables but not the other FROM items."""
    return Scope(parent=Scope(parent=scope.parent, tables=scope.tables))


def _unnest(node: exp.Unnest, lowering: Lowering) -> FromItem:
    if len(node.expressions) != 1:
        raise refusal_of(node, construct="UNNEST of several arrays")
    array = node.expressions[0]
    table_alias = node.args.get("alias")
    columns = table_alias.columns if table_alias is not None else []
    if len(columns) > 1 or not all(isinstance(column, exp.Identifier) for column in columns):
        # t.metadata as (m): sqlglot does not keep the name
        raise refusal_of(node, "needs a plain name after AS", construct="UNNEST")
    name = columns[0].name if columns else (table_alias.name if table_alias is not None else "")
    elements, path, shape = _elements(array, lowering)
    alias = lowering.scope.free_alias(name)
    element = Name(kind=elements.kind, owner=None, column=alias, trace=Trace(path), shape=shape)
    source = Source(name, alias, None, element)
    lowering.scope.sources.append(source)
    offset = node.args.get("offset")
    if not offset:
        return FromItem(call=elements, alias=alias)
    # with offset as n  ->  with ordinality as m(m, n), counted from one
    offset_name = offset.name if isinstance(offset, exp.Identifier) else "offset"
    counted = lowering.scope.free_alias(offset_name)
    position = infix(Name(kind=Kind.INTEGER, owner=None, column=counted), "-", integer(1), kind=Kind.INTEGER)
    lowering.scope.sources.append(Source(offset_name, counted, None, position))
    return FromItem(call=elements, alias=alias, columns=(alias, counted), ordinality=True)


def _elements(array: exp.Expr, lowering: Lowering) -> tuple[Expression, FieldPath | None, Shape | None]:
    """Return the call that returns the elements, where they are stored, and their shape."""
    made = series(array, lowering)
    if made is not None:
        return made, None, None
    value = lowering.lower(array)
    return call("json_elements", as_json(value), kind=Kind.JSON), path_of(value), element_of(shape_of(value))
