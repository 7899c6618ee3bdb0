"""Arrays and structs: all of them are jsonb, so that records from any source look the same."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from googlesql.coercions import as_json, as_number, as_text
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, Rule
from googlesql.refusals import refusal_of
from googlesql.scopes import index_of
from googlesql.shapes import typed
from googlesql.text_forms import in_results
from googlesql.tree import (
    TRUE,
    Constant,
    Expression,
    Fields,
    FromItem,
    Name,
    Output,
    Select,
    Subquery,
    call,
    cast,
    infix,
    integer,
    string,
)

EMPTY: Final = cast(string("[]"), "jsonb", Kind.JSON)


def array(node: exp.Expr, lowering: Lowering) -> Expression:
    if isinstance(node, exp.Bracket):
        return _element(node, lowering)
    if len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Query):
        return _array_of_query(node.expressions[0], lowering)
    items = [argument(value) for value in lowering.lower_all(_alike(node.expressions))]
    return call("jsonb_build_array", *items, kind=Kind.JSON) if items else EMPTY


def _alike(items: list[exp.Expr]) -> list[exp.Expr]:
    # [struct('a' as name), struct('b')]: all take the names of the first
    first = items[0] if items else None
    if not isinstance(first, exp.Struct):
        return items
    names = [field.this if isinstance(field, exp.PropertyEQ) else None for field in first.expressions]
    for item in items[1:]:
        if isinstance(item, exp.Struct) and len(item.expressions) == len(names):
            fields = zip(item.expressions, names, strict=True)
            item.set("expressions", [_named(field, name) for field, name in fields])
    return items


def _named(field: exp.Expr, name: exp.Expr | None) -> exp.Expr:
    if name is None or isinstance(field, exp.PropertyEQ):
        return field
    return exp.PropertyEQ(this=name.copy(), expression=field)


def argument(value: Expression) -> Expression:
    """Return a value as the argument of a function that turns anything into JSON."""
    if value.kind is Kind.JSON:
        return as_json(value)
    is_literal = isinstance(value, Constant) and value.kind is Kind.TEXT
    return cast(value, "text", Kind.TEXT) if is_literal else in_results(value)


def _array_of_query(node: exp.Expr, lowering: Lowering) -> Expression:
    # array(select x from …)  ->  (select coalesce(jsonb_agg(listed.x), '[]') from (select x from …) as listed)
    query = lowering.query(node)
    if len(query.outputs) != 1:
        raise refusal_of(node, "returns more than one column", construct="ARRAY")
    column = query.outputs[0]
    item = Name(kind=column.kind, owner="listed", column=column.name, shape=column.shape)
    listed = call("jsonb_agg", item, kind=Kind.JSON)
    gathered = call("COALESCE", listed, EMPTY, kind=Kind.JSON)
    select = Select(
        outputs=(Output("listed", Kind.JSON),),
        items=(gathered,),
        from_items=(FromItem(query=query, alias="listed"),),
    )
    return Subquery(kind=Kind.JSON, query=select)


def _element(node: exp.Bracket, lowering: Lowering) -> Expression:
    # split(x, ',')[offset(0)]
    index, first = index_of(node)
    if index is None:
        raise refusal_of(node, construct="[…]")
    value = as_json(lowering.lower(node.this))
    if isinstance(index, exp.Literal) and index.is_string:
        return Fields(kind=Kind.JSON, base=value, steps=(str(index.this),))
    position = cast(as_number(lowering.lower(index)), "integer", Kind.INTEGER)
    at = infix(position, "-", integer(first), kind=Kind.INTEGER) if first else position
    return typed(infix(value, "->", at, kind=Kind.JSON))


def struct(node: exp.Struct, lowering: Lowering) -> Expression:
    # struct(a, b as c)  ->  jsonb_build_object('a', a, 'c', b)
    pairs: list[Expression] = []
    for number, (name, item) in enumerate(fields_of(node)):
        pairs += [string(name or f"f{number}_"), argument(lowering.lower(item))]
    return call("jsonb_build_object", *pairs, kind=Kind.JSON)


def fields_of(node: exp.Struct) -> list[tuple[str, exp.Expr]]:
    """Return the fields of a struct: their names, "" for none, and their values."""
    fields: list[tuple[str, exp.Expr]] = []
    for item in node.expressions:
        if isinstance(item, exp.PropertyEQ):
            fields.append((item.this.name, item.expression))
        elif isinstance(item, exp.Alias):
            fields.append((item.alias, item.this))
        else:
            fields.append((item.alias_or_name, item))
    return fields


def length(node: exp.ArraySize, lowering: Lowering) -> Expression:
    # array_length(x)  ->  jsonb_path_query_first(x, 'strict $.size()', '{}', TRUE)::bigint, NULL if x is not an array
    value = as_json(lowering.lower(node.this))
    size = call("jsonb_path_query_first", value, string("strict $.size()"), string("{}"), TRUE, kind=Kind.JSON)
    return cast(size, "bigint", Kind.INTEGER)


def split(node: exp.Split, lowering: Lowering) -> Expression:
    value, separator = map(as_text, lowering.lower_all([node.this, node.expression]))
    return call("split_text", value, separator, kind=Kind.JSON)


def joined(node: exp.ArrayToString, lowering: Lowering) -> Expression:
    array, *texts = lowering.lower_all([node.this, node.expression, *filter(None, [node.args.get("null")])])
    return call("array_text", as_json(array), *map(as_text, texts), kind=Kind.TEXT)


RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.Array: array,
    exp.Struct: struct,
    exp.ArraySize: length,
    exp.Split: split,
    exp.ArrayToString: joined,
}
