"""JSON functions over text, which is often not JSON, and over records; a row that does not fit gives NULL."""

from __future__ import annotations

import json
import re
from typing import Final

from sqlglot import exp

from endpoints.dialects.bigquery.coercions import as_json, as_text
from endpoints.dialects.bigquery.kinds import Kind
from endpoints.dialects.bigquery.lowering import Lowering, Rule, text_of
from endpoints.dialects.bigquery.refusals import refusal_of
from endpoints.dialects.bigquery.tree import Constant, Expression
from endpoints.dialects.bigquery.values import TRUE, call, cast, infix, string

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
        raise refusal_of(node, "takes a path such as '$.a.b[0]', written out", construct="the JSON path")
    steps: list[str] = []
    index = 1
    while index < len(text):
        match = _STEP.match(text, index)
        if match is None:
            raise refusal_of(written, "takes a path such as '$.a.b[0]'", construct="the JSON path")
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


def array(node: exp.Expr, lowering: Lowering) -> Expression:
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
    exp.JSONExtractScalar: value,
    exp.JSONExtract: query,
    exp.JSONExtractArray: array,
    exp.JSONValueArray: array,
    exp.ParseJSON: parse_json,
    exp.JSONFormat: to_json_string,
    exp.JSONType: json_type,
}
