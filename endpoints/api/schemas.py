"""JSON Schema (2020-12) of what goes in and out of endpoints: arguments, rows, the one error body. Pure: no I/O.

The OpenAPI document is made of them. A schema of an argument allows nothing that the service refuses; the service also
accepts forms that no schema names, such as Unix times (endpoints.sql.coercion).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from endpoints.errors import EndpointError
from endpoints.results.outcomes import TimestampForm
from endpoints.sql.coercion import canonical_text, canonical_value, is_absent
from endpoints.sql.parameters import DeclaredParameter, ParameterType

Schema = dict[str, Any]
SCHEMAS: Final = "#/components/schemas/"  # of the OpenAPI document

# --- Arguments --------------------------------------------------------------------------------------------------------
_PARAMETER_TYPES: Final[Mapping[ParameterType, Schema]] = {
    ParameterType.TEXT: {"type": "string"},
    ParameterType.INTEGER: {"type": "integer", "format": "int64"},
    ParameterType.NUMBER: {"type": "number"},
    ParameterType.BOOLEAN: {"type": "boolean"},
    ParameterType.TIMESTAMP: {"type": "string", "format": "date-time"},
    ParameterType.DATE: {"type": "string", "format": "date"},
    ParameterType.UUID: {"type": "string", "format": "uuid"},
    ParameterType.TEXT_LIST: {"type": "array", "items": {"type": "string"}},
}
_NUMBERS: Final = frozenset({ParameterType.INTEGER, ParameterType.NUMBER})
# Most programming languages have no enumerations of fractions and truth values, and generators leave the operation out.
_WITHOUT_ENUM: Final = frozenset({ParameterType.NUMBER, ParameterType.BOOLEAN})
# What Python's regular expressions have and ECMA-262's, which JSON Schema names, do not: named groups in Python's
# way, flags, comments, conditions, atomic groups, possessive quantifiers, and the ends of the text.
_PYTHON_ONLY: Final = re.compile(r"\(\?(?:P|#|\(|>|[aiLmsux-])|[*+?}]\+|\\[AZ]")
_BOUND: Final = "The access token has a value for it: leave it out."


def is_required(parameter: DeclaredParameter, bound: Collection[str] = ()) -> bool:
    """Tell whether a call must send the parameter; the access token has arguments for the `bound` names."""
    return parameter.required and is_absent(parameter.default) and parameter.name not in bound


def argument_schema(parameter: DeclaredParameter) -> Schema:
    """Return the schema of one argument, with its default, allowed values and range as JSON values of its type."""
    schema = dict(_PARAMETER_TYPES[parameter.type])
    single = dict(schema["items"]) if parameter.type is ParameterType.TEXT_LIST else schema
    if parameter.allowed_values and parameter.type not in _WITHOUT_ENUM:
        single["enum"] = [_json_value(parameter.type, text) for text in parameter.allowed_values]
    if parameter.pattern and not _PYTHON_ONLY.search(parameter.pattern):
        single["pattern"] = f"^(?:{parameter.pattern})$"
    if single is not schema:
        schema["items"] = single
    if parameter.type in _NUMBERS:
        bounds = {"minimum": parameter.minimum, "maximum": parameter.maximum}
        schema |= {name: _json_value(parameter.type, text) for name, text in bounds.items() if text is not None}
    default = _default(parameter)
    return schema if default is None else schema | {"default": default}


def argument_description(parameter: DeclaredParameter, bound: Collection[str] = ()) -> str:
    """Return what the operator says of a parameter, and the rules that its schema cannot express."""
    return " ".join(filter(None, (parameter.description, *_unexpressed(parameter, bound))))


def arguments_schema(parameters: Iterable[DeclaredParameter], bound: Collection[str] = ()) -> Schema:
    """Return the schema of a JSON object of arguments, for an access token with arguments for the `bound` names.

    Names that the endpoint does not have are ignored, so the object may have others.
    """
    declared = tuple(parameters)
    schema: Schema = {
        "type": "object",
        "properties": {each.name: _described(each, bound) for each in declared},
    }
    required = [each.name for each in declared if is_required(each, bound)]
    return schema | {"required": required} if required else schema


def _described(parameter: DeclaredParameter, bound: Collection[str]) -> Schema:
    schema, description = query_schema(parameter, bound), argument_description(parameter, bound)
    return schema | {"description": description} if description else schema


def query_schema(parameter: DeclaredParameter, bound: Collection[str] = ()) -> Schema:
    """Return the schema of an argument for this access token: what it is bound to takes the place of the default."""
    schema = argument_schema(parameter)
    if parameter.name in bound:
        schema.pop("default", None)
    return schema


def _unexpressed(parameter: DeclaredParameter, bound: Collection[str]) -> Iterator[str]:
    if parameter.name in bound:
        yield _BOUND
    if parameter.type is ParameterType.TIMESTAMP:
        yield "ISO 8601, or a Unix time of 10, 13, 16 or 19 digits."
    if parameter.allowed_values and parameter.type in _WITHOUT_ENUM:
        yield f"One of {', '.join(parameter.allowed_values)}."
    if parameter.type.is_ordered and parameter.type not in _NUMBERS:
        if parameter.minimum is not None:
            yield f"Not before {parameter.minimum}."
        if parameter.maximum is not None:
            yield f"Not after {parameter.maximum}."
    if parameter.pattern and _PYTHON_ONLY.search(parameter.pattern):
        yield f"Matches {parameter.pattern} (Python)."


def _default(parameter: DeclaredParameter) -> Any:
    if is_absent(parameter.default):
        return None
    value = canonical_value(parameter.type, parameter.default)
    return value if isinstance(value, list) else _json_value(parameter.type, value)


def _json_value(type_: ParameterType, text: str) -> Any:
    """Return a declared value as JSON has it."""
    canonical = canonical_text(type_, text)
    match type_:
        case ParameterType.INTEGER:
            return int(canonical)
        case ParameterType.NUMBER if "." not in canonical:
            return int(canonical)
        case ParameterType.NUMBER:
            return float(canonical)  # finite: more digits before the point than a double has leave none behind it
        case ParameterType.BOOLEAN:
            return canonical == "true"
        case _:
            return canonical


# --- Rows -------------------------------------------------------------------------------------------------------------
_NOT_FINITE: Final = 'NaN and the infinities come as texts: "NaN", "Infinity", "-Infinity".'
_UNIX_MICROSECONDS: Final[Schema] = {
    "type": "integer",
    "format": "int64",
    "description": "Microseconds since 1970, UTC.",
}
# By PostgreSQL's name of the type without its modifier; every other type is written as text. endpoints.results.encoding
# has the values.
_COLUMN_TYPES: Final[Mapping[str, Schema]] = {
    "smallint": {"type": "integer", "format": "int32"},
    "integer": {"type": "integer", "format": "int32"},
    "bigint": {"type": "integer", "format": "int64"},
    "oid": {"type": "integer", "format": "int64"},
    "numeric": {"type": "number", "description": _NOT_FINITE},
    "real": {"type": "number", "description": _NOT_FINITE},
    "double precision": {"type": "number", "description": _NOT_FINITE},
    "boolean": {"type": "boolean"},
    "jsonb": {"description": "Any JSON value."},
    "json": {"description": "Any JSON value."},
    "timestamp with time zone": {"type": "string", "format": "date-time"},
    "timestamp without time zone": {"type": "string", "description": "ISO 8601 without a zone."},
    "date": {"type": "string", "format": "date"},
    "uuid": {"type": "string", "format": "uuid"},
    "bytea": {"type": "string", "contentEncoding": "base64"},
    "interval": {"type": "string", "description": "An ISO 8601 duration."},
}
_MODIFIER: Final = re.compile(r"\([^)]*\)")


def row_schema(columns: Sequence[Mapping[str, str]], timestamps_as: str = TimestampForm.ISO) -> Schema:
    """Return the schema of a row of a stored query: every column is there, and each may be null."""
    properties = {column["name"]: column_schema(column["type"], timestamps_as) for column in columns}
    return {"type": "object", "properties": properties, "required": list(properties)}


def column_schema(type_name: str, timestamps_as: str = TimestampForm.ISO) -> Schema:
    """Return the schema of a value of this type, as PostgreSQL's format_type() writes it."""
    base, is_array, _ = _MODIFIER.sub("", type_name).partition("[]")
    element = dict(_COLUMN_TYPES.get(base, {"type": "string"}))
    if is_array:
        return {"type": ["array", "null"], "items": _or_null(element), "description": "Nested for more dimensions."}
    if base == "timestamp with time zone" and timestamps_as == TimestampForm.UNIX_MICROSECONDS:
        element = dict(_UNIX_MICROSECONDS)
    return _or_null(element)


def _or_null(schema: Schema) -> Schema:
    return schema | {"type": [schema["type"], "null"]} if "type" in schema else schema


# --- Errors -----------------------------------------------------------------------------------------------------------
_TEXTS: Final[Schema] = {"type": "array", "items": {"type": "string"}}
_PLACE: Final[Schema] = {"type": "integer", "minimum": 1}
# Each field of a detail, of any error; a detail has those that say something.
DETAIL_FIELDS: Final[Mapping[str, Schema]] = {
    "name": {"type": "string", "description": "The parameter."},
    "reason": {"type": "string"},
    "allowed_values": _TEXTS,
    "minimum": {"type": "string"},
    "maximum": {"type": "string"},
    "pattern": {"type": "string"},
    "line": _PLACE | {"description": "In the text that was sent, from 1."},
    "column": _PLACE | {"description": "In its line, from 1."},
    "construct": {"type": "string", "description": "What a sandbox query may not use."},
    "tables": _TEXTS | {"description": "The tables that a sandbox query may read."},
    "similar": _TEXTS,
    "found": {"type": "string"},
    "expected": _TEXTS,
    "hint": {"type": "string"},
    "media_type": {"type": "string", "description": "One that is available."},
    "limit": {"type": "string", "description": "The limit of the access token that is reached."},
    "value": {"type": "number", "description": "Its value: what the access token is allowed."},
    "remaining": {"type": "integer", "minimum": 0, "description": "What is left of it."},
    "window_seconds": {"type": "integer", "minimum": 1, "description": "For how long it counts; not for `…_at_once`."},
    "retry_after_seconds": {"type": "integer", "minimum": 0},
    "index": {"type": "integer", "minimum": 0, "description": "The row of a load, from 0."},
}


def error_codes() -> dict[int, list[str]]:
    """Return the codes of each status, in order."""
    codes: dict[int, set[str]] = {}
    for kind in _kinds(EndpointError):
        codes.setdefault(kind.status, set()).add(kind.code)
    return {status: sorted(codes[status]) for status in sorted(codes)}


def _kinds(kind: type[EndpointError]) -> Iterator[type[EndpointError]]:
    if "code" in vars(kind):
        yield kind
    for child in kind.__subclasses__():
        yield from _kinds(child)


def error_components() -> dict[str, Schema]:
    """Return the one error body of the service (service.md section 3) and its parts, by the names they refer to."""
    return {
        "Error": {"type": "object", "required": ["error"], "properties": {"error": reference("Problem")}},
        "Problem": {
            "type": "object",
            "required": ["code", "message", "details", "request_id"],
            "properties": {
                "code": reference("ErrorCode"),
                "message": {"type": "string", "description": "For people; its wording may improve."},
                "details": {"type": "array", "items": reference("ErrorDetail")},
                "request_id": {"type": "string", "description": "Also in the log of the service."},
            },
        },
        "ErrorCode": {"type": "string", "enum": sorted({code for codes in error_codes().values() for code in codes})},
        "ErrorDetail": {"type": "object", "properties": dict(DETAIL_FIELDS)},
    }


def reference(name: str) -> Schema:
    """Return the reference to a schema of the OpenAPI document."""
    return {"$ref": f"{SCHEMAS}{name}"}
