"""The rows of one body: its form, and what stands in place of a row that cannot be read."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logsources.json_batches import TooManyRows, read_rows
from logsources.ndjson import BadJSON, may_lose_digits, parse_line

LONG = b'{"n": 0.1234567890123456789}'  # which only the exact parser keeps


def shown(rows: list[Any]) -> list[Any]:
    """Return the rows with the reasons of bad ones, and digits as they are written."""
    return [row.reason if isinstance(row, BadJSON) else orjson.dumps(row) for row in rows]


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        (b"[]", []),
        (b"[ ]", []),
        (b'[{"a": 1}]', [b'{"a":1}']),
        (b'\xef\xbb\xbf [{"a": 1} , 2,"x"]\n', [b'{"a":1}', b"2", b'"x"']),
        (b"[" + LONG + b" , 1]", [LONG.replace(b" ", b""), b"1"]),
        (b'{"a": 1}', [b'{"a":1}']),
        (b'{"a": 1}\n{"a": 2}', [b'{"a":1}', b'{"a":2}']),
        (b'\r\n{"a": 1}\r\n\r\n{"a": 2}\r\n', [b'{"a":1}', b'{"a":2}']),
        (b'{\n"a":\n1\n}', [b'{"a":1}']),
        (b'{"a": 1}\n[2]', [b'{"a":1}', b"[2]"]),
        (b'{"batch": []}', []),
        (b' {\n"batch" : [{"a": 1}, 2]\n}\n', [b'{"a":1}', b"2"]),
        (b'{"batch":[{"a":1}],"source":"s"}', [b'{"a":1}']),
        (b'{"batch":[' + LONG + b" , 1]}", [LONG.replace(b" ", b""), b"1"]),
        (b'{"a":1,"batch":[2]}', [b'{"a":1,"batch":[2]}']),
        (b'{"batch":{"a":1}}', [b'{"batch":{"a":1}}']),
    ],
)
def test_reads_each_form(body: bytes, rows: list[bytes]) -> None:
    assert shown(read_rows(body)) == rows


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        (b'[1, {"a": NaN}, 2]', [b"1", "it is not JSON: it contains NaN", b"2"]),
        (b'[{"a": 1e131072}]', ["it contains a number beyond PostgreSQL's range"]),
        (b"[" + b"9" * 5000 + b'e99999999, "\\ud800"]', ["it contains a number beyond PostgreSQL's range", None]),
        (b"{}\nx\n{}", [b"{}", "the line is not JSON: Expecting value (column 1)", b"{}"]),
        (
            b"{\n}\nx",
            ["the line is not JSON: Expecting property name enclosed in double quotes (column 2)", None, None],
        ),
    ],
)
def test_puts_the_reason_in_place_of_a_row(body: bytes, rows: list[Any]) -> None:
    for row, expected in zip(read_rows(body), rows, strict=True):
        if isinstance(expected, str):
            assert isinstance(row, BadJSON)
            assert row.reason == expected
        elif expected is not None:
            assert orjson.dumps(row) == expected


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "the body is empty"),
        (b"\xef\xbb\xbf\n ", "the body is empty"),
        (b"[", "the body is not JSON: Expecting value (line 1, column 2)"),
        (b"[1", "the body is not JSON: Expecting ',' delimiter (line 1, column 3)"),
        (b"[1,\n]", "the body is not JSON: Expecting value (line 2, column 1)"),
        (b"[1]2", "the body is not JSON: Extra data (line 1, column 4)"),
        (b"[]]", "the body is not JSON: Extra data (line 1, column 3)"),
        (b"[1}", "the body is not JSON: Expecting ',' delimiter (line 1, column 3)"),
        (b'["\xff"]', "the body is not UTF-8 (byte 3)"),
        (b"[" * 100_000, "the body is nested too deeply"),
    ],
    ids=lambda value: repr(value[:12]),
)
def test_refuses_a_body_whose_rows_nobody_can_tell_apart(body: bytes, reason: str) -> None:
    with pytest.raises(BadJSON) as refused:
        read_rows(body)
    assert refused.value.reason == reason


NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,21})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)


@settings(max_examples=300, deadline=None)
@given(number=NUMBERS)
def test_no_number_loses_digits_unnoticed(number: str) -> None:
    text = f'{{"n":{number}}}'.encode()
    if may_lose_digits(text):
        return
    try:
        quick = orjson.loads(text)["n"]
    except orjson.JSONDecodeError:  # too large for it, which it says
        return
    exact = json.loads(text, parse_float=str)["n"]
    if isinstance(exact, int):
        assert quick == exact
        assert isinstance(quick, int)
    else:
        assert quick == float(exact)
        assert len([digit for digit in exact.lower().partition("e")[0] if digit.isdigit()]) <= 15


@pytest.mark.parametrize("number", ["1748852110120450", "999999999999999999", "-999999999999999999"])
def test_microseconds_need_no_second_look(number: str) -> None:
    assert not may_lose_digits(f'{{"time":{number},"x":"0000000000000000"}}'.encode())


@pytest.mark.parametrize("number", ["1234567890123456789", "123456789012345.6", "1234567890123456e1", "1e-100"])
def test_what_a_float_may_not_hold_is_looked_at_again(number: str) -> None:
    assert may_lose_digits(f"[1748852110120450,{number}]".encode())


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
            max_leaves=6,
        ),
        min_size=1,
    ),
    st.booleans(),
)
def test_an_array_reads_like_its_items_as_lines(values: list[Any], spaced: bool) -> None:
    lines = [json.dumps(value).encode() for value in values]
    array = b"[" + (b" ,\n " if spaced else b",").join(lines) + b"]"
    expected = []
    for line in lines:
        try:
            expected.append(orjson.dumps(parse_line(line)))
        except (TypeError, orjson.JSONEncodeError):  # a lone surrogate, which JSON text may hold
            return
    assert shown(read_rows(array)) == expected


FRAGMENTS = st.sampled_from(
    [
        *(b"[", b"]", b"{", b"}", b",", b":", b'"', b"\\", b"\\u", b"\\ud800", b"\n", b" ", b"\xff", b"\x00"),
        *(b'"a":', b"1", b"-", b"1e9999", b"9" * 5000, b"NaN", b"null", b'{"a":1}', b"\xef\xbb\xbf"),
        *(b"[" * 2000, b'{"a":' * 2000),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(FRAGMENTS | st.binary(max_size=3), max_size=12).map(b"".join), st.booleans())
def test_any_bytes_are_rows_or_refused(body: bytes, in_array: bool) -> None:
    try:
        rows = read_rows(b"[" + body if in_array else body)
    except BadJSON:
        return
    assert isinstance(rows, list)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"[1,2,3]", "rows"),
        (b"{}\n{}\n{}", "lines"),
        (b"{}\n\n\n\n{}", "lines"),
        (b'[{"a": [' + b"[]," * 30 + b"[]]}]", "values"),
        (b'{"a": ' * 21 + b"1" + b"}" * 21, "values"),
        (b'{"a": "' + b'\\"' * 9 + b'", "b": [' + b"1," * 20 + b"1]}", "values"),
        (b'"never closed\n[' + b"1," * 20 + b"1]", "values"),
    ],
)
def test_refuses_more_than_it_shall_read_before_it_reads(body: bytes, what: str) -> None:
    with pytest.raises(TooManyRows) as refused:
        read_rows(body, max_rows=2)
    assert (refused.value.limit, refused.value.what) == (20 if what == "values" else 2, what)


@pytest.mark.parametrize(
    "body", [b"[1,2]", b"{}\n{}", b'[{"a": "' + b",[{" * 100 + b'"}]', b'{"a": "' + b'\\",' * 100 + b'"}\n{}']
)
def test_reads_as_much_as_it_shall(body: bytes) -> None:
    assert len(read_rows(body, max_rows=2)) <= 2


@pytest.mark.parametrize("begin", [b'"', b'"\\', b'\\"', b'""'])
def test_counts_values_in_one_pass_over_strings(begin: bytes) -> None:
    """A string without an end, begun anew at each of its bytes, would take minutes."""
    with pytest.raises(TooManyRows):
        read_rows(b"[" + begin + b'\\",' * 400_000 + b"\n" + b"1," * 2_000_000, max_rows=2)
