"""Programs that nobody here wrote read Parquet and Arrow back: DuckDB, pandas and polars find the values and types."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from endpoints.log_database.execution import run_statement
from endpoints.log_database.sessions import ReaderSession
from endpoints.results.encoding import BINARY_FORMATS, encode_rows
from endpoints.results.outcomes import FIELD, ResultFormat, Statement
from logsources.roles import QUERY_READER

pytestmark = pytest.mark.django_db
SESSION = ReaderSession(role=QUERY_READER, search_path="logs", statement_timeout_seconds=5, tenant="")
MOMENT = datetime(2025, 6, 2, 8, 15, 2, 120000, tzinfo=UTC)
LARGEST = Decimal("9" * 36 + ".99")

# Name: expression, the value, and the type in DuckDB and in polars.
COLUMNS: Mapping[str, tuple[str, Any, str, Any]] = {
    "flag": ("true", True, "BOOLEAN", pl.Boolean),
    "small": ("1::smallint", 1, "SMALLINT", pl.Int16),
    "usual": ("2", 2, "INTEGER", pl.Int32),
    "large": ("9223372036854775807", 2**63 - 1, "BIGINT", pl.Int64),
    "oid": ("7::oid", 7, "UINTEGER", pl.UInt32),
    "half": ("0.5::real", 0.5, "FLOAT", pl.Float32),
    "tenth": ("0.1::float8", 0.1, "DOUBLE", pl.Float64),
    "price": ("12.50::numeric(9, 2)", Decimal("12.50"), "DECIMAL(9,2)", pl.Decimal(9, 2)),
    "sum": (f"{LARGEST}::numeric", LARGEST, "DECIMAL(38,2)", pl.Decimal(38, 2)),
    "moment": (f"timestamptz '{MOMENT}'", MOMENT, "TIMESTAMP WITH TIME ZONE", pl.Datetime("us", "UTC")),
    "local": (
        "timestamp '2025-06-02 08:15:02.12'",
        MOMENT.replace(tzinfo=None),
        "TIMESTAMP",
        pl.Datetime("us"),
    ),
    "day": ("date '1969-07-20'", date(1969, 7, 20), "DATE", pl.Date),
    "hour": ("time '08:15:02.5'", time(8, 15, 2, 500000), "TIME", pl.Time),
    "text": ("'ü 日本 🦊'", "ü 日本 🦊", "VARCHAR", pl.String),
    "document": ("'{\"a\": [1.10]}'::jsonb", '{"a": [1.10]}', "VARCHAR", pl.String),
    "bytes": ("'\\x00ff'::bytea", b"\x00\xff", "BLOB", pl.Binary),
    "texts": ("array['a', null]", ["a", None], "VARCHAR[]", pl.List(pl.String)),
    "matrix": ("array[[1, 2], [3, 4]]", [[1, 2], [3, 4]], "INTEGER[][]", pl.List(pl.List(pl.Int32))),
    "prices": ("array[1.5]", [Decimal("1.5")], "DECIMAL(38,1)[]", pl.List(pl.Decimal(38, 1))),
    "moments": ("array[timestamptz '2025-06-02 08:15:02.12Z']", [MOMENT], "TIMESTAMP WITH TIME ZONE[]", None),
    "duration": ("interval '1 day 2 hours'", "P1DT2H", "VARCHAR", pl.String),
    "never": ("timestamptz 'infinity'", "infinity", "VARCHAR", pl.String),
}
OFFLINE = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
VALUES = {name: value for name, (_, value, _, _) in COLUMNS.items()}
NULLS = dict.fromkeys(COLUMNS)


@pytest.fixture
def duckdb() -> Any:
    """The library, imported after the collection of tests: what exists then is never freed, which it complains of."""
    return import_module("duckdb")


@pytest.fixture(params=sorted(BINARY_FORMATS))
def made(request: pytest.FixtureRequest) -> Callable[..., tuple[bytes, ResultFormat]]:
    """Return a function that makes a body with all columns: a row of values, a row of NULLs; or of no rows."""

    def make(condition: str = "true") -> tuple[bytes, ResultFormat]:
        outputs = ", ".join(f"{expression} AS {name}" for name, (expression, *_) in COLUMNS.items())
        sql = f"SELECT one.* FROM generate_series(0, 1) AS n LEFT JOIN (SELECT {outputs}) AS one ON n = 0"
        sql += f" WHERE {condition} ORDER BY n"
        rows = run_statement(Statement(sql), SESSION, max_rows=10)
        return encode_rows(rows, request.param, redact=False), request.param

    return make


def test_duckdb_finds_the_values_and_types(duckdb: Any, made: Callable[..., Any], tmp_path: Path) -> None:
    body, result_format = made()
    with duckdb.connect(config=OFFLINE) as connection:
        if result_format is ResultFormat.PARQUET:
            (tmp_path / "rows.parquet").write_bytes(body)
            relation = connection.read_parquet(str(tmp_path / "rows.parquet"))
        else:
            relation = connection.from_arrow(pa.ipc.open_stream(body).read_all())
        assert dict(zip(relation.columns, map(str, relation.types), strict=True)) == {
            name: type_ for name, (_, _, type_, _) in COLUMNS.items()
        }
        # Moments as numbers: to show them in a zone, DuckDB would load one more extension.
        moments = "epoch_us(moment) AS moment, list_transform(moments, lambda each: epoch_us(each)) AS moments"
        rows = relation.query("rows", f"SELECT * REPLACE ({moments}) FROM rows").fetchall()
    microseconds = round(MOMENT.timestamp() * 1_000_000)
    numbers = {"moment": microseconds, "moments": [microseconds]}
    assert [dict(zip(COLUMNS, row, strict=True)) for row in rows] == [VALUES | numbers, NULLS]


def test_polars_finds_the_values_and_types(made: Callable[..., Any]) -> None:
    body, result_format = made()
    read = pl.read_parquet if result_format is ResultFormat.PARQUET else pl.read_ipc_stream
    frame = read(io.BytesIO(body))
    expected = {name: type_ for name, (_, _, _, type_) in COLUMNS.items()}
    assert dict(frame.schema) == expected | {"moments": pl.List(pl.Datetime("us", "UTC"))}
    assert frame.to_dicts() == [VALUES, NULLS]


def test_pandas_finds_the_values_and_types(made: Callable[..., Any]) -> None:
    body, result_format = made()
    if result_format is ResultFormat.PARQUET:
        frame = pd.read_parquet(io.BytesIO(body), dtype_backend="pyarrow")
    else:
        frame = pa.ipc.open_stream(body).read_pandas(types_mapper=pd.ArrowDtype)
    assert str(frame.dtypes["moment"]) == "timestamp[us, tz=UTC][pyarrow]"
    assert str(frame.dtypes["price"]) == "decimal128(9, 2)[pyarrow]"
    assert str(frame.dtypes["texts"]).startswith("list<")
    values, nulls = frame.to_dict("records")
    assert {name: plain(value) for name, value in values.items()} == VALUES
    assert all(value is None or value is pd.NA or value is pd.NaT or math.isnan(value) for value in nulls.values())


def plain(value: Any) -> Any:
    match value:
        case pd.Timestamp():
            return value.to_pydatetime()
        case list():
            return [plain(element) for element in value]
        case _:
            return value.tolist() if hasattr(value, "tolist") else value


def test_without_rows_every_reader_finds_the_types(duckdb: Any, made: Callable[..., Any], tmp_path: Path) -> None:
    body, result_format = made("false")
    if result_format is ResultFormat.PARQUET:
        (tmp_path / "rows.parquet").write_bytes(body)
        with duckdb.connect(config=OFFLINE) as connection:
            relation = connection.read_parquet(str(tmp_path / "rows.parquet"))
            assert (relation.columns, relation.fetchall()) == (list(COLUMNS), [])
        frame, narwhal = pl.read_parquet(io.BytesIO(body)), pd.read_parquet(io.BytesIO(body))
    else:
        frame, narwhal = pl.read_ipc_stream(io.BytesIO(body)), pa.ipc.open_stream(body).read_pandas()
    assert (frame.height, frame.columns) == (0, list(COLUMNS))
    assert (frame.schema["moment"], frame.schema["texts"]) == (pl.Datetime("us", "UTC"), pl.List(pl.String))
    assert (len(narwhal), list(narwhal.columns)) == (0, list(COLUMNS))


@pytest.mark.parametrize("result_format", sorted(BINARY_FORMATS))
def test_every_reader_compares_and_sums_the_fields_of_records(
    duckdb: Any, result_format: ResultFormat, tmp_path: Path
) -> None:
    sql = """SELECT v -> 0 AS method, v -> 1 AS status, v -> 2 AS seconds
        FROM unnest(array['["GET", 200, 0.5]', '["POST", 404, 2]', '["GET", 500, null]']) AS t(text),
        LATERAL (SELECT text::jsonb AS v) AS read"""
    rows = replace(run_statement(Statement(sql), SESSION, max_rows=10), types=[FIELD] * 3)
    body = encode_rows(rows, result_format, redact=False)
    (tmp_path / "rows").write_bytes(body)
    with duckdb.connect(config=OFFLINE) as connection:
        if result_format is ResultFormat.PARQUET:
            relation = connection.read_parquet(str(tmp_path / "rows"))
            frame, narwhal = pl.read_parquet(io.BytesIO(body)), pd.read_parquet(io.BytesIO(body))
        else:
            relation = connection.from_arrow(pa.ipc.open_stream(body).read_all())
            frame, narwhal = pl.read_ipc_stream(io.BytesIO(body)), pa.ipc.open_stream(body).read_pandas()
        found = relation.query("rows", "SELECT count(*), sum(status), sum(seconds) FROM rows WHERE method = 'GET'")
        assert found.fetchall() == [(2, 700, 0.5)]
    gets = frame.filter(pl.col("method") == "GET")
    assert (gets.height, gets["status"].sum(), gets["seconds"].sum()) == (2, 700, 0.5)
    chosen = narwhal[narwhal.method == "GET"]
    assert (len(chosen), chosen.status.sum(), chosen.seconds.sum()) == (2, 700, 0.5)
