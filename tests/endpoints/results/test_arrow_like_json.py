"""The same rows as JSON and as columns with types say the same, whatever the values are."""

from __future__ import annotations

import json
import math
import struct
from base64 import b64encode
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.log_database.execution import run_statement
from endpoints.log_database.sessions import ReaderSession
from endpoints.results.encoding import BINARY_FORMATS, encode_rows
from endpoints.results.outcomes import ResultFormat, Rows, Statement
from logsources.roles import QUERY_READER
from tests import files
from tests.endpoints.results.test_arrow import read

pytestmark = pytest.mark.django_db
SESSION = ReaderSession(role=QUERY_READER, search_path="logs", statement_timeout_seconds=30, tenant="")


# --- Values, as PostgreSQL reads them ---------------------------------------------------------------------------------
def integers(bits: int) -> st.SearchStrategy[str]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1).map(str)


def decimals(digits: int) -> st.SearchStrategy[str]:
    return st.decimals(allow_nan=False, allow_infinity=False, places=digits).map("{:f}".format)


TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), min_size=1, max_size=12)
ADDRESSES = st.sampled_from(["192.0.2.7", "a@example.org", "2001:db8::1", "fe80::1%eth0", "1.2.3", "::"])
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | TEXT.filter(lambda text: "\\" not in text) | ADDRESSES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
).map(json.dumps)
MOMENTS = st.datetimes().map(lambda moment: moment.isoformat(sep=" "))

VALUES = {
    "bool": st.sampled_from(["true", "false"]),
    "int2": integers(16),
    "int4": integers(32),
    "int8": integers(64),
    "float4": st.floats(width=32).map(str) | st.sampled_from(["NaN", "-Infinity"]),
    "float8": st.floats().map(str),
    "numeric": decimals(3) | integers(100) | st.sampled_from(["NaN", "0.1", "-0.000000000000000000001"]),
    "numeric(9,4)": st.decimals(-99999, 99999, places=4, allow_nan=False).map("{:f}".format) | st.just("NaN"),
    "timestamptz": MOMENTS | st.sampled_from(["infinity", "0044-03-15 12:00 BC", "12025-01-01"]),
    "timestamp": MOMENTS | st.just("-infinity"),
    "date": st.dates().map(str) | st.just("infinity"),
    "time": st.times().map(str) | st.just("24:00"),
    "interval": integers(20).map("{} seconds".format),
    "text": TEXT | ADDRESSES,
    "inet": st.ip_addresses().map(str),
    "uuid": st.uuids().map(str),
    "jsonb": DOCUMENTS,
    "json": DOCUMENTS,
    "bytea": st.binary(max_size=8).map(lambda plain: "\\x" + plain.hex()),
}


def literal(values: list[str | None]) -> str:
    """Return PostgreSQL's text of an array."""
    quoted = ('"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if value else "NULL" for value in values)
    return "{" + ",".join(quoted) + "}"


@st.composite
def columns(draw: st.DrawFn) -> list[tuple[str, list[str]]]:
    """Types, each with as many values as the others; "" is NULL."""
    count = draw(st.integers(0, 6))
    drawn = []
    for type_ in draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4)):
        value: st.SearchStrategy[str] = VALUES[type_]
        if draw(st.booleans()):
            type_ += "[]"
            value = st.lists(st.none() | value, max_size=3).map(literal)
        drawn.append((type_, draw(st.lists(st.just("") | value, min_size=count, max_size=count))))
    return drawn


def selected(drawn: list[tuple[str, list[str]]]) -> Rows:
    names = [f"c{number}" for number in range(len(drawn))]
    outputs = ", ".join(f"nullif({name}, '')::{type_} AS {name}" for name, (type_, _) in zip(names, drawn, strict=True))
    unnested = ", ".join(f"${number}::text[]" for number in range(1, len(drawn) + 1))
    sql = f"SELECT {outputs} FROM unnest({unnested}) AS values ({', '.join(names)})"
    return run_statement(Statement(sql, tuple(values for _, values in drawn)), SESSION, max_rows=100)


# --- Comparing --------------------------------------------------------------------------------------------------------
class Number(str):
    """A JSON number with its digits."""

    __slots__ = ()


def agree(in_json: Any, in_column: Any, type_: pa.DataType, *, written: str) -> bool:
    """Tell whether a value of JSON is that of a column, both of the PostgreSQL type `written`."""
    if in_column is None:
        return in_json is None
    if pa.types.is_list(type_):
        pairs = zip(in_json, in_column, strict=True)
        return all(agree(one, other, type_.value_type, written=written) for one, other in pairs)
    # Besides JSON, a column of arrays may have become text.
    if pa.types.is_string(type_) and (written.startswith("json") or isinstance(in_json, list)):
        return repr(numbers_kept(in_column)) == repr(in_json)
    return is_same(in_json, in_column, is_short=pa.types.is_float32(type_))


def is_same(in_json: Any, in_column: Any, *, is_short: bool) -> bool:
    """Tell whether a value of JSON is this one of a column; `is_short` for a float of four bytes."""
    match in_column:
        case str() | bool():
            return in_column == in_json
        case bytes():
            return b64encode(in_column).decode() == in_json
        case int() | Decimal():
            return Decimal(in_json) == in_column
        case float():
            code = "f" if is_short else "d"
            same = struct.pack(code, float(in_json)) == struct.pack(code, in_column)
            return same or (math.isnan(in_column) and in_json == "NaN")
        case datetime():
            text = in_column.replace(tzinfo=None).isoformat(timespec="microseconds")
            return text + ("Z" if in_column.tzinfo else "") == in_json
        case date():
            return in_column.isoformat() == in_json
        case time():
            text = in_column.isoformat()
            return (text.rstrip("0") if "." in text else text) == in_json
    raise AssertionError(f"No value of a column is {in_column!r}.")


def numbers_kept(text: str | bytes) -> Any:
    return json.loads(text, parse_int=Number, parse_float=Number)


@settings(deadline=None, max_examples=150)
@given(columns(), st.booleans())
def test_columns_say_what_json_says(drawn: list[tuple[str, list[str]]], redact: bool) -> None:
    if redact:  # readable bytes are hidden in columns; JSON has them encoded
        drawn = [(type_, values) for type_, values in drawn if not type_.startswith("bytea")] or [("text", ["x"])]
    rows = selected(drawn)
    documents = numbers_kept(encode_rows(rows, ResultFormat.JSON, redact=redact))["result"]
    for result_format in BINARY_FORMATS:
        table = read(encode_rows(rows, result_format, redact=redact), result_format)
        assert table.num_rows == len(documents)
        for name, (written, _) in zip(rows.columns, drawn, strict=True):
            values = table[name].to_pylist()
            for document, value in zip(documents, values, strict=True):
                both = (document[name], value)
                assert agree(*both, table[name].type, written=written) or is_json_null(*both, written), both


def is_json_null(in_json: Any, in_column: Any, written: str) -> bool:
    """JSON has one null, columns have NULL and the text null."""
    return in_json is None and in_column == "null" and written.startswith("json")


def test_every_case_of_redaction_is_redacted_alike() -> None:
    texts = [case["text"] for case in files.cases("redaction.jsonl") if "\x00" not in case["text"]]
    sql = "SELECT text, to_jsonb(text) AS json, array[text] AS list FROM unnest($1::text[]) AS cases (text)"
    rows = run_statement(Statement(sql, (texts,)), SESSION, max_rows=len(texts))
    documents = json.loads(encode_rows(rows, ResultFormat.JSON, redact=True))["result"]
    for result_format in BINARY_FORMATS:
        table = read(encode_rows(rows, result_format, redact=True), result_format)
        assert [{**row, "json": json.loads(row["json"])} for row in table.to_pylist()] == documents
