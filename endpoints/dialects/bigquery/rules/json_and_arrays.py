"""Arrays, structs and JSON: all of them are jsonb, so that records from any source look the same."""

from __future__ import annotations

import json
import re
from typing import Final

from sqlglot import exp

from endpoints.dialects.bigquery.coercions import as_json, as_number, as_text
from endpoints.dialects.bigquery.kinds import Kind
from endpoints.dialects.bigquery.lowering import Lowering, Rule, text_of
from endpoints.dialects.bigquery.refusals import refusal_of
from endpoints.dialects.bigquery.scopes import index_of
from endpoints.dialects.bigquery.shapes import typed
from endpoints.dialects.bigquery.tree import (
    TRUE,
    Call,
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

# --- Arrays -----------------------------------------------------------------------------------------------------------
# Arrays and structs: all of them are jsonb, so that records from any source look the same.
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
    return cast(value, "text", Kind.TEXT) if isinstance(value, Constant) and value.kind is Kind.TEXT else value


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
    for number, item in enumerate(node.expressions):
        name, value = item.alias_or_name or f"f{number}_", item
        if isinstance(item, exp.PropertyEQ):
            name, value = item.this.name, item.expression
        elif isinstance(item, exp.Alias):
            value = item.this
        pairs += [string(name), argument(lowering.lower(value))]
    return call("jsonb_build_object", *pairs, kind=Kind.JSON)


def length(node: exp.ArraySize, lowering: Lowering) -> Expression:
    # array_length(x)  ->  jsonb_path_query_first(x, 'strict $.size()', '{}', TRUE)::bigint, NULL if x is not an array
    value = as_json(lowering.lower(node.this))
    size = call("jsonb_path_query_first", value, string("strict $.size()"), string("{}"), TRUE, kind=Kind.JSON)
    return cast(size, "bigint", Kind.INTEGER)


def split(node: exp.Split, lowering: Lowering) -> Expression:
    value, separator = map(as_text, lowering.lower_all([node.this, node.expression]))
    return call("to_jsonb", call("string_to_array", value, separator, kind=Kind.OTHER), kind=Kind.JSON)


def joined(node: exp.ArrayToString, lowering: Lowering) -> Expression:
    # array_to_string(x, ',')  ->  (select string_agg(element #>> '{}', ',') from json_elements(x) as element)
    alias = lowering.scope.free_alias("element")
    element = as_text(Name(kind=Kind.JSON, owner=None, column=alias))
    text = Call(kind=Kind.TEXT, name="string_agg", arguments=(element, as_text(lowering.lower(node.expression))))
    elements = call("json_elements", as_json(lowering.lower(node.this)), kind=Kind.JSON)
    select = Select(
        outputs=(Output("joined", Kind.TEXT),), items=(text,), from_items=(FromItem(call=elements, alias=alias),)
    )
    return Subquery(kind=Kind.TEXT, query=select)


# --- Json functions ---------------------------------------------------------------------------------------------------
_SCALARS: Final = ' ? (@.type() != "object" && @.type() != "array")'
# .name, ['name'], ["name"], ."name" or [0]
_STEP: Final = re.compile(
    r"""\.([^.\[\]"'*?@()$]+)|\['([^']*)'\]|(?:\.|\[)"([^"]*)"(?:\]|(?=[.\[]|$))|\[([0-9]{1,9})\]"""
)
_ARRAYS: Final = ' ? (@.type() == "array")'


def document(value: Expression) -> tuple[Expression, str]:
    """Return the value in which to look a path up, and how strictly.

    A text is read as written. Stored records are wrapped in arrays of one, and a lax path goes through these.
    """
    if value.kind is Kind.JSON:
        return as_json(value), "lax"
    text = as_text(value)
    if isinstance(text, Constant):
        text = cast(text, "text", Kind.TEXT)
    return call("try_json", text, kind=Kind.JSON), "strict"


def path_of(node: exp.Expr) -> str:
    """Return PostgreSQL's form of a BigQuery JSONPath. Raises Refusal for wildcards and filters."""
    written = node.args.get("expression")
    if written is None:
        return "$"
    text = text_of(written)
    if text is None or not text.startswith("$"):
        raise refusal_of(node, "must be a constant such as '$.a.b[0]'", construct="the JSON path")
    steps: list[str] = []
    index = 1
    while index < len(text):
        match = _STEP.match(text, index)
        if match is None:
            raise refusal_of(written, "must be a path such as '$.a.b[0]'", construct="the JSON path")
        name, quoted, double_quoted, number = match.groups()
        steps.append(f"[{number}]" if number else f".{json.dumps(name or quoted or double_quoted or '')}")
        index = match.end()
    return "$" + "".join(steps)


def found(node: exp.Expr, lowering: Lowering, *, condition: str = "") -> Expression:
    """Return the value at the path of a JSON function."""
    target, mode = document(lowering.lower(node.this))
    path = f"{mode} {path_of(node)}{condition}"
    if path == "strict $" or path == "lax $":
        return target
    if mode == "lax":
        return call("jsonb_path_query_first", target, string(path.removeprefix("lax ")), kind=Kind.JSON)
    # The last argument: a missing key is no error.
    return call("jsonb_path_query_first", target, string(path), string("{}"), TRUE, kind=Kind.JSON)


def value(node: exp.JSONExtractScalar, lowering: Lowering) -> Expression:
    # json_value(x, '$.a')  ->  jsonb_path_query_first(try_json(x), 'strict $."a" ? (…)', '{}', TRUE) #>> '{}'
    return infix(found(node, lowering, condition=_SCALARS), "#>>", string("{}"), kind=Kind.TEXT)


def query(node: exp.JSONExtract, lowering: Lowering) -> Expression:
    return found(node, lowering)


def json_array(node: exp.Expr, lowering: Lowering) -> Expression:
    return found(node, lowering, condition=_ARRAYS)


def parse_json(node: exp.ParseJSON, lowering: Lowering) -> Expression:
    return document(as_text(lowering.lower(node.this)))[0]


def to_json_string(node: exp.JSONFormat, lowering: Lowering) -> Expression:
    # to_json_string(metadata)  ->  metadata::text
    made = as_json(lowering.lower(node.this))
    return made if node.args.get("to_json") else cast(made, "text", Kind.TEXT)


def json_type(node: exp.Expr, lowering: Lowering) -> Expression:
    return call("jsonb_typeof", as_json(lowering.lower(node.this)), kind=Kind.TEXT)


RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.Array: array,
    exp.Struct: struct,
    exp.ArraySize: length,
    exp.Split: split,
    exp.ArrayToString: joined,
    exp.JSONExtractScalar: value,
    exp.JSONExtract: query,
    exp.JSONExtractArray: json_array,
    exp.JSONValueArray: json_array,
    exp.ParseJSON: parse_json,
    exp.JSONFormat: to_json_string,
    exp.JSONType: json_type,
}
