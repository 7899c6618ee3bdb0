"""A file's lines, and what one line says."""

from __future__ import annotations

import gzip
import io
import re
from decimal import Decimal

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logsources import ndjson
from logsources.ndjson import MAX_LINE_BYTES, BadJSON, decompressed, parse_line, read_lines


def lines_of(content: bytes) -> list[bytes]:
    return list(read_lines(decompressed(io.BufferedReader(io.BytesIO(content)))))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"a\nb\n", [b"a\n", b"b\n"]),
        (b"a\nb", [b"a\n", b"b"]),
        (b"a\r\n\n b\n", [b"a\r\n", b"\n", b" b\n"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", [b"a\n", b"\xef\xbb\xbfb\n"]),
    ],
)
def test_reads_lines_of_plain_and_compressed_files(content: bytes, lines: list[bytes]) -> None:
    assert lines_of(content) == lines
    assert lines_of(gzip.compress(content)) == lines
    assert lines_of(gzip.compress(content[:2]) + gzip.compress(content[2:])) == lines


def test_a_line_that_is_too_long_is_cut_and_stays_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndjson, "MAX_LINE_BYTES", 10)
    assert lines_of(b"a" * 10 + b"\n" + b"b\n") == [b"a" * 10 + b"\n", b"b\n"]
    assert lines_of(b"a" * 5000 + b"\nb\n" + b"c" * 12) == [b"a" * 11, b"b\n", b"c" * 11]


@pytest.mark.parametrize(
    "content", [gzip.compress(b"a\n" * 100, mtime=0)[:-9], gzip.compress(b"a\n" * 100, mtime=0)[:20]]
)
def test_refuses_gzip_data_that_is_cut_short(content: bytes) -> None:
    with pytest.raises(EOFError):
        lines_of(content)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"a": 1}\n', {"a": 1}),
        (b'{"a": "\\u00e9"}\r\n', {"a": "é"}),
        (b'{"a": 9223372036854775807, "b": 18446744073709551615}', {"a": 2**63 - 1, "b": 2**64 - 1}),
        (b'{"a": 0.1, "b": 1e3, "c": -0.0, "d": 1.10}', {"a": 0.1, "b": 1000.0, "c": -0.0, "d": 1.1}),
        (
            b'{"id": "12345678901234567890", "t": 1748852104201000}',
            {"id": "12345678901234567890", "t": 1748852104201000},
        ),
    ],
)
def test_parses_a_line(line: bytes, value: object) -> None:
    assert parse_line(line) == value


@pytest.mark.parametrize(
    "number",
    ["18446744073709551616", "-9223372036854775809", "123456789012345678901234567890", "0.1234567890123456789",
     "1234567890123456.75", "1e400", "-1e-400", "9007199254740993.0", "1.7976931348623157e309", "1E+131071"],
)  # fmt: skip
def test_keeps_the_digits_of_every_number(number: str) -> None:
    assert orjson.dumps(parse_line(f'{{"a": [{number}]}}'.encode())) == f'{{"a":[{number}]}}'.encode()


@settings(max_examples=200, deadline=None)
@given(
    st.decimals(allow_nan=False, allow_infinity=False, min_value=Decimal("-1e40"), max_value=Decimal("1e40"))
    | st.integers(-(10**40), 10**40),
    st.sampled_from(["[{}]", "[1,{}]", '{{"a":{}}}', '{{"a": {}}}', '["x",\t{}]', "[\n{}]"]),
)
def test_no_number_changes_its_value(number: Decimal | int, place: str) -> None:
    written = orjson.dumps(parse_line(place.format(number).encode())).decode()
    digits = re.search(r"-?\d[\d.eE+-]*$", written.rstrip("]}"))
    assert digits is not None
    assert Decimal(digits.group()) == Decimal(number)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"{", "not JSON"),
        (b'{"a" 1}', "not JSON: Expecting ':' delimiter (column 6)"),
        (b'{"a": 1} {"b": 2}', "not JSON: Extra data (column 10)"),
        (b'{"a": NaN}', "not JSON: it contains NaN"),
        (b'{"a": -Infinity}', "not JSON: it contains -Infinity"),
        (b'{"a": "\x01"}', "not JSON: Invalid control character at (column 8)"),
        (b'{"a": "\xff"}', "not UTF-8 (byte 8)"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a": 1e131072}', "beyond PostgreSQL's range"),
        (b'{"a": 1e-16384}', "beyond PostgreSQL's range"),
        (b'{"a": 1e99999999999999999999}', "beyond PostgreSQL's range"),
        (b'"' + b"a" * MAX_LINE_BYTES + b'"', "longer than 8 MiB"),
    ],
)
def test_refuses_a_line_with_the_reason(line: bytes, expected: str) -> None:
    with pytest.raises(BadJSON) as refused:
        parse_line(line)
    assert expected in refused.value.reason


def test_a_reason_never_quotes_the_line() -> None:
    for line in (b'{"password": "hunter2"', b"hunter2", b'{"hunter2": "\\q"}', b'{"a": "hunter2\xff"}'):
        with pytest.raises(BadJSON) as refused:
            parse_line(line)
        assert "hunter2" not in refused.value.reason
