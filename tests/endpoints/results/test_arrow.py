"""Every PostgreSQL type as a column with a type, from a real server."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import inf, isnan
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from endpoints.errors import NotAcceptable
from endpoints.log_database.execution import run_statement
from endpoints.log_database.sessions import ReaderSession
from endpoints.results.encoding import BINARY_FORMATS, CHUNK_ROWS, encode_rows, offered_formats
from endpoints.results.outcomes import FIELD, OverBudget, ResultFormat, Rows, Statement, TimestampForm
from logsources.roles import QUERY_READER

pytestmark = pytest.mark.django_db
SESSION = ReaderSession(role=QUERY_READER, search_path="logs", statement_timeout_seconds=5, tenant="")
UTC_MICROSECONDS = pa.timestamp("us", "UTC")
MOMENT = datetime(2025, 6, 2, 8, 15, 2, 120000, tzinfo=UTC)

TYPES = [
    ("true", pa.bool_(), True),
    ("1::smallint", pa.int16(), 1),
    ("-2147483648", pa.int32(), -(2**31)),
    ("9223372036854775807", pa.int64(), 2**63 - 1),
    ("4294967295::oid", pa.uint32(), 2**32 - 1),
    ("0.1::real", pa.float32(), pytest.approx(0.1)),
    ("0.1::float8", pa.float64(), 0.1),
    ("1e300::float8", pa.float64(), 1e300),
    ("'-Infinity'::float8", pa.float64(), -inf),
    ("1.10::numeric", pa.decimal128(38, 2), Decimal("1.10")),
    ("-0.05::numeric", pa.decimal128(38, 2), Decimal("-0.05")),
    ("0::numeric", pa.decimal128(38, 0), Decimal(0)),
    ("sum(9223372036854775807)", pa.decimal128(38, 0), Decimal(2**63 - 1)),
    ("1.1::numeric(12, 4)", pa.decimal128(12, 4), Decimal("1.1000")),
    ("12345::numeric(3, -2)", pa.decimal128(5, 0), Decimal(12300)),
    ("0.0012::numeric(2, 4)", pa.decimal128(4, 4), Decimal("0.0012")),
    ("1::numeric(50, 2)", pa.decimal128(38, 2), Decimal("1.00")),
    (f"{'9' * 38}::numeric", pa.decimal128(38, 0), Decimal("9" * 38)),
    (f"0.{'9' * 38}::numeric", pa.decimal128(38, 38), Decimal(f"0.{'9' * 38}")),
    ("timestamptz '2025-06-02 10:15:02.12+02'", UTC_MICROSECONDS, MOMENT),
    ("timestamptz '0001-01-01Z'", UTC_MICROSECONDS, datetime(1, 1, 1, tzinfo=UTC)),
    ("timestamptz '9999-12-31 23:59:59.999999Z'", UTC_MICROSECONDS, datetime.max.replace(tzinfo=UTC)),
    ("timestamp '2025-06-02 08:15:02.12'", pa.timestamp("us"), MOMENT.replace(tzinfo=None)),
    ("date '2025-06-02'", pa.date32(), date(2025, 6, 2)),
    ("time '08:15:02.5'", pa.time64("us"), time(8, 15, 2, 500000)),
    ("time '00:00'", pa.time64("us"), time(0)),
    ("timetz '08:15:02+02'", pa.string(), "08:15:02+02"),
    ("interval '1 year 2 days'", pa.string(), "P1Y2D"),
    ("'ü'::text", pa.string(), "ü"),
    ("'a'::char(3)", pa.string(), "a  "),
    ('\'{"a": [1.10, "ü"]}\'::jsonb', pa.string(), '{"a": [1.10, "ü"]}'),
    ("'{\"a\" :\n 1}'::json", pa.string(), '{"a" :  1}'),
    ("'null'::jsonb", pa.string(), "null"),
    ("'3C1F7E0A-6B52-4D0E-9A77-2F1F0C9B8E11'::uuid", pa.string(), "3c1f7e0a-6b52-4d0e-9a77-2f1f0c9b8e11"),
    ("'192.0.2.1/24'::inet", pa.string(), "192.0.2.1/24"),
    ("'\\x00ff10'::bytea", pa.binary(), b"\x00\xff\x10"),
    ("''::bytea", pa.binary(), b""),
    ("int4range(1, 10)", pa.string(), "[1,10)"),
    ("row(1, 'a')", pa.string(), "(1,a)"),
    ("point(1, 2)", pa.string(), "(1,2)"),
    ("'5'::money", pa.string(), "$5.00"),
    # Arrays.
    ("array[1, null, 3]", pa.list_(pa.int32()), [1, None, 3]),
    ("'{}'::int[]", pa.list_(pa.int32()), []),
    ("array[[1, 2], [3, 4]]", pa.list_(pa.list_(pa.int32())), [[1, 2], [3, 4]]),
    ("array[[['a']]]", pa.list_(pa.list_(pa.list_(pa.string()))), [[["a"]]]),
    ("array['a,b', 'c\"d', null]", pa.list_(pa.string()), ["a,b", 'c"d', None]),
    ("array[1.5, 2.25, null]", pa.list_(pa.decimal128(38, 2)), [Decimal("1.50"), Decimal("2.25"), None]),
    ("array[1.5]::numeric(5, 3)[]", pa.list_(pa.decimal128(5, 3)), [Decimal("1.500")]),
    ("array[timestamptz '2025-06-02 08:15:02.12Z']", pa.list_(UTC_MICROSECONDS), [MOMENT]),
    ("array[time '08:15']", pa.list_(pa.time64("us")), [time(8, 15)]),
    ("array['\\xff'::bytea, null]", pa.list_(pa.binary()), [b"\xff", None]),
    ("array['{\"a\": 1}'::jsonb]", pa.list_(pa.string()), ['{"a": 1}']),
    ("array[true]", pa.list_(pa.bool_()), [True]),
    # What the type cannot hold makes the column text.
    ("'NaN'::numeric", pa.string(), "NaN"),
    ("'-Infinity'::numeric", pa.string(), "-Infinity"),
    ("'NaN'::numeric(5, 2)", pa.string(), "NaN"),
    (f"1{'0' * 38}::numeric", pa.string(), f"1{'0' * 38}"),
    (f"{'9' * 30}.{'9' * 9}::numeric", pa.string(), f"{'9' * 30}.{'9' * 9}"),
    ("timestamptz 'infinity'", pa.string(), "infinity"),
    ("timestamptz '0044-03-15 12:00Z BC'", pa.string(), "0044-03-15 12:00:00+00 BC"),
    ("timestamptz '12025-06-02 08:15:02Z'", pa.string(), "12025-06-02 08:15:02+00"),
    ("timestamp '-infinity'", pa.string(), "-infinity"),
    ("date 'infinity'", pa.string(), "infinity"),
    ("date '0044-03-15 BC'", pa.string(), "0044-03-15 BC"),
    ("time '24:00'", pa.string(), "24:00:00"),
    ("array[date 'infinity', '2025-06-02']", pa.string(), '["infinity","2025-06-02"]'),
    ("array['NaN', 1.50]::numeric[]", pa.string(), '["NaN",1.50]'),
]


def run(sql: str, *, max_rows: int = 10_000) -> Rows:
    return run_statement(Statement(sql), SESSION, max_rows=max_rows)


def read(body: bytes, result_format: ResultFormat) -> pa.Table:
    if result_format is ResultFormat.PARQUET:
        return pq.read_table(io.BytesIO(body))
    return pa.ipc.open_stream(body).read_all()


def tables(rows: Rows, *, redact: bool = False) -> Sequence[pa.Table]:
    """Return the rows in both formats, which are the same."""
    made = [read(encode_rows(rows, each, redact=redact), each) for each in sorted(BINARY_FORMATS)]
    assert made[0].schema == made[1].schema
    return made


def column(expression: str, *, redact: bool = False) -> pa.ChunkedArray:
    one, other = (table["v"] for table in tables(run(f"SELECT {expression} AS v"), redact=redact))
    assert str(one) == str(other)
    return one


@pytest.mark.parametrize(("expression", "type_", "value"), TYPES)
def test_a_column_has_its_documented_type(expression: str, type_: pa.DataType, value: Any) -> None:
    made = column(expression)
    assert made.type == type_
    assert made.to_pylist() == [value]


@pytest.mark.parametrize(("expression", "type_", "_value"), TYPES)
def test_redaction_changes_no_type(expression: str, type_: pa.DataType, _value: Any) -> None:
    assert column(expression, redact=True).type == type_


@pytest.mark.parametrize(
    "type_",
    ["bool", "int8", "real", "numeric(5, 2)", "timestamptz", "date", "time", "bytea", "text", "jsonb", "int[]"],
)
def test_without_values_a_column_has_the_same_type(type_: str) -> None:
    for nothing in (f"SELECT NULL::{type_} AS v", f"SELECT NULL::{type_} AS v WHERE false"):
        for table in tables(run(nothing)):
            (filled,) = tables(run(f"SELECT v FROM (SELECT NULL::{type_}) AS one (v)"))[:1]
            assert table.schema == filled.schema
            assert table.schema.field("v").type != pa.null()
            assert table["v"].null_count == table.num_rows


def test_a_numeric_without_values_has_no_scale() -> None:
    for table in tables(run("SELECT 1.5 AS v WHERE false")):
        assert table.schema.field("v").type == pa.decimal128(38, 0)


def test_nan_is_a_double() -> None:
    (value,) = column("'NaN'::float8").to_pylist()
    assert isnan(value)


# --- Chunks: what one value decides, all values of the column follow --------------------------------------------------
LATE = CHUNK_ROWS * 3


@pytest.mark.parametrize(
    ("usual", "late", "type_"),
    [
        ("n * 1.0", "0.125", pa.decimal128(38, 3)),
        ("n * 1.0", "'NaN'::numeric", pa.string()),
        (f"n * {'9' * 30}::numeric", "0.123456789", pa.string()),
        ("timestamptz '2025-06-02Z' + n * interval '1 s'", "'infinity'::timestamptz", pa.string()),
        ("array[n]", "array[[n], [n]]", pa.string()),
        ("array[[n]]", "array[n]", pa.string()),
        ("null::int[]", "array[[n], [n]]", pa.list_(pa.list_(pa.int32()))),
        ("'{}'::numeric[]", "array[[1.25]]", pa.list_(pa.list_(pa.decimal128(38, 2)))),
        ("array[n * 1.0]", "array[1.25]", pa.list_(pa.decimal128(38, 2))),
    ],
)
def test_a_late_value_decides_about_the_whole_column(usual: str, late: str, type_: pa.DataType) -> None:
    rows = run(f"SELECT n, CASE WHEN n = {LATE} THEN {late} ELSE {usual} END AS v FROM generate_series(0, {LATE}) AS n")
    for table in tables(rows):
        assert table.schema.field("v").type == type_
        assert table["n"].to_pylist() == list(range(LATE + 1))
    assert len(table["v"]) == LATE + 1
    if type_ == pa.string():
        texts = encode_rows(rows, ResultFormat.CSV, redact=False).decode().splitlines()[1:]
        assert [f"{n},{v}" for n, v in enumerate(table["v"].to_pylist())] == [line.replace('"', "") for line in texts]


# --- Fields of records: the type that all their values have -----------------------------------------------------------
BEYOND = 2**53 + 1  # no double is this number
FIELDS = [
    (["200", None, "404"], pa.int64(), [200, None, 404]),
    ([str(2**63 - 1), str(-(2**63))], pa.int64(), [2**63 - 1, -(2**63)]),
    ([str(BEYOND)], pa.int64(), [BEYOND]),
    (["4", "2.5", "null"], pa.float64(), [4.0, 2.5, None]),
    (["0.1", "1.50", "-0.0"], pa.float64(), [0.1, 1.5, 0.0]),
    ([f"1{'0' * 30}"], pa.float64(), [1e30]),
    ([str(2**53), "0.5"], pa.float64(), [2.0**53, 0.5]),
    ([str(BEYOND), "0.5"], pa.string(), [str(BEYOND), "0.5"]),
    ([str(2**63), "1"], pa.float64(), [2.0**63, 1.0]),
    ([str(2**64 + 1), "1"], pa.string(), [str(2**64 + 1), "1"]),
    (["3.14159265358979323846", "1"], pa.string(), ["3.14159265358979323846", "1"]),
    ([f"1{'0' * 400}"], pa.string(), [f"1{'0' * 400}"]),
    (["true", "false", None], pa.bool_(), [True, False, None]),
    (["true", "1"], pa.string(), ["true", "1"]),
    (["1", "true"], pa.string(), ["1", "true"]),
    (["1.50", "true"], pa.string(), ["1.50", "true"]),
    (['"GET"', '"a \\"b\\""', None, "null"], pa.string(), ["GET", 'a "b"', None, None]),
    (['"503"', "503"], pa.string(), ["503", "503"]),
    (["503", '"503"'], pa.string(), ["503", "503"]),
    (['"true"', "true"], pa.string(), ["true", "true"]),
    (['["a", 1]', '{"b": "c"}'], pa.string(), ['["a", 1]', '{"b": "c"}']),
    (["1", "[1]"], pa.string(), ["1", "[1]"]),
    (["null", None], pa.string(), [None, None]),
    ([], pa.string(), []),
]


def fields(values: Sequence[str | None]) -> Rows:
    """Return a field of a record with these values, as PostgreSQL returns them, beside the number of their row."""
    literals = ", ".join("NULL" if value is None else f"$text${value}$text$" for value in values)
    sql = f"SELECT n, v::jsonb AS v FROM unnest(array[{literals}]::text[]) WITH ORDINALITY AS t(v, n) ORDER BY n"
    rows = run(sql)
    return replace(rows, types=[rows.types[0], FIELD])


@pytest.mark.parametrize("redact", [False, True])
@pytest.mark.parametrize(("values", "type_", "expected"), FIELDS)
def test_a_field_has_the_type_of_all_its_values(
    values: list[str | None], type_: pa.DataType, expected: list[Any], redact: bool
) -> None:
    for table in tables(fields(values), redact=redact):
        assert table.schema.field("v").type == type_
        assert table["v"].to_pylist() == expected


@pytest.mark.parametrize(("values", "type_", "expected"), [case for case in FIELDS if case[0]])
def test_a_field_has_the_same_type_in_whatever_order_and_chunks(
    values: list[str | None], type_: pa.DataType, expected: list[Any]
) -> None:
    repeated = [value for value in values for _ in range(CHUNK_ROWS + 1)]
    for many in (repeated, repeated[::-1], [*[None] * CHUNK_ROWS * 2, *repeated]):
        for table in tables(fields(many)):
            assert table.schema.field("v").type == type_
            assert set(map(str, table["v"].to_pylist())) - {"None"} == set(map(str, expected)) - {"None"}
            assert table["n"].to_pylist() == list(range(1, len(many) + 1))


def test_a_field_is_redacted_without_its_quotes() -> None:
    for table in tables(fields(['"from \\"203.0.113.7\\""', '["203.0.113.7"]', "7"]), redact=True):
        assert table["v"].to_pylist() == ['from "REDACTED"', '["REDACTED"]', "7"]


# --- Names ------------------------------------------------------------------------------------------------------------
def test_keeps_the_order_of_columns_and_the_last_of_one_name() -> None:
    for table in tables(run("SELECT 1 AS b, 2 AS a, 'x' AS b")):
        assert table.to_pylist() == [{"b": "x", "a": 2}]
        assert table.column_names == ["b", "a"]


def test_values_behind_the_last_column_are_left_out() -> None:
    rows = Rows(("a",), [(1, "secret")], False, 0.0, types=((23, -1), (25, -1)))
    for table in tables(rows):
        assert table.to_pylist() == [{"a": 1}]


def test_a_column_whose_type_is_not_known_is_text() -> None:
    for table in tables(Rows(("a", "b", "c"), [(1, [b"1.5", None], True), (None, None, None)], False, 0.0)):
        assert table.to_pylist() == [{"a": "1", "b": "[1.5,null]", "c": "true"}, {"a": None, "b": None, "c": None}]


def test_rows_without_columns_are_a_table_without_columns() -> None:
    for table in tables(run("SELECT FROM generate_series(1, 2)")):
        assert table.num_columns == 0


@pytest.mark.parametrize("result_format", sorted(BINARY_FORMATS))
def test_without_the_library_the_format_is_not_acceptable(
    result_format: ResultFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "endpoints.results.arrow", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    assert set(offered_formats()) == set(ResultFormat) - BINARY_FORMATS
    with pytest.raises(NotAcceptable) as error:
        encode_rows(Rows(("a",), [(1,)], False, 0.0), result_format, redact=False)
    assert error.value.message.endswith(f" It lacks the extra [arrow], which writes {result_format.value}.")


def test_timestamps_stay_timestamps_where_json_has_microseconds() -> None:
    rows = run("SELECT timestamptz '2025-06-02 08:15:02.12Z' AS v")
    for result_format in BINARY_FORMATS:
        body = encode_rows(rows, result_format, redact=False, timestamps_as=TimestampForm.UNIX_MICROSECONDS)
        assert read(body, result_format)["v"].to_pylist() == [MOMENT]


# --- Redaction --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("expression", "redacted"),
    [
        ("'from 192.0.2.7 ok'::text", "from REDACTED ok"),
        ("'198.51.100.1'::inet", "REDACTED"),
        ('\'{"ip 192.0.2.7": ["a@example.org"]}\'::jsonb', '{"ip 192.0.2.7": ["REDACTED"]}'),
        ('\'{"a": "\\u0061@example.org"}\'::json', '{"a": "REDACTED"}'),
        ("array['2001:db8::1', null]", ["REDACTED", None]),
        ("array[['192.0.2.7'], ['x']]", [["REDACTED"], ["x"]]),
        ("array['\"192.0.2.7\"'::jsonb]", ['"REDACTED"']),
        ("row('192.0.2.7')", "(REDACTED)"),
        ("'192.0.2.7'::varchar(20)", "REDACTED"),
        # JSON hides it in base64; here it would be read at once.
        ("convert_to('from 192.0.2.7 ok', 'UTF8')", b"from REDACTED ok"),
        ("'\\xff3139322e302e322e37ff'::bytea", b"\xffREDACTED\xff"),
        ("array['192.0.2.7'::bytea]", [b"REDACTED"]),
        ("'\\x00ff10fe'::bytea", b"\x00\xff\x10\xfe"),
        ("timestamptz '2025-06-02 08:15:02.12Z'", MOMENT),
        ("1.10", Decimal("1.10")),
    ],
)
def test_redacts_texts_at_every_depth_and_nothing_else(expression: str, redacted: Any) -> None:
    assert column(expression, redact=True).to_pylist() == [redacted]


def test_redacts_a_column_that_became_text() -> None:
    late = "CASE WHEN n = 300 THEN array[['192.0.2.7']] ELSE array['192.0.2.8'] END"
    for table in tables(run(f"SELECT {late} AS v FROM generate_series(1, 300) AS n"), redact=True):
        assert set(table["v"].to_pylist()) == {'["REDACTED"]', '[["REDACTED"]]'}


# --- Budgets ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("result_format", sorted(BINARY_FORMATS))
@pytest.mark.parametrize("number", [1, 10_000])
def test_columns_count_before_compression(result_format: ResultFormat, number: int) -> None:
    rows = run(f"SELECT repeat('x', {2_000_000 // number}) AS a FROM generate_series(1, {number})")
    assert len(encode_rows(rows, ResultFormat.PARQUET, redact=False)) < 200_000
    with pytest.raises(OverBudget):
        encode_rows(rows, result_format, redact=False, max_bytes=1_900_000)
    assert encode_rows(rows, result_format, redact=False, max_bytes=2_200_000)


@pytest.mark.parametrize("result_format", sorted(BINARY_FORMATS))
def test_what_did_not_fit_counts_once(result_format: ResultFormat) -> None:
    late = f"CASE WHEN n = {LATE} THEN array[[repeat('x', 1000)]] ELSE array[repeat('x', 1000)] END"
    rows = run(f"SELECT {late} AS v FROM generate_series(0, {LATE}) AS n")
    assert encode_rows(rows, result_format, redact=False, max_bytes=1_100 * LATE)


@pytest.mark.parametrize("result_format", sorted(BINARY_FORMATS))
def test_a_body_may_have_as_many_bytes_as_its_budget(result_format: ResultFormat) -> None:
    rows = run("SELECT 1 AS a")  # whose value is short beside what describes it
    body = encode_rows(rows, result_format, redact=False)
    assert encode_rows(rows, result_format, redact=False, max_bytes=len(body)) == body
    with pytest.raises(OverBudget):
        encode_rows(rows, result_format, redact=False, max_bytes=len(body) - 1)


@pytest.mark.parametrize("result_format", sorted(BINARY_FORMATS))
def test_what_is_over_its_budget_is_not_loaded_to_its_end(result_format: ResultFormat) -> None:
    loaded: list[int] = []

    class Watched(list[tuple[int]]):
        def __iter__(self) -> Iterator[tuple[int]]:
            return (loaded.append(row[0]) or row for row in super().__iter__())

    rows = Rows(("a",), Watched((n,) for n in range(10_000)), False, 0.0, types=((20, -1),))
    with pytest.raises(OverBudget):
        encode_rows(rows, result_format, redact=False, max_bytes=8_000)
    assert len(loaded) < 2_000
