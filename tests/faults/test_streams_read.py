"""Streams as others read them: curl writes a file, its last line is checked and dropped, readers have the rows."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.live.installation import Installation

ROWS = 1_000
# Values that a careless reader or writer would spoil.
SQL = (
    "SELECT n, CASE WHEN n % 3 = 0 THEN E'# not a, \"comment\"\\r\\nbut a cell ' || n ELSE 'row ' || n END AS text,"
    " CASE WHEN n % 2 = 0 THEN n * 0.5 END AS half FROM (SELECT generate_series(1, @rows::bigint) AS n) AS numbers"
)
TEXTS = [f'# not a, "comment"\r\nbut a cell {n}' if n % 3 == 0 else f"row {n}" for n in range(1, ROWS + 1)]
HALVES = [n * 0.5 if n % 2 == 0 else None for n in range(1, ROWS + 1)]
FORMATS = {"csv": "text/csv", "ndjson": "application/x-ndjson"}

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="reads with curl")


@pytest.fixture(params=FORMATS)
def file(request: pytest.FixtureRequest, installation: Installation, name: str, tmp_path: Path) -> Path:
    """A stream's rows as docs/calling.md says how to get them."""
    installation.save(name, SQL, parameters={"rows": "integer"}, stream_rows=ROWS)
    path, head = tmp_path / f"rows.{request.param}", tmp_path / "head"
    url = f"http://127.0.0.1:{installation.port}/api/endpoints/query/{name}?rows={ROWS}"
    headers = [f"X-API-KEY: {installation.secret}", f"Accept: {FORMATS[request.param]}"]
    command = ["curl", "-sSf", "-D", str(head), "-o", str(path), *(part for each in headers for part in ("-H", each))]
    subprocess.run([*command, url], check=True, timeout=60)
    last = subprocess.run(["tail", "-n", "1", str(path)], capture_output=True, text=True, check=True).stdout
    end = json.loads(last.removeprefix("# "))["end"]
    assert (end["rows"], end["truncated"]) == (ROWS, False)
    assert f"x-request-id: {end['request_id']}" in head.read_text().lower()
    subprocess.run(["sed", "-i", "$d", str(path)], check=True)
    return path


def test_duckdb_reads_it(file: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    read = "read_csv" if file.suffix == ".csv" else "read_json"
    found = duckdb.sql(f"SELECT n, text, half FROM {read}('{file}') ORDER BY n").fetchall()
    assert found == list(zip(range(1, ROWS + 1), TEXTS, HALVES, strict=True))


def test_polars_reads_it(file: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.read_csv(file) if file.suffix == ".csv" else polars.read_ndjson(file)
    assert frame["n"].to_list() == list(range(1, ROWS + 1))
    assert frame["text"].to_list() == TEXTS
    assert frame["half"].to_list() == HALVES


def test_pandas_reads_it(file: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(file) if file.suffix == ".csv" else pandas.read_json(file, lines=True)
    assert frame["n"].tolist() == list(range(1, ROWS + 1))
    assert frame["text"].tolist() == TEXTS
    assert frame["half"].astype(object).where(frame["half"].notna(), None).tolist() == HALVES
