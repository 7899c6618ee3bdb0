"""JSON in text and in records: values at a path, their texts, and TO_JSON_STRING."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from googlesql.coercions import as_json, as_text
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, Rule, text_of
from googlesql.refusals import refusal_of
from googlesql.rules.json_and_arrays import argument, fields_of
from googlesql.text_forms import datetime_text, number_text, time_text, timestamp_text
from googlesql.tree import (
    TRUE,
    Call,
    Constant,
    Expression,
    call,
    cast,
    chain,
    infix,
    string,
)

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
    """Return PostgreSQL's form of a BigQuery JSONPath. Raises Refused for wildcards and filters."""
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


def found(node: exp.Expr, document: Expression, mode: str, *, condition: str = "") -> Expression:
    """Return the value at the path of a JSON function."""
    path = f"{mode} {path_of(node)}{condition}"
    if path == "strict $" or path == "lax $":
        return document
    if mode == "lax":
        return call("jsonb_path_query_first", document, string(path.removeprefix("lax ")), kind=Kind.JSON)
    # The last argument: a missing key is no error.
    return call("jsonb_path_query_first", document, string(path), string("{}"), TRUE, kind=Kind.JSON)


def value(node: exp.JSONExtractScalar, lowering: Lowering) -> Expression:
    # json_value(x, '$.a')  ->  jsonb_path_query_first(try_json(x), 'strict $."a" ? (…)', '{}', TRUE) #>> '{}'
    target = document(lowering.lower(node.this))
    return infix(found(node, *target, condition=_SCALARS), "#>>", string("{}"), kind=Kind.TEXT)


def query(node: exp.JSONExtract, lowering: Lowering) -> Expression:
    # json_query(x, '$.a')  ->  json_text(jsonb_path_query_first(try_json(x), …)); of JSON it stays JSON
    target, mode = document(lowering.lower(node.this))
    at_path = found(node, target, mode)
    return at_path if mode == "lax" else call("json_text", at_path, kind=Kind.TEXT)


def json_array(node: exp.JSONExtractArray, lowering: Lowering) -> Expression:
    target, mode = document(lowering.lower(node.this))
    at_path = found(node, target, mode, condition=_ARRAYS)
    return at_path if mode == "lax" else call("json_texts", at_path, kind=Kind.JSON)


def value_array(node: exp.JSONValueArray, lowering: Lowering) -> Expression:
    target = document(lowering.lower(node.this))
    return call("scalar_texts", found(node, *target, condition=_ARRAYS), kind=Kind.JSON)


def parse_json(node: exp.ParseJSON, lowering: Lowering) -> Expression:
    return document(as_text(lowering.lower(node.this)))[0]


def json_type(node: exp.Expr, lowering: Lowering) -> Expression:
    return call("jsonb_typeof", as_json(lowering.lower(node.this)), kind=Kind.TEXT)


# --- TO_JSON_STRING ---------------------------------------------------------------------------------------------------
def to_json_string(node: exp.JSONFormat, lowering: Lowering) -> Expression:
    # to_json_string(struct(a, b as c))  ->  '{"a":' || … || ',"c":' || … || '}', in the order of the fields
    if node.args.get("to_json"):
        return as_json(lowering.lower(node.this))
    if node.args.get("options") or len([value for value in node.args.values() if value is not None]) > 1:
        raise refusal_of(node, "with blanks and line ends is not supported", construct="TO_JSON_STRING")
    return chain("||", *_merged(_pieces(node.this, lowering)), kind=Kind.TEXT)


def _pieces(node: exp.Expr, lowering: Lowering) -> Iterator[str | Expression]:
    """Yield what the JSON of a value consists of: constant text, and expressions that are never NULL."""
    if isinstance(node, exp.Paren):
        yield from _pieces(node.this, lowering)
    elif isinstance(node, exp.Struct):
        yield from _object([(name, list(_pieces(item, lowering))) for name, item in fields_of(node)])
    elif isinstance(node, exp.Array) and node.expressions and not isinstance(node.expressions[0], exp.Query):
        for number, item in enumerate(node.expressions):
            yield "," if number else "["
            yield from _pieces(item, lowering)
        yield "]"
    elif (row := _row(node, lowering)) is not None:
        yield from _object([(name, [json_of(value)]) for name, value in row])
    else:
        yield json_of(lowering.lower(node))


def _object(fields: list[tuple[str, list[str | Expression]]]) -> Iterator[str | Expression]:
    for number, (name, pieces) in enumerate(fields):
        yield f"{',' if number else '{'}{json.dumps(name, ensure_ascii=False)}:"
        yield from pieces
    yield "}" if fields else "{}"


def _row(node: exp.Expr, lowering: Lowering) -> list[tuple[str, Expression]] | None:
    """Return the columns of a FROM item that stands for a whole row, None for anything else."""
    if not isinstance(node, exp.Column) or len(node.parts) != 1:
        return None
    source = lowering.scope.source(node.name)
    if source is None or source.columns is None or not isinstance(lowering.lower(node), Call):
        return None
    columns = [(output.name, source.column(output.name)) for output in source.columns.outputs]
    return [(name, column) for name, column in columns if column is not None]


def json_of(value: Expression) -> Expression:
    """Return the compact JSON of a value as text, `null` for NULL."""
    match value.kind:
        case Kind.NULL:
            return string("null")
        case Kind.JSON:
            text: Expression = call("json_text", as_json(value), kind=Kind.TEXT)
        case Kind.INTEGER | Kind.BOOLEAN:
            text = as_text(value)
        case Kind.NUMBER | Kind.FLOAT:
            text = number_text(value)
        case Kind.DATE:
            text = _quoted(as_text(value))
        case Kind.DATETIME:
            text = _quoted(datetime_text(value, separator="T"))
        case Kind.TIME:
            text = _quoted(time_text(value))
        case Kind.TIMESTAMP:
            text = _quoted(timestamp_text(value, separator="T", zone="Z"))
        case _:
            text = cast(call("to_json", argument(value), kind=Kind.OTHER), "text", Kind.TEXT)
    return call("COALESCE", text, string("null"), kind=Kind.TEXT)


def _quoted(text: Expression) -> Expression:
    return chain("||", string('"'), text, string('"'), kind=Kind.TEXT)


def _merged(pieces: Iterator[str | Expression]) -> list[Expression]:
    """Return the pieces as expressions, constant text next to constant text as one."""
    merged: list[Expression] = []
    constant = ""
    for piece in pieces:
        if isinstance(piece, str):
            constant += piece
            continue
        if constant:
            merged.append(string(constant))
        merged.append(piece)
        constant = ""
    return [*merged, string(constant)] if constant else merged


RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.JSONExtractScalar: value,
    exp.JSONExtract: query,
    exp.JSONExtractArray: json_array,
    exp.JSONValueArray: value_array,
    exp.ParseJSON: parse_json,
    exp.JSONFormat: to_json_string,
    exp.JSONType: json_type,
}
