"""Every PostgreSQL type in its documented JSON form, from a real server."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace

import orjson
import pytest

from endpoints.log_database.execution import run_statement
from endpoints.log_database.sessions import ReaderSession
from endpoints.results.encoding import BINARY_FORMATS, CHUNK_ROWS, STREAMED_FORMATS, encode_chunks, encode_rows
from endpoints.results.outcomes import FIELD, OverBudget, ResultFormat, Rows, Statement
from logsources.roles import QUERY_READER
from tests.files import cases

pytestmark = pytest.mark.django_db
SESSION = ReaderSession(role=QUERY_READER, search_path="logs", statement_timeout_seconds=5, tenant="")

TEXT_FORMATS = sorted(set(ResultFormat) - BINARY_FORMATS)  # the others: test_arrow
JSON_FORMS = [
    ("timestamptz '2025-06-02 10:15:02.12+02'", '"2025-06-02T08:15:02.120000Z"'),
    ("timestamptz '2025-06-02 08:15:02'", '"2025-06-02T08:15:02.000000Z"'),
    ("timestamptz '2025-06-02 08:15:02.123456Z'", '"2025-06-02T08:15:02.123456Z"'),
    ("timestamptz 'infinity'", '"infinity"'),
    ("timestamptz '-infinity'", '"-infinity"'),
    ("timestamptz '0044-03-15 12:00:00Z BC'", '"0044-03-15 12:00:00+00 BC"'),
    ("timestamptz '0044-03-15 12:00:00.123Z BC'", '"0044-03-15 12:00:00.123+00 BC"'),
    ("timestamptz '12025-06-02 08:15:02.12345Z'", '"12025-06-02 08:15:02.12345+00"'),
    ("timestamptz '2025-06-02 08:15:02.123456Z'", '"2025-06-02T08:15:02.123456Z"'),
    ("timestamptz '12025-06-02 08:15:02Z'", '"12025-06-02 08:15:02+00"'),
    ("timestamp '2025-06-02 08:15:02.5'", '"2025-06-02T08:15:02.500000"'),
    ("timestamp 'infinity'", '"infinity"'),
    ("date '2025-06-02'", '"2025-06-02"'),
    ("date 'infinity'", '"infinity"'),
    ("time '08:15:02.5'", '"08:15:02.5"'),
    ("timetz '08:15:02+02'", '"08:15:02+02"'),
    ("1::smallint", "1"),
    ("9223372036854775807::bigint", "9223372036854775807"),
    ("1.10::numeric", "1.10"),
    ("123456789012345678901234567890.123456789::numeric", "123456789012345678901234567890.123456789"),
    ("'NaN'::numeric", '"NaN"'),
    ("'Infinity'::numeric", '"Infinity"'),
    ("0.1::float8", "0.1"),
    ("1e300::float8", "1e+300"),
    ("'NaN'::float8", '"NaN"'),
    ("'-Infinity'::float4", '"-Infinity"'),
    ("true", "true"),
    ("null::text", "null"),
    ("null::jsonb", "null"),
    ("'ü\"\\ \t'::text", '"ü\\"\\\\ \\t"'),
    ('\'{"b": [1.10, {"a": null}], "a": "x"}\'::jsonb', '{"a": "x", "b": [1.10, {"a": null}]}'),
    ("'12345678901234567890123.4560'::jsonb", "12345678901234567890123.4560"),
    ("'{\"a\" :\n 1}'::json", '{"a" :  1}'),
    ("'3C1F7E0A-6B52-4D0E-9A77-2F1F0C9B8E11'::uuid", '"3c1f7e0a-6b52-4d0e-9a77-2f1f0c9b8e11"'),
    ("'\\x00ff10'::bytea", '"AP8Q"'),
    ("''::bytea", '""'),
    ("interval '1 year 2 mons -3 days 04:05:06.7'", '"P1Y2M-3DT4H5M6.7S"'),
    ("interval '-04:05:00'", '"PT-4H-5M"'),
    ("interval '0'", '"PT0S"'),
    ("interval '0.25 seconds'", '"PT0.25S"'),
    ("interval '100 hours'", '"PT100H"'),
    ("interval '2 days'", '"P2D"'),
    ("'192.0.2.1/24'::inet", '"192.0.2.1/24"'),
    ("'2001:db8::/32'::cidr", '"2001:db8::/32"'),
    ("array[1, null, 3]", "[1,null,3]"),
    ("array[[1, 2], [3, 4]]", "[[1,2],[3,4]]"),
    ("array['a,b', 'c\"d', null]", '["a,b","c\\"d",null]'),
    ("array[timestamptz '2025-06-02Z']", '["2025-06-02T00:00:00.000000Z"]'),
    ("array[1.50::numeric]", "[1.50]"),
    ("array['{\"a\": 1}'::jsonb]", '[{"a": 1}]'),
    ("'{}'::int[]", "[]"),
    ("int4range(1, 10)", '"[1,10)"'),
    ("'[2025-06-01,2025-06-02)'::daterange", '"[2025-06-01,2025-06-02)"'),
    ("'{[1,3),[5,7)}'::int4multirange", '"{[1,3),[5,7)}"'),
    ("row(1, 'a')", '"(1,a)"'),
    ("point(1, 2)", '"(1,2)"'),
    ("'08:00:2b:01:02:03'::macaddr", '"08:00:2b:01:02:03"'),
    ("b'101'", '"101"'),
    ("'a=>1'::text", '"a=>1"'),
]
# JSON, None for SQL's NULL → the cell of a record's field.
FIELD_TEXTS = [
    ('"GET"', "GET"),
    ('""', ""),
    (r'"a \"quote\", \\ \n 日本 \u007f"', 'a "quote", \\ \n 日本 \x7f'),
    ('"null"', "null"),
    ('"200"', "200"),
    ("200", "200"),
    ("-1.50", "-1.50"),
    ("123456789012345678901234567890.5", "123456789012345678901234567890.5"),
    ("true", "true"),
    ("false", "false"),
    ("null", ""),
    (None, ""),
    ('["GET"]', '["GET"]'),
    ('{"a": "b"}', '{"a": "b"}'),
    ("[]", "[]"),
]


def literal(value: str | None) -> str:
    return "NULL" if value is None else f"$text${value}$text$"


def run(sql: str) -> Rows:
    return run_statement(Statement(sql), SESSION, max_rows=100)


@pytest.mark.parametrize(("expression", "expected"), JSON_FORMS)
def test_writes_each_type_in_its_documented_form(expression: str, expected: str) -> None:
    body = encode_rows(run(f"SELECT {expression} AS v"), ResultFormat.JSON, redact=False)
    assert body.decode() == f'{{"result":[{{"v":{expected}}}]}}'
    json.loads(body)


@pytest.mark.parametrize(("expression", "_expected"), JSON_FORMS)
def test_every_line_of_ndjson_is_one_json_object(expression: str, _expected: str) -> None:
    body = encode_rows(run(f"SELECT {expression} AS v FROM generate_series(1, 2)"), ResultFormat.NDJSON, redact=False)
    lines = body.decode().split("\n")
    assert len(lines) == 3
    assert lines[2] == ""
    assert all("v" in json.loads(line) for line in lines[:2])


def test_keeps_the_order_of_columns_and_the_last_of_one_name() -> None:
    body = encode_rows(run("SELECT 1 AS b, 2 AS a, 3 AS b"), ResultFormat.JSON, redact=False)
    assert body == b'{"result":[{"b":3,"a":2}]}'


def test_an_empty_result_is_an_empty_list() -> None:
    rows = run("SELECT 1 AS a WHERE false")
    assert encode_rows(rows, ResultFormat.JSON, redact=False) == b'{"result":[]}'
    assert encode_rows(rows, ResultFormat.NDJSON, redact=False) == b""
    assert encode_rows(rows, ResultFormat.CSV, redact=False) == b"a\r\n"


@pytest.mark.parametrize("text", ["=1+1", "+41 44 000 00 00", "-1", "@name", "\tx", "\rx", '=HYPERLINK("x")'])
def test_csv_keeps_what_a_spreadsheet_would_take_for_a_formula(text: str) -> None:
    body = encode_rows(run(f"SELECT '{text}' AS value"), ResultFormat.CSV, redact=False).decode()
    assert list(csv.reader(io.StringIO(body, newline=""))) == [["value"], [text]]


@pytest.mark.parametrize(("value", "text"), FIELD_TEXTS)
def test_a_field_of_a_record_is_the_text_of_its_value_in_csv(value: str | None, text: str) -> None:
    rows = replace(run(f"SELECT {literal(value)}::jsonb AS field, {literal(value)}::jsonb AS document"), types=[FIELD])
    body = encode_rows(rows, ResultFormat.CSV, redact=False)
    assert list(csv.reader(io.StringIO(body.decode(), newline="")))[1] == [
        text,
        rows.rows[0][1].decode() if value else "",
    ]
    pieces = encode_chunks(rows.columns, [rows.rows], ResultFormat.CSV, redact=False, types=rows.types)
    assert b"".join(pieces) == body


@pytest.mark.parametrize(("value", "_text"), FIELD_TEXTS)
def test_a_field_of_a_record_stays_what_it_is_in_json(value: str | None, _text: str) -> None:
    rows = run(f"SELECT {literal(value)}::jsonb AS field")
    for form in (ResultFormat.JSON, ResultFormat.NDJSON):
        assert encode_rows(replace(rows, types=[FIELD]), form, redact=False) == encode_rows(rows, form, redact=False)


def test_csv_quotes_by_rfc_4180_and_writes_structures_as_json() -> None:
    rows = run(
        "SELECT E'a\"b,\\r\\nc' AS text, null::int AS nothing, true AS yes, '{\"k\": [1.0]}'::jsonb AS document,"
        " array['x', 'y'] AS list, timestamptz '2025-06-02Z' AS at"
    )
    body = encode_rows(rows, ResultFormat.CSV, redact=False).decode()
    header, row = csv.reader(io.StringIO(body, newline=""))
    assert header == ["text", "nothing", "yes", "document", "list", "at"]
    assert row == ['a"b,\r\nc', "", "true", '{"k": [1.0]}', '["x","y"]', "2025-06-02T00:00:00.000000Z"]


@pytest.mark.parametrize("result_format", TEXT_FORMATS)
def test_redacts_texts_at_every_depth_and_nothing_else(result_format: ResultFormat) -> None:
    rows = run(
        'SELECT \'from 192.0.2.7 ok\' AS text, \'{"ip 192.0.2.7": [{"x": "a@example.org", "n": 1.10}]}\'::jsonb'
        " AS document, array['2001:db8::1'] AS list, '198.51.100.1'::inet AS address, 4 AS n,"
        " timestamptz '2025-06-02 08:15:02Z' AS at"
    )
    body = encode_rows(rows, result_format, redact=True).decode()
    assert "192.0.2.7 ok" not in body
    assert "a@example.org" not in body
    assert "2001:db8::1" not in body
    assert "198.51.100.1" not in body
    assert body.count("REDACTED") == 4
    assert "ip 192.0.2.7" in body  # a key stays
    assert "1.10" in body
    assert "2025-06-02T08:15:02.000000Z" in body


def test_rows_are_redacted_alike_alone_and_beside_others() -> None:
    """Alone, a chunk without a part of an address is left unread; escapes and lists hide none."""
    forms = [
        (text, json.dumps([text]).encode(), [[text]]) for text in (case["text"] for case in cases("redaction.jsonl"))
    ]
    escaped = ("plain", rb'["\u0031.2.3.4", "robin\u0040example.org", "\u003a:1"]', [["plain"]])
    rows = [*forms, escaped, ("192.0.2.1", b"1.10", [[None]])]

    def redacted(chosen: list[tuple[str, bytes, list[list[str]]]]) -> list[bytes]:
        found = Rows(("text", "document", "list"), chosen, truncated=False, database_seconds=0.0)
        return encode_rows(found, ResultFormat.NDJSON, redact=True).splitlines()

    assert [redacted([row])[0] for row in rows] == redacted(rows)
    assert redacted([escaped]) == [
        b'{"text":"plain","document":["REDACTED", "REDACTED", "REDACTED"],"list":[["plain"]]}'
    ]


def test_redacted_json_equals_the_plain_one_where_nothing_is_personal() -> None:
    rows = run("SELECT '{\"a\": [1.10, \"x\", null]}'::jsonb AS v, 'GET /rest' AS t")
    plain = encode_rows(rows, ResultFormat.JSON, redact=False)
    assert encode_rows(rows, ResultFormat.JSON, redact=True) == plain
    assert orjson.loads(plain)["result"][0]["t"] == "GET /rest"


# --- Chunks and budgets -----------------------------------------------------------------------------------------------

MANY = f"SELECT n, 'row ' || n AS text, NULL AS nothing FROM generate_series(1, {3 * CHUNK_ROWS + 1}) AS n"


def test_chunks_join_to_what_one_would_be() -> None:
    rows = run_statement(Statement(MANY), SESSION, max_rows=3 * CHUNK_ROWS + 1)
    expected = [{"n": n, "text": f"row {n}", "nothing": None} for n in range(1, 3 * CHUNK_ROWS + 2)]
    for number in (0, 1, CHUNK_ROWS - 1, CHUNK_ROWS, CHUNK_ROWS + 1, 3 * CHUNK_ROWS, 3 * CHUNK_ROWS + 1):
        some = replace(rows, rows=rows.rows[:number])
        assert json.loads(encode_rows(some, ResultFormat.JSON, redact=False)) == {"result": expected[:number]}
        lines = encode_rows(some, ResultFormat.NDJSON, redact=False).splitlines()
        assert [json.loads(line) for line in lines] == expected[:number]
        table = list(csv.reader(io.StringIO(encode_rows(some, ResultFormat.CSV, redact=False).decode(), newline="")))
        assert table == [["n", "text", "nothing"], *([str(n), f"row {n}", ""] for n in range(1, number + 1))]


@pytest.mark.parametrize("result_format", TEXT_FORMATS)
@pytest.mark.parametrize("number", [0, 1, 2 * CHUNK_ROWS])
def test_a_body_may_have_as_many_bytes_as_its_budget(result_format: ResultFormat, number: int) -> None:
    rows = run_statement(Statement(MANY), SESSION, max_rows=number)
    body = encode_rows(rows, result_format, redact=False)
    assert encode_rows(rows, result_format, redact=False, max_bytes=len(body)) == body
    if body:
        with pytest.raises(OverBudget):
            encode_rows(rows, result_format, redact=False, max_bytes=len(body) - 1)


def test_what_is_over_its_budget_is_not_encoded_to_its_end() -> None:
    loaded: list[int] = []

    class Watched(list[tuple[int]]):
        def __iter__(self) -> Iterator[tuple[int]]:
            return (loaded.append(row[0]) or row for row in super().__iter__())

    rows = Rows(("a_name_of_forty_characters_for_each_value",), Watched((n,) for n in range(10_000)), False, 0.0)
    with pytest.raises(OverBudget):
        encode_rows(rows, ResultFormat.JSON, redact=False, max_bytes=20_000)
    assert len(loaded) < 1_000


def test_values_behind_the_last_column_are_left_out() -> None:
    rows = Rows(("a",), [(1, 2)], False, 0.0)
    assert encode_rows(rows, ResultFormat.JSON, redact=True) == b'{"result":[{"a":1}]}'
    assert encode_rows(rows, ResultFormat.CSV, redact=True) == b"a\r\n1\r\n"


@pytest.mark.parametrize("result_format", sorted(STREAMED_FORMATS))
@pytest.mark.parametrize("number", [0, 1, 2 * CHUNK_ROWS + 1])
def test_pieces_of_chunks_are_the_body(result_format: ResultFormat, number: int) -> None:
    values = [(n, f"from 203.0.113.{n % 256}") for n in range(number)]
    chunks = [values[start : start + CHUNK_ROWS] for start in range(0, number, CHUNK_ROWS)]
    pieces = list(encode_chunks(("n", "text"), iter(chunks), result_format, redact=True))
    assert b"".join(pieces) == encode_rows(Rows(("n", "text"), values, False, 0.0), result_format, redact=True)
    assert len(pieces) == len(chunks) + (result_format is ResultFormat.CSV)


def test_a_piece_over_its_budget_is_refused_and_those_before_it_are_not() -> None:
    chunks = iter([[("a",)], [("a" * 100,)], [("a",)]])
    pieces = encode_chunks(("x",), chunks, ResultFormat.NDJSON, redact=False, max_bytes=50)
    assert next(pieces) == b'{"x":"a"}\n'
    with pytest.raises(OverBudget):
        next(pieces)
