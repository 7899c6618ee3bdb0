"""A field of a record that `lql`, or `sql` in BigQuery's dialect, selects is a value in CSV, Parquet and Arrow."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.management import call_command

from endpoints.calling.query_requests import Call
from endpoints.defining.drafts import Draft, run_draft
from endpoints.defining.saving import save_endpoint
from endpoints.exploring.downloads import explore_download
from endpoints.exploring.exploring import Exploration
from endpoints.models import Endpoint
from endpoints.results.outcomes import ResultFormat
from endpoints.sql.parameters import DeclaredParameter
from tests.conftest import ApiClient
from tests.moments import now

pytestmark = pytest.mark.django_db
NAME = "test.fields"


def noon() -> datetime:
    return now().replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)


SQL = "with edge_logs as (select * from logs.edge_logs where project = @project) select id from edge_logs order by id"
PARAMETERS = [DeclaredParameter("project", required=True)]
# More than one chunk of rows.
REQUESTS: Sequence[tuple[str, int, Any]] = [
    *[("GET", 200, 4)] * 150,
    *[('PUT "x", y', 404, 2.5)] * 40,
    *[("POST", 500, None)] * 10,
]
GET, STATUS_SUM = 150, 150 * 200 + 40 * 404 + 10 * 500
BIGQUERY = (
    "select r.method as method, s.status_code as status, m.latency as latency, m.tags as tags from edge_logs"
    " cross join unnest(metadata) as m cross join unnest(m.request) as r cross join unnest(m.response) as s order by id"
)
LQL = "s:m.request.method@method s:m.response.status_code@status s:m.latency@latency s:m.tags@tags"
LANGUAGES = [("sql", BIGQUERY), ("lql", LQL)]


@pytest.fixture
def logs(insert_rows: Callable[..., None]) -> None:
    insert_rows(
        "edge_logs",
        [
            {"id": f"{number:03}", "project": "acme", "timestamp": noon() - timedelta(seconds=number)}
            | {
                "metadata": [
                    {"request": [{"method": method}], "response": [{"status_code": status}]}
                    | {"latency": latency, "tags": ["a", number]}
                ]
            }
            for number, (method, status, latency) in enumerate(REQUESTS)
        ],
    )


@pytest.fixture
def endpoint(logs: None) -> Endpoint:
    return saved()


def saved(**settings: Any) -> Endpoint:
    """Store the endpoint with these settings."""
    defaults = {"sql": SQL, "sandbox_dialect": "bigquery", "max_rows": 500}
    made = Endpoint(name=NAME, sandboxing=True, **defaults | settings)
    return save_endpoint(made, PARAMETERS)


def ask(api: ApiClient, format: str, **arguments: str) -> bytes:
    response = api.query(NAME, {"project": "acme", "format": format, **arguments})
    body: bytes = b"".join(response) if response.streaming else response.content
    assert response.status_code == 200, body[:1000]
    return body


def frame_of(body: bytes, format: str) -> pd.DataFrame:
    if format == "csv":
        return pd.read_csv(io.BytesIO(body), comment=None)
    if format == "parquet":
        return pd.read_parquet(io.BytesIO(body))
    return pa.ipc.open_stream(body).read_pandas()


def check(frame: pd.DataFrame) -> None:
    """Assert that the columns have the values that the rows were stored with."""
    assert len(frame[frame.method == "GET"]) == GET
    assert list(frame.method) == [method for method, _, _ in REQUESTS]
    assert frame.status.sum() == STATUS_SUM
    assert str(frame.status.dtype) == "int64"
    assert (frame.latency.sum(), frame.latency.count()) == (150 * 4 + 40 * 2.5, 190)
    assert [json.loads(text) for text in frame.tags] == [["a", number] for number in range(len(REQUESTS))]


@pytest.mark.parametrize("format", ["csv", "parquet", "arrow"])
@pytest.mark.parametrize(("language", "text"), LANGUAGES)
def test_a_call_gets_values(api: ApiClient, endpoint: Endpoint, language: str, text: str, format: str) -> None:
    check(frame_of(ask(api, format, **{language: text}), format))


@pytest.mark.parametrize("format", ["csv", "parquet", "arrow"])
@pytest.mark.parametrize(("language", "text"), LANGUAGES)
def test_a_cached_result_has_values(api: ApiClient, logs: None, language: str, text: str, format: str) -> None:
    saved(cache_seconds=600)
    first = ask(api, format, **{language: text})
    in_json = json.loads(ask(api, "json", **{language: text}))["result"]
    check(frame_of(first, format))
    assert ask(api, format, **{language: text}) == first
    assert in_json[0] == {"method": "GET", "status": 200, "latency": 4, "tags": ["a", 0]}


@pytest.mark.parametrize(("language", "text"), LANGUAGES)
def test_a_stream_has_values(api: ApiClient, logs: None, language: str, text: str) -> None:
    saved(stream_rows=1_000)
    *rows, end = ask(api, "csv", **{language: text}).splitlines(keepends=True)
    assert end.startswith(b'# {"end"')
    check(frame_of(b"".join(rows), "csv"))
    first = json.loads(ask(api, "ndjson", **{language: text}).splitlines()[0])
    assert first == {"method": "GET", "status": 200, "latency": 4, "tags": ["a", 0]}


@pytest.mark.parametrize(("language", "text"), LANGUAGES)
def test_redaction_sees_the_value(
    api: ApiClient, endpoint: Endpoint, insert_rows: Callable[..., None], language: str, text: str
) -> None:
    metadata = [
        {"request": [{"method": 'from "203.0.113.7"'}], "response": [{"status_code": 1}], "tags": ["203.0.113.8"]}
    ]
    insert_rows("edge_logs", [{"id": "999", "project": "acme", "timestamp": noon(), "metadata": metadata}])
    for format in ("csv", "parquet"):
        response = api.query(
            NAME, {"project": "acme", "format": format, language: text}, **{"SVC_ENDPOINT_REDACT_PII": "true"}
        )
        frame = frame_of(response.content, format)
        assert 'from "REDACTED"' in set(frame.method)
        assert frame.status.sum() == STATUS_SUM + 1
        assert '["REDACTED"]' in set(frame.tags)


@pytest.mark.parametrize(("language", "text"), LANGUAGES)
def test_run_query_prints_values(
    endpoint: Endpoint, capsysbinary: pytest.CaptureFixture[bytes], language: str, text: str
) -> None:
    for format in ("csv", "parquet"):
        call_command("run_query", NAME, "project=acme", f"--{language}", text, "--format", format)
        check(frame_of(capsysbinary.readouterr().out, format))
    call_command("run_query", NAME, "project=acme", f"--{language}", text)
    table = capsysbinary.readouterr().out.decode()
    assert "GET" in table
    assert '"GET"' not in table


@pytest.mark.parametrize(("language", "text"), LANGUAGES)
def test_a_draft_has_values(logs: None, language: str, text: str) -> None:
    draft = Draft(sql=SQL, parameters=PARAMETERS, sandboxing=True, sandbox_dialect="bigquery", max_rows=500)
    for format in (ResultFormat.CSV, ResultFormat.PARQUET, ResultFormat.ARROW):
        call = Call({"project": "acme"}, format=format, **{f"sandbox_{language}": text})
        check(frame_of(run_draft(draft, call=call, run_id="a-run-of-a-test").body, format.short_name))


def test_a_download_of_the_explorer_has_values(logs: None) -> None:
    exploration = Exploration("edge_logs", "acme", noon() - timedelta(hours=1), noon() + timedelta(hours=1), lql=LQL)
    for suffix in ("csv", "parquet"):
        file = explore_download(exploration, suffix, rows=1_000, run_id="a-run-of-a-test", now=noon())
        check(frame_of(file.run.body, suffix))


# --- Documents --------------------------------------------------------------------------------------------------------
def test_a_whole_record_is_json_text(api: ApiClient, endpoint: Endpoint) -> None:
    for arguments in ({"lql": "id:000 s:metadata"}, {"sql": "select metadata from edge_logs where id = '000'"}):
        (row,) = csv.DictReader(io.StringIO(ask(api, "csv", **arguments).decode()))
        assert json.loads(row["metadata"])[0]["request"] == [{"method": "GET"}]


def test_jsonb_of_postgresqls_sql_is_a_document(api: ApiClient, logs: None) -> None:
    selected = "id, metadata -> 0 -> 'request' -> 0 -> 'method' as method"
    saved(sandbox_dialect="postgresql", sql=SQL.replace("select id", f"select {selected}"))
    for arguments in ({}, {"sql": f"select {selected} from edge_logs order by id"}):
        row = next(csv.DictReader(io.StringIO(ask(api, "csv", **arguments).decode())))
        assert row["method"] == '"GET"'
        assert pq.read_table(io.BytesIO(ask(api, "parquet", **arguments)))["method"][0].as_py() == '"GET"'
