"""Downloads: the rows of the page as a file, and no way around its walls."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.parquet as parquet
import pytest

from endpoints.defining.drafts import DraftFailed
from endpoints.errors import InvalidLQL
from endpoints.exploring import downloads
from endpoints.exploring.downloads import Download, download_formats, explore_download
from endpoints.exploring.exploring import Exploration, InvalidExploration
from endpoints.results import encoding

pytestmark = pytest.mark.django_db
NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)
DAY = Exploration("edge_logs", "acme", NOON - timedelta(hours=12), NOON + timedelta(hours=12))


@pytest.fixture
def rows(insert_rows: Any) -> None:
    insert_rows(
        "edge_logs",
        [
            {"timestamp": NOON + timedelta(minutes=n), "project": project, "id": f"{project}{n}"}
            | {"event_message": f"from 203.0.113.{n}", "metadata": [{"n": n}]}
            for n in range(4)
            for project in ("acme", "globex")
        ],
    )


def load(exploration: Exploration, suffix: str = "ndjson", rows: int = 100) -> Download:
    return explore_download(exploration, suffix, rows=rows, run_id="a-run-of-a-test", now=NOON)


def test_each_format_has_the_rows_newest_first(rows: None) -> None:
    file = load(DAY, "csv")
    assert (file.name, file.form) == (f"edge_logs-{NOON:%Y%m%d}T120000Z.csv", "text/csv")
    head, *lines = file.run.body.decode().splitlines()
    assert head == "timestamp,id,event_message,metadata"
    assert [line.split(",")[1] for line in lines] == ["acme3", "acme2", "acme1", "acme0"]
    documents = [json.loads(line) for line in load(DAY).run.body.splitlines()]
    assert [one["metadata"] for one in documents] == [[{"n": n}] for n in (3, 2, 1, 0)]
    table = parquet.read_table(io.BytesIO(load(DAY, "parquet").run.body))
    assert table["id"].to_pylist() == ["acme3", "acme2", "acme1", "acme0"]


def test_columns_are_those_of_the_query_alone(rows: None) -> None:
    (row,) = load(replace(DAY, lql="m.n:2 s:m.n@n c:count(*)")).run.body.splitlines()
    assert set(json.loads(row)) == {"timestamp", "id", "n"}


def test_so_many_rows_and_whether_there_are_more(rows: None) -> None:
    run = load(DAY, rows=3).run
    assert (run.row_count, run.truncated) == (3, True)
    run = load(DAY, rows=4).run
    assert (run.row_count, run.truncated) == (4, False)


def test_many_rows_are_not_cut_as_a_page_is(insert_rows: Any) -> None:
    insert_rows("edge_logs", [{"timestamp": NOON, "project": "acme", "id": f"{n}"} for n in range(5_100)])
    file = load(replace(DAY, lql="s:id"), "csv", rows=downloads.MAX_DOWNLOAD_ROWS)
    assert file.run.body.count(b"\r\n") == 5_101
    assert file.run.row_count == file.run.shown_rows == 5_100


def test_parquet_is_offered_with_its_library_alone(rows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(download_formats()) == ["csv", "ndjson", "parquet"]
    monkeypatch.setattr(encoding, "find_spec", lambda name: None)
    assert list(download_formats()) == ["csv", "ndjson"]
    with pytest.raises(InvalidExploration):
        load(DAY, "parquet")


# --- Ways around the walls --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet"])
def test_a_file_has_no_row_of_another_project_and_is_redacted(rows: None, suffix: str) -> None:
    body = load(replace(DAY, redact=True), suffix).run.body
    if suffix == "parquet":
        body = json.dumps(parquet.read_table(io.BytesIO(body)).to_pylist(), default=str).encode()
    assert b"globex" not in body
    assert b"203.0.113" not in body
    assert body.count(b"REDACTED") == 4


@pytest.mark.parametrize("suffix", ["json", "", "CSV", "csv/../../x", 'csv"\r\nSet-Cookie: a=b', "arrow"])
def test_a_format_that_is_not_offered_is_refused(rows: None, suffix: str) -> None:
    with pytest.raises(InvalidExploration) as refused:
        load(DAY, suffix)
    assert refused.value.field == "format"


@pytest.mark.parametrize("number", [0, -1, downloads.MAX_DOWNLOAD_ROWS + 1])
def test_a_file_has_a_bounded_number_of_rows(rows: None, number: int) -> None:
    with pytest.raises(InvalidExploration) as refused:
        load(DAY, rows=number)
    assert refused.value.field == "rows"


def test_a_file_is_bounded_in_bytes(rows: None, settings: Any) -> None:
    settings.ENDPOINTS_SANDBOX_MAX_BYTES = 200
    with pytest.raises(DraftFailed) as failed:
        load(DAY)
    assert "Select fewer columns or rows" in str(failed.value.error)


def test_a_file_is_of_a_log_source_alone(rows: None) -> None:
    with pytest.raises(InvalidExploration):
        load(replace(DAY, source="pg_user"))
    with pytest.raises(InvalidLQL):
        load(replace(DAY, lql="f:auth_logs"))
