"""Queries: WITH, SELECT and its clauses, set operations. Every name is known before its uses are lowered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from sqlglot import exp

from googlesql.coercions import as_boolean, output
from googlesql.field_paths import MAX_USES_OF_COLUMN, UNTRACED, Trace
from googlesql.fields import path_of
from googlesql.from_clause import from_items
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, number_of
from googlesql.named_windows import named_windows
from googlesql.passes import alias_references, expand_stars, output_names
from googlesql.percentiles import with_percentiles
from googlesql.qualifying import qualified, refuse_misplaced_windows, require_window
from googlesql.refusals import refusal_of
from googlesql.rules import RULES
from googlesql.rules.json_and_arrays import argument
from googlesql.scopes import Columns, Scope
from googlesql.shapes import shape_of
from googlesql.spellings import one_spelling
from googlesql.tree import (
    Call,
    CommonTable,
    Constant,
    Expression,
    FromItem,
    Grouping,
    Infix,
    Name,
    Ordered,
    Output,
    Query,
    Select,
    call,
    chain,
    infix,
    integer,
    string,
)
from googlesql.unions import combined


def translate_query(node: exp.Expr, scope: Scope) -> Query:
    """Return a query in the form that PostgreSQL runs. Raises Refused.

    `scope` is the query's own level: empty, and its parents have the names that the query may use.
    """
    if isinstance(node, exp.Subquery):
        return _bracketed(node, scope)
    if not isinstance(node, exp.Select | exp.SetOperation):
        raise refusal_of(node, "cannot begin a query; begin with SELECT or WITH")
    if node.args.get("kind") not in (None, "STRUCT"):
        raise refusal_of(node, construct=f"AS {node.args['kind']}")
    common_tables = tuple(_common_tables(node.args.get("with_"), scope))
    if isinstance(node, exp.Select):
        query: Query = _select(node, scope)
        if node.args.get("kind") == "STRUCT":
            query = _as_struct(query)
    else:
        query = _set_operation(node, scope)
    return replace(query, common_tables=common_tables) if common_tables else query


def _as_struct(query: Query) -> Query:
    # select as struct a, b from …  ->  select jsonb_build_object('a', fields.c0, …) from (select a, b from …) as fields
    names = tuple(f"c{number}" for number in range(len(query.outputs)))
    pairs: list[Expression] = []
    for name, column in zip(names, query.outputs, strict=True):
        value = Name(kind=column.kind, owner="fields", column=name, shape=column.shape)
        pairs += [string(column.name), argument(value)]
    made = call("jsonb_build_object", *pairs, kind=Kind.JSON)
    return Select(
        outputs=(_output("struct", made),),
        items=(made,),
        from_items=(FromItem(query=query, alias="fields", columns=names),),
    )


def _bracketed(node: exp.Subquery, scope: Scope) -> Query:
    """with … (select …) order by … limit …: the parts around the brackets belong to an outer query."""
    common_tables = tuple(_common_tables(node.args.get("with_"), scope))
    inner = translate_query(node.this, Scope(parent=scope) if common_tables else scope)
    if common_tables:
        inner = replace(inner, common_tables=common_tables + inner.common_tables)
    order, limit, offset = (node.args.get(name) for name in ("order", "limit", "offset"))
    if order is None and limit is None and offset is None:
        return inner
    if inner.order or inner.limit is not None or inner.offset is not None:
        raise refusal_of(node, construct="ORDER BY or LIMIT twice")
    lowering = _lowering(scope)
    return replace(
        inner,
        order=_order_of_outputs(order, inner.outputs, lowering),
        limit=_row_count(limit, lowering),
        offset=_row_count(offset, lowering),
    )


def _common_tables(node: exp.With | None, scope: Scope) -> list[CommonTable]:
    if node is None:
        return []
    if node.args.get("recursive"):
        raise refusal_of(node, construct="WITH RECURSIVE")
    tables: list[CommonTable] = []
    for item in node.expressions:
        name = item.alias
        query = translate_query(item.this, Scope(parent=scope))
        columns = item.args["alias"].columns
        if columns:
            raise refusal_of(columns[0], construct="WITH name (columns)")
        scope.tables[name.casefold()] = (name, Columns.of(query.outputs))
        tables.append(CommonTable(name, query))
    return tables


def _lowering(scope: Scope) -> Lowering:
    return Lowering(scope, RULES, translate_query, _order_items)


def _select(node: exp.Select, outer: Scope) -> Select:
    # The WITH list belongs to the outer level, the FROM items to this one.
    scope = Scope(parent=outer)
    lowering = _lowering(scope)
    if not node.expressions:
        raise refusal_of(node, "has no columns", construct="SELECT")
    items_from = from_items(node, lowering)
    require_window(node)
    one_spelling(named_windows(expand_stars(output_names(node), scope), scope))
    refuse_misplaced_windows(alias_references(node, scope))
    where, having, qualify = (node.args.get(name) for name in ("where", "having", "qualify"))
    condition = as_boolean(lowering.lower(where.this)) if where is not None else None
    group = node.args.get("group")
    if group is not None or node.args.get("distinct") is not None:
        lowering = replace(lowering, grouped=True)
    traced = [_traced(item.this, lowering) for item in node.expressions]
    items = [value for value, _ in traced]
    outputs = tuple(
        _output(item.alias, value, trace) for item, (value, trace) in zip(node.expressions, traced, strict=True)
    )
    scope.aliases = [column.name for column in outputs]
    order = node.args.get("order")
    select = Select(
        items=tuple(items),
        outputs=outputs,
        distinct=node.args.get("distinct") is not None,
        from_items=items_from,
        where=condition,
        group=tuple(_grouping(item, lowering) for item in group.expressions) if group is not None else (),
        having=_having(having, group, lowering),
        order=_ordered(order, items, lowering) if order is not None else (),
        limit=_row_count(node.args.get("limit"), lowering),
        offset=_row_count(node.args.get("offset"), lowering),
    )
    if qualify is not None:
        return qualified(select, as_boolean(lowering.lower(qualify.this)))
    return with_percentiles(select)


def _having(having: exp.Having | None, group: exp.Group | None, lowering: Lowering) -> Expression | None:
    conditions = [as_boolean(lowering.lower(having.this))] if having is not None else []
    if group is not None and group.find(exp.Rollup, exp.Cube, exp.GroupingSets):
        # Of no rows PostgreSQL makes the row of the grand total, BigQuery none.
        rows = Call(kind=Kind.INTEGER, name="count", star=True)
        conditions.append(infix(rows, ">", integer(0), kind=Kind.BOOLEAN))
    return chain("AND", *conditions, kind=Kind.BOOLEAN) if conditions else None


def _traced(node: exp.Expr, lowering: Lowering) -> tuple[Expression, Trace]:
    """Return an item of a select list, and the fields that it was made of."""
    uses = lowering.scope.uses
    before = len(uses)
    value = lowering.lower(node)
    return output(value), Trace(path_of(value), tuple(islice(dict.fromkeys(uses[before:]), MAX_USES_OF_COLUMN)))


def _output(name: str, value: Expression, trace: Trace = UNTRACED) -> Output:
    return Output(name, value.kind, _nullable(value), shape_of(value) if value.kind is Kind.JSON else None, trace)


def _nullable(value: Expression) -> bool:
    return not isinstance(value, Name) or value.nullable


_GROUPING_WORDS: Final[dict[type[exp.Expr], str]] = {
    exp.Rollup: "ROLLUP",
    exp.Cube: "CUBE",
    exp.GroupingSets: "GROUPING SETS",
}


def _grouping(node: exp.Expr, lowering: Lowering) -> Expression:
    number = number_of(node)
    if number is not None:
        return integer(number)
    if isinstance(node, exp.Tuple | exp.Rollup | exp.Cube | exp.GroupingSets):
        items = tuple(_grouping(item, lowering) for item in node.expressions)
        return Grouping(kind=Kind.OTHER, items=items, word=_GROUPING_WORDS.get(type(node), ""))
    value = output(lowering.lower(node))
    if isinstance(value, Constant):
        raise refusal_of(node, "needs a column or an expression, not a constant", construct="GROUP BY")
    return value


def _ordered(node: exp.Order, items: Sequence[Expression], lowering: Lowering) -> tuple[Ordered, ...]:
    result: list[Ordered] = []
    for item in node.expressions:
        number = number_of(item.this)
        if number is not None:
            if not 1 <= number <= len(items):
                raise refusal_of(item, "is not the number of a column", construct=f"ORDER BY {number}")
            indexed = None if lowering.grouped else _indexed(items[number - 1])
            value = integer(number) if indexed is None else indexed
            result.append(_order_item(item, value, nullable=_nullable(indexed or items[number - 1])))
        else:
            value = output(lowering.lower(item.this))
            if not isinstance(value, Constant):  # it orders nothing, and PostgreSQL refuses it
                result.append(_order_item(item, value, nullable=_nullable(value)))
    return tuple(result)


def _indexed(item: Expression) -> Expression | None:
    """Return the column with the same order as the item: a timestamp as local time has no index, but the column has."""
    if isinstance(item, Infix) and item.operator == "AT TIME ZONE" and isinstance(item.left, Name):
        zone = item.right
        return item.left if isinstance(zone, Constant) and zone.text == "UTC" else None
    return None


def _order_items(nodes: Sequence[exp.Expr], lowering: Lowering) -> tuple[Ordered, ...]:
    """Return an ORDER BY within an expression, where numbers and names of items have no meaning."""
    values = [(node, output(lowering.lower(node.this))) for node in nodes]
    return tuple(_order_item(node, value, nullable=_nullable(value)) for node, value in values)


def _order_item(node: exp.Expr, value: Expression, *, nullable: bool) -> Ordered:
    """NULLs are the smallest in BigQuery and the greatest in PostgreSQL.

    An expression that is never NULL stays as it is: an index gives rows only in PostgreSQL's own order.
    """
    descending = bool(node.args.get("desc"))
    first = node.args.get("nulls_first")
    if first is None:
        first = not descending
    nulls = "FIRST" if first else "LAST"
    is_default = first is descending  # PostgreSQL: DESC is NULLS FIRST, ASC is NULLS LAST
    return Ordered(expression=value, descending=descending, nulls=nulls if nullable and not is_default else "")


def _row_count(node: exp.Expr | None, lowering: Lowering) -> Expression | None:
    if node is None:
        return None
    if isinstance(node, exp.Fetch) or node.expression is None or node.args.get("offset") is not None:
        raise refusal_of(node, construct="FETCH" if isinstance(node, exp.Fetch) else "LIMIT with a comma")
    return lowering.lower(node.expression)


def _set_operation(node: exp.SetOperation, scope: Scope) -> Query:
    branches: list[Query] = []
    left: exp.Expr = node
    words = _words(node)
    nodes: list[exp.Expr] = []
    # (a union all b) union all c  ->  a UNION ALL b UNION ALL c
    while isinstance(left, exp.SetOperation) and _words(left) == words and (left is node or _is_plain(left)):
        nodes.append(left.expression)
        left = left.this
    nodes.append(left)
    branches = [translate_query(branch, Scope(parent=scope)) for branch in reversed(nodes)]
    if len({len(branch.outputs) for branch in branches}) > 1:
        raise refusal_of(node, "has branches with different numbers of columns", construct=words)
    query = combined(words, branches)
    lowering = _lowering(scope)
    return replace(
        query,
        order=_order_of_outputs(node.args.get("order"), query.outputs, lowering),
        limit=_row_count(node.args.get("limit"), lowering),
        offset=_row_count(node.args.get("offset"), lowering),
    )


def _is_plain(node: exp.Expr) -> bool:
    return not any(node.args.get(name) for name in ("order", "limit", "offset", "with_"))


def _words(node: exp.SetOperation) -> str:
    return f"{node.key.upper()}{'' if node.args.get('distinct') else ' ALL'}"


def _order_of_outputs(node: exp.Order | None, outputs: Sequence[Output], lowering: Lowering) -> tuple[Ordered, ...]:
    """Return the ORDER BY of a set operation, which names only columns of its result."""
    if node is None:
        return ()
    numbers = {column.name.casefold(): number for number, column in enumerate(outputs, 1)}
    result: list[Ordered] = []
    for item in node.expressions:
        number = number_of(item.this)
        if number is None and isinstance(item.this, exp.Column) and len(item.this.parts) == 1:
            number = numbers.get(item.this.name.casefold())
        if number is None or not 1 <= number <= len(outputs):
            raise refusal_of(item, "may name only a column of the result", construct="ORDER BY after UNION")
        result.append(_order_item(item, integer(number), nullable=outputs[number - 1].nullable))
    return tuple(result)
