"""What a call's arguments are read from is bounded in number, and read in one pass."""

from __future__ import annotations

import json

import pytest

from endpoints.api.arguments import FORM, JSON, read_body, read_query_string
from endpoints.errors import InvalidRequest
from endpoints.sql.coercion import ParameterType, canonical_text


def members(names: int, *, each: int = 1) -> bytes:
    return ("{" + ",".join(f'"n{index % names}":1' for index in range(names * each)) + "}").encode()


def test_a_thousand_members_are_read_and_no_more() -> None:
    assert len(read_body(JSON, members(1000)).values) == 1000
    assert len(read_query_string("&".join(f"n{index}=1" for index in range(1000)).encode()).values) == 1000


@pytest.mark.parametrize("body", [members(1001), members(90_000), members(1, each=90_000), members(30_000, each=3)])
def test_more_members_are_refused_whatever_their_names(body: bytes) -> None:
    """650 kB of them, each compared with each other, would take minutes."""
    with pytest.raises(InvalidRequest, match="A request may have at most 1000 arguments"):
        read_body(JSON, body)
    with pytest.raises(InvalidRequest, match="A request may have at most 1000 arguments"):
        read_body(JSON, b'{"a":[{"b":' + body + b"}]}")


def test_more_fields_of_a_form_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="A request may have at most 1000 arguments"):
        read_body(FORM, b"a=1&" * 200_000)


def test_a_byte_order_mark_before_json_is_skipped() -> None:
    assert read_body(JSON, b'\xef\xbb\xbf{"a": 1}').values == {"a": 1}
    with pytest.raises(InvalidRequest, match="not JSON"):
        read_body(JSON, b'{\xef\xbb\xbf"a": 1}')


@pytest.mark.parametrize(
    ("of_body", "of_query_string", "values"),
    [
        ({"x": 1}, b"x=", {"x": 1}),
        ({"x": 1}, b"x=&x=", {"x": ["", ""]}),
        ({"x": 1}, b"x=2", {"x": "2"}),
        ({"x": ""}, b"x=2", {"x": "2"}),
        ({}, b"x=", {"x": ""}),
        ({"x": ["a", "b"]}, b"x=&y=1", {"x": ["a", "b"], "y": "1"}),
    ],
)
def test_an_empty_argument_overrides_none(
    of_body: dict[str, object], of_query_string: bytes, values: dict[str, object]
) -> None:
    body = read_body(JSON, json.dumps(of_body).encode())
    assert body.overridden_by(read_query_string(of_query_string)).values == values


def test_members_given_twice_are_each_named_once() -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_body(JSON, b'{"b": 1, "a": 1, "b": 2, "c": 3, "a": 2, "b": 3}')
    assert [detail["name"] for detail in refused.value.details] == ["a", "b"]


@pytest.mark.parametrize("digits", ["9" * 4_301, "-" + "9" * 500_000, "[" * 500_000, '{"a":' * 200_000])
def test_numbers_and_nesting_without_end_are_refused(digits: str) -> None:
    with pytest.raises(InvalidRequest):
        read_body(JSON, f'{{"project": {digits}}}'.encode())


def test_a_fraction_of_thousands_of_digits_is_read_as_it_is() -> None:
    value = read_body(JSON, json.dumps({"level": 0}).encode().replace(b"0", b"0." + b"1" * 100_000)).values["level"]
    assert len(str(value)) == 100_002


@pytest.mark.parametrize(
    "digits",
    [
        "1E2", "1e2", "1e+2", "1E-2", "1.0", "1.10", "0.0", "-0", "-0.0", "-0e0", "1", "-7",
        "12345678901234567890123456789", "1234567890.12345678901234567890", "0.0000001", "1E400",
    ],
)  # fmt: skip
def test_a_number_for_a_text_parameter_arrives_as_it_was_sent(digits: str) -> None:
    for body, taken in ((digits, None), (f"[{digits}]", 0)):
        value = read_body(JSON, f'{{"a": {body}}}'.encode()).values["a"]
        assert canonical_text(ParameterType.TEXT, value if taken is None else value[0]) == digits


@pytest.mark.parametrize(
    ("type_", "digits", "canonical"),
    [
        (ParameterType.INTEGER, "1E2", "100"),
        (ParameterType.INTEGER, "5.0", "5"),
        (ParameterType.INTEGER, "-0", "0"),
        (ParameterType.NUMBER, "1E2", "100"),
        (ParameterType.NUMBER, "-0", "0"),
        (ParameterType.NUMBER, "1.10", "1.1"),
        (ParameterType.TIMESTAMP, "1748852102.5", "2025-06-02T08:15:02.500000Z"),
        (ParameterType.TIMESTAMP, "1.7488521E+12", "2025-06-02T08:15:00.000000Z"),
    ],
)
def test_a_number_for_another_type_is_its_value(type_: ParameterType, digits: str, canonical: str) -> None:
    assert canonical_text(type_, read_body(JSON, f'{{"a": {digits}}}'.encode()).values["a"]) == canonical
