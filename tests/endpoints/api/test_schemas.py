"""Schemas of arguments, rows and errors: typed as JSON is, and true to what the service takes and sends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from endpoints.api.schemas import (
    DETAIL_FIELDS,
    argument_description,
    argument_schema,
    arguments_schema,
    column_schema,
    error_codes,
    error_components,
    is_required,
    row_schema,
)
from endpoints.results.outcomes import TimestampForm
from endpoints.sql.parameters import DeclaredParameter, ParameterType, RawValue
from tests.files import cases

NUMBER, INTEGER, LIST = ParameterType.NUMBER, ParameterType.INTEGER, ParameterType.TEXT_LIST


@pytest.mark.parametrize(
    ("type_", "default", "expected"),
    [
        (INTEGER, "400", 400),
        (INTEGER, " +5 ", 5),
        (INTEGER, 7, 7),
        (INTEGER, "9223372036854775807", 2**63 - 1),
        (NUMBER, "0.50", 0.5),
        (NUMBER, "3", 3),
        (NUMBER, "1e3", 1000),
        (ParameterType.BOOLEAN, "yes", True),
        (ParameterType.BOOLEAN, "0", False),
        (ParameterType.TEXT, "400", "400"),
        (ParameterType.DATE, "2025-06-02", "2025-06-02"),
        (ParameterType.TIMESTAMP, "2025-06-02", "2025-06-02T00:00:00.000000Z"),
        (ParameterType.TIMESTAMP, "1748852102", "2025-06-02T08:15:02.000000Z"),
        (ParameterType.UUID, "{5A0C0DE0-0000-4000-8000-000000000001}", "5a0c0de0-0000-4000-8000-000000000001"),
        (LIST, ["a", "b"], ["a", "b"]),
        (LIST, "a", ["a"]),
    ],
)
def test_a_default_has_the_type_of_its_parameter(type_: ParameterType, default: RawValue, expected: object) -> None:
    schema = argument_schema(DeclaredParameter("p", type=type_, default=default))
    assert schema["default"] == expected
    assert type(schema["default"]) is type(expected)
    Draft202012Validator(schema).validate(schema["default"])


@pytest.mark.parametrize("default", [None, "", [], [None, ""]])
def test_an_absent_default_is_none(default: RawValue) -> None:
    assert "default" not in argument_schema(DeclaredParameter("p", default=default))


def test_no_default_is_a_number_that_json_does_not_have() -> None:
    schema = argument_schema(DeclaredParameter("p", type=NUMBER, default="1e400", minimum="-1e400", maximum="0.5e400"))
    assert json.loads(json.dumps(schema, allow_nan=False)) == schema
    assert isinstance(schema["default"], int)


def test_bounds_are_numbers_and_those_of_moments_are_told() -> None:
    integer = argument_schema(DeclaredParameter("p", type=INTEGER, minimum=" +100", maximum="599"))
    assert (integer["minimum"], integer["maximum"]) == (100, 599)
    number = argument_schema(DeclaredParameter("p", type=NUMBER, minimum="0.5"))
    assert number["minimum"] == 0.5
    day = DeclaredParameter("p", type=ParameterType.DATE, minimum="2025-01-01", maximum="2025-12-31")
    assert argument_schema(day) == {"type": "string", "format": "date"}
    assert argument_description(day) == "Not before 2025-01-01. Not after 2025-12-31."


def test_allowed_values_have_the_type_too_and_of_a_list_they_are_those_of_its_elements() -> None:
    assert argument_schema(DeclaredParameter("p", allowed_values=("a", "b")))["enum"] == ["a", "b"]
    assert argument_schema(DeclaredParameter("p", type=INTEGER, allowed_values=("1", "02")))["enum"] == [1, 2]
    several = DeclaredParameter("p", type=LIST, allowed_values=("a", "b"), pattern="[ab]")
    assert argument_schema(several) == {
        "type": "array",
        "items": {"type": "string", "enum": ["a", "b"], "pattern": "^(?:[ab])$"},
    }
    assert argument_schema(DeclaredParameter("q", type=LIST))["items"] == {"type": "string"}
    share = DeclaredParameter("p", type=NUMBER, allowed_values=("0.5", "1"))
    assert "enum" not in argument_schema(share)
    assert argument_description(share) == "One of 0.5, 1."


@pytest.mark.parametrize("pattern", [r"[a-z]+-\d{2}", "(?:a|b)", "(?=a)a", "a|b"])
def test_a_pattern_that_javascript_knows_is_in_the_schema(pattern: str) -> None:
    assert argument_schema(DeclaredParameter("p", pattern=pattern))["pattern"] == f"^(?:{pattern})$"


@pytest.mark.parametrize("pattern", ["(?P<a>b)", "(?i)a", r"\Aa\Z", "a++", "(?#note)a", "(?>a)", "(a)?(?(1)b|c)"])
def test_a_pattern_of_pythons_own_is_told_in_words(pattern: str) -> None:
    parameter = DeclaredParameter("p", pattern=pattern, description="A word.")
    assert "pattern" not in argument_schema(parameter)
    assert argument_description(parameter) == f"A word. Matches {pattern} (Python)."


@pytest.mark.parametrize(
    ("parameter", "bound", "expected"),
    [
        (DeclaredParameter("p", required=True), (), True),
        (DeclaredParameter("p"), (), False),
        (DeclaredParameter("p", required=True, default="a"), (), False),
        (DeclaredParameter("p", required=True, default=""), (), True),
        (DeclaredParameter("p", required=True), ("p",), False),
        (DeclaredParameter("p", required=True), ("q",), True),
    ],
)
def test_what_must_be_sent(parameter: DeclaredParameter, bound: tuple[str, ...], expected: bool) -> None:
    assert is_required(parameter, bound) is expected
    schema = arguments_schema([parameter], bound)
    assert schema.get("required", []) == (["p"] if expected else [])
    assert Draft202012Validator(schema).is_valid({"another": 1}) is not expected


def test_a_bound_parameter_is_optional_and_neither_its_value_nor_a_default_is_told() -> None:
    parameter = DeclaredParameter("project", required=True, default="default", description="Whose rows.")
    schema = arguments_schema([parameter], ["project"])
    assert schema == {
        "type": "object",
        "properties": {
            "project": {
                "type": "string",
                "description": "Whose rows. The access token has a value for it: leave it out.",
            }
        },
    }


@pytest.mark.parametrize(
    ("type_name", "expected"),
    [
        ("bigint", {"type": ["integer", "null"], "format": "int64"}),
        ("boolean", {"type": ["boolean", "null"]}),
        ("character varying(20)", {"type": ["string", "null"]}),
        ("timestamp with time zone", {"type": ["string", "null"], "format": "date-time"}),
        ("timestamp(3) with time zone", {"type": ["string", "null"], "format": "date-time"}),
        ("uuid", {"type": ["string", "null"], "format": "uuid"}),
        ("inet", {"type": ["string", "null"]}),
        ("int4range", {"type": ["string", "null"]}),
    ],
)
def test_a_column_has_its_type_or_null(type_name: str, expected: dict[str, Any]) -> None:
    assert column_schema(type_name) == expected


def test_a_number_with_digits_is_a_number_and_a_json_column_anything() -> None:
    assert column_schema("numeric(10,2)")["type"] == ["number", "null"]
    assert "type" not in column_schema("jsonb")
    array = column_schema("numeric(10,2)[]")
    assert (array["type"], array["items"]["type"]) == (["array", "null"], ["number", "null"])


def test_moments_are_numbers_where_the_endpoint_writes_them_so_but_not_in_arrays() -> None:
    form = TimestampForm.UNIX_MICROSECONDS
    assert column_schema("timestamp with time zone", form)["type"] == ["integer", "null"]
    assert column_schema("timestamp(3) with time zone", form)["type"] == ["integer", "null"]
    assert column_schema("timestamp with time zone[]", form)["items"]["type"] == ["string", "null"]
    assert column_schema("timestamp without time zone", form)["type"] == ["string", "null"]


def test_every_column_of_a_row_is_there_and_a_name_that_two_share_once() -> None:
    columns = [{"name": name, "type": type_} for name, type_ in (("n", "text"), ("m", "text"), ("n", "bigint"))]
    row = row_schema(columns)
    assert row["required"] == ["n", "m"]
    assert row["properties"]["n"]["type"] == ["integer", "null"]


# --- Errors -----------------------------------------------------------------------------------------------------------
def error_validator(**changes: Any) -> Draft202012Validator:
    schemas = error_components()
    schemas["ErrorDetail"] |= changes
    return Draft202012Validator({"$ref": "#/components/schemas/Error", "components": {"schemas": schemas}})


def recorded_errors() -> list[Any]:
    bodies = [json.loads(each["body"]) for each in cases("recorded/answers.jsonl") if each["status"][:1] in "45"]
    assert len(bodies) > 100
    return bodies


def test_every_recorded_error_fits_and_has_no_field_that_is_not_described() -> None:
    validator = error_validator(additionalProperties=False)
    for body in recorded_errors():
        body["error"].setdefault("request_id", "")
        validator.validate(body)


def test_an_error_with_another_code_or_field_does_not_fit() -> None:
    good = {"error": {"code": "invalid_lql", "message": "", "details": [{"line": 1}], "request_id": ""}}
    assert error_validator().is_valid(good)
    assert not error_validator().is_valid({"error": good["error"] | {"code": "no_such_code"}})
    assert not error_validator().is_valid({"error": good["error"] | {"details": [{"line": "one"}]}})
    assert not error_validator().is_valid({"error": {"code": "invalid_lql"}})


def test_codes_are_those_of_every_status() -> None:
    codes = error_codes()
    assert {400, 401, 403, 404, 405, 406, 408, 413, 415, 429, 431, 500, 503, 504} <= set(codes)
    assert codes[504] == ["query_timeout"]
    assert "stored_query_failed" in codes[500]
    assert set(DETAIL_FIELDS) >= {"name", "reason", "line", "column", "allowed_values"}
