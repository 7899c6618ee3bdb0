"""Parquet and Arrow over HTTP: ordinary results, with the cache, the limits and the walls of the others."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.conf import settings as django_settings
from django.core.management import call_command

from endpoints.access.access_tokens import issue_access_token
from endpoints.api import negotiation
from endpoints.cache import QueryRequest
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.results.encoding import BINARY_FORMATS
from endpoints.results.outcomes import ResultFormat
from endpoints.sql.parameters import DeclaredParameter
from tests.conftest import ApiClient
from tests.files import PROJECT

pytestmark = pytest.mark.django_db
PARQUET, ARROW = ResultFormat.PARQUET.value, ResultFormat.ARROW.value
FORMATS = [PARQUET, ARROW]
MOMENT = datetime(2025, 6, 2, 8, 15, 2, 120000, tzinfo=UTC)
ADDRESS = "203.0.113.7"


def read(body: bytes) -> pa.Table:
    if body.startswith(b"PAR1"):
        return pq.read_table(io.BytesIO(body))
    return pa.ipc.open_stream(body).read_all()


def rows_of(response: Any) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.content[:1000]
    assert response["Content-Type"] in FORMATS
    rows: list[dict[str, Any]] = read(response.content).to_pylist()
    return rows


def error_of(response: Any) -> tuple[int, str]:
    """Return status and code of a failure, which is JSON whatever the call accepts."""
    assert response["Content-Type"] == "application/json; charset=utf-8"
    return response.status_code, response.json()["error"]["code"]


@pytest.fixture
def logs(insert_rows: Callable[..., None]) -> None:
    """Two rows of acme and one of globex, each with an address."""
    insert_rows(
        "edge_logs",
        [
            {
                "id": f"{project}-{number}",
                "project": project,
                "timestamp": MOMENT,
                "event_message": f"GET / from {ADDRESS}",
                "metadata": [{"request": {"ip": ADDRESS}}],
            }
            for project, number in (("acme", 1), ("acme", 2), ("globex", 1))
        ],
    )


# --- As any result ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("accept", FORMATS)
def test_a_call_gets_the_rows_of_json(api: ApiClient, logs: None, accept: str) -> None:
    response = api.query("logs.all", {"project": "acme"}, Accept=accept)
    assert response["Content-Type"] == accept
    assert (response["X-Result-Rows"], response["X-Cache"]) == ("2", "bypass")
    assert "Accept" in response["Vary"]
    documents = api.query("logs.all", {"project": "acme"}).json()["result"]
    expected = [{**row, "timestamp": MOMENT, "metadata": row["metadata"]} for row in documents]
    assert [{**row, "metadata": orjson.loads(row["metadata"])} for row in rows_of(response)] == expected


@pytest.mark.parametrize("accept", FORMATS)
def test_before_django_the_answer_is_the_same(ask: Any, secret: str, logs: None, accept: str) -> None:
    path = "/api/endpoints/query/logs.all"
    plain = ask("project=acme", path=path, accept=accept, x_api_key=secret)
    # Whatever comes from a browser goes to Django.
    other = ask("project=acme", path=path, accept=accept, x_api_key=secret, origin="https://example.org")
    assert plain[0] == other[0] == 200
    assert plain[1]["Content-Type"] == other[1]["Content-Type"] == accept
    assert plain[2] == other[2]
    assert plain[1]["Content-Length"] == str(len(plain[2]))


@pytest.mark.parametrize("accept", FORMATS)
def test_head_and_post_answer_too(api: ApiClient, logs: None, accept: str) -> None:
    address = "/api/endpoints/query/logs.all"
    head = api.head(f"{address}?project=acme", headers={"Accept": accept})
    assert (head.status_code, head["Content-Type"], head.content) == (200, accept, b"")
    posted = api.post(address, {"project": "acme"}, content_type="application/json", headers={"Accept": accept})
    assert len(rows_of(posted)) == 2


@pytest.mark.parametrize("accept", FORMATS)
def test_failures_are_json(api: ApiClient, accept: str) -> None:
    assert error_of(api.query("logs.all", Accept=accept)) == (400, "invalid_parameters")
    assert error_of(ApiClient("wrong").query("logs.all", Accept=accept)) == (401, "not_authenticated")
    assert error_of(api.query("no.such", Accept=accept)) == (404, "endpoint_not_found")


def test_results_are_cached_by_format(api: ApiClient) -> None:
    save_endpoint(Endpoint(name="test.cached", sql="SELECT random()::text AS run", cache_seconds=600), [])
    first = {accept: api.query("test.cached", Accept=accept) for accept in ("application/json", *FORMATS)}
    again = {accept: api.query("test.cached", Accept=accept) for accept in first}
    assert {response["X-Cache"] for response in first.values()} == {"miss"}
    assert {response["X-Cache"] for response in again.values()} == {"hit"}
    assert {accept: response.content for accept, response in first.items()} == {
        accept: response.content for accept, response in again.items()
    }
    assert len({response["ETag"] for response in first.values()}) == 3
    for accept in FORMATS:
        unchanged = api.query("test.cached", Accept=accept, If_None_Match=first[accept]["ETag"])
        assert (unchanged.status_code, unchanged.content) == (304, b"")
        other = api.query("test.cached", Accept=accept, If_None_Match=first["application/json"]["ETag"])
        assert other.status_code == 200


@pytest.mark.parametrize("accept", FORMATS)
def test_the_same_rows_make_the_same_bytes(api: ApiClient, logs: None, accept: str) -> None:
    one, other = (api.query("logs.all", {"project": "acme"}, Accept=accept) for _ in range(2))
    assert (one["X-Cache"], one["ETag"]) == ("bypass", other["ETag"])


@pytest.mark.parametrize("result_format", sorted(BINARY_FORMATS))
def test_a_request_can_be_warmed(result_format: ResultFormat) -> None:
    request = QueryRequest({"a": "b"}, "", "", redact=True, format=result_format)
    assert QueryRequest.from_json(request.canonical) == request


@pytest.mark.parametrize("accept", FORMATS)
def test_sandbox_queries_have_types(api: ApiClient, logs: None, accept: str) -> None:
    sql = "select timestamp, count(*) as n, array_agg(id order by id) as ids from edge_logs group by timestamp"
    response = api.query("logs.all", {"project": "acme", "sql": sql}, Accept=accept)
    assert rows_of(response) == [{"timestamp": MOMENT, "n": 2, "ids": ["acme-1", "acme-2"]}]
    assert read(response.content).schema.field("n").type == pa.int64()
    counted = api.query("logs.all", {"project": "acme", "lql": "c:count(*)"}, Accept=accept)
    assert [row["count"] for row in rows_of(counted)] == [2]


@pytest.mark.parametrize("accept", FORMATS)
def test_the_dialect_of_bigquery_has_types(api: ApiClient, log_database: Any, logs: None, accept: str) -> None:
    call_command("import_endpoints", str(PROJECT / "fixtures" / "compat"), verbosity=0)
    sql = "select timestamp, [timestamp] as list, r.ip from edge_logs cross join unnest(metadata) as m"
    sql += " cross join unnest(m.request) as r where timestamp > timestamp('2025-01-01') limit 1"
    arguments = {"project": "acme", "sql": sql, "iso_timestamp_start": "2025-01-01"}
    in_json = api.query("logs.all", arguments).json()["result"]
    table = read(api.query("logs.all", arguments, Accept=accept).content)
    microseconds = round(MOMENT.timestamp() * 1_000_000)
    assert [row["timestamp"] for row in in_json] == [microseconds] * len(in_json)
    assert table.schema.field("timestamp").type == pa.timestamp("us", "UTC")
    assert [row["timestamp"] for row in table.to_pylist()] == [MOMENT] * len(in_json)


# --- Walls ------------------------------------------------------------------------------------------------------------
@pytest.fixture
def careless(logs: None) -> Endpoint:
    """An endpoint whose SQL forgets its tenant; PostgreSQL does not."""
    return save_endpoint(
        Endpoint(
            name="test.careless",
            sql="with a as (select * from edge_logs) select id, @project as project, event_message from a order by id",
            tenant_parameter="project",
            sandboxing=True,
            cache_seconds=600,
        ),
        [DeclaredParameter("project", required=True)],
    )


@pytest.mark.parametrize("accept", FORMATS)
def test_a_tenant_sees_its_own_rows(api: ApiClient, careless: Endpoint, accept: str) -> None:
    for project, ids in (("acme", ["acme-1", "acme-2"]), ("globex", ["globex-1"]), ("acme' or true --", [])):
        stored = rows_of(api.query("test.careless", {"project": project}, Accept=accept))
        assert [row["id"] for row in stored] == ids
        for sql in ("select id from a order by id", "select id from a where true or project <> 'acme' order by id"):
            own = rows_of(api.query("test.careless", {"project": project, "sql": sql}, Accept=accept))
            assert [row["id"] for row in own] == ids


@pytest.mark.parametrize("accept", FORMATS)
def test_a_bound_argument_binds(careless: Endpoint, accept: str) -> None:
    token = issue_access_token(name="of acme", bound_arguments={"project": "acme"})
    bound, free = ApiClient(token.secret), ApiClient(issue_access_token(name="free").secret)
    # A result of another one is in the cache, of this format.
    assert len(rows_of(free.query("test.careless", {"project": "globex"}, Accept=accept))) == 1
    assert [row["id"] for row in rows_of(bound.query("test.careless", Accept=accept))] == ["acme-1", "acme-2"]
    for arguments in ({"project": "globex"}, {"project": "globex", "sql": "select id from a"}):
        assert error_of(bound.query("test.careless", arguments, Accept=accept)) == (403, "argument_not_allowed")
    etag = free.query("test.careless", {"project": "globex"}, Accept=accept)["ETag"]
    refused = bound.query("test.careless", {"project": "globex"}, Accept=accept, If_None_Match=etag)
    assert error_of(refused) == (403, "argument_not_allowed")


@pytest.mark.parametrize("accept", FORMATS)
def test_the_sandbox_holds(api: ApiClient, careless: Endpoint, accept: str) -> None:
    for sql in ("select * from edge_logs", "select rolname from pg_authid", "select 1; select 2"):
        refused = api.query("test.careless", {"project": "acme", "sql": sql}, Accept=accept)
        assert error_of(refused) == (400, "sandbox_violation")


REVEALING = {
    "text": "event_message",
    "json": "metadata",
    "list": "array[event_message]",
    "lists": "array[array[event_message], array[id]]",
    "mixed lists": "case when id like '%1' then array[event_message] else array[[event_message]] end",
    "list of json": "array[metadata]",
    "record": "row(id, event_message)",
    "address": f"'{ADDRESS}'::inet",
    "bytes": "convert_to(event_message, 'UTF8')",
    "bytes in text": "event_message::bytea",
    "list of bytes": "array[event_message::bytea]",
    "name": "event_message::name",
    "fixed width": "event_message::char(100)",
    "vector": f"'{ADDRESS}'::tsvector",
    "range": f"('[{ADDRESS},{ADDRESS}]')::text",
}


@pytest.mark.parametrize("accept", FORMATS)
@pytest.mark.parametrize("expression", REVEALING.values(), ids=REVEALING)
def test_no_type_gets_around_redaction(api: ApiClient, logs: None, expression: str, accept: str) -> None:
    sql = f"SELECT {expression} AS value FROM edge_logs"
    save_endpoint(Endpoint(name="test.redacted", sql=sql, redact_pii=True, cache_seconds=600), [])
    for header in ({}, {"SVC_ENDPOINT_REDACT_PII": "false"}, {"SVC_ENDPOINT_REDACT_PII": "true"}):
        response = api.query("test.redacted", Accept=accept, **header)
        assert len(rows_of(response)) == 3
        assert ADDRESS not in repr(read(response.content).to_pylist())
        assert ADDRESS.encode() not in response.content  # nor in the statistics of a Parquet file
        assert "REDACTED" in repr(read(response.content).to_pylist())


@pytest.mark.parametrize("accept", FORMATS)
def test_redaction_is_asked_for_by_header_and_kept_apart_in_the_cache(
    api: ApiClient, careless: Endpoint, accept: str
) -> None:
    arguments = {"project": "globex"}
    plain = rows_of(api.query("test.careless", arguments, Accept=accept))
    redacted = rows_of(api.query("test.careless", arguments, Accept=accept, SVC_ENDPOINT_REDACT_PII="true"))
    assert [row["event_message"] for row in plain + redacted] == [f"GET / from {ADDRESS}", "GET / from REDACTED"]
    misspelt = api.query("test.careless", arguments, Accept=accept, SVC_ENDPOINT_REDACT_PII="ture")
    assert error_of(misspelt) == (400, "invalid_request")


# --- Limits -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("accept", FORMATS)
def test_max_rows_cuts(api: ApiClient, accept: str) -> None:
    save_endpoint(Endpoint(name="test.many", sql="SELECT n FROM generate_series(1, 900) AS n", max_rows=500), [])
    response = api.query("test.many", Accept=accept)
    assert (response["X-Result-Truncated"], response["X-Result-Rows"]) == ("true", "500")
    assert [row["n"] for row in rows_of(response)] == list(range(1, 501))


LARGE = {
    "texts": "SELECT md5(n::text) AS text FROM generate_series(1, 20000) AS n",
    "one text, small when compressed": "SELECT repeat('x', 2000000) AS text",
    "many texts, small when compressed": "SELECT repeat('x', 1000) AS text FROM generate_series(1, 2000)",
    "small values": "SELECT 1 AS a, NULL AS b, true AS c, '' AS d FROM generate_series(1, 100000)",
    "small values in lists": "SELECT array_fill(1.0, array[100000]) AS list FROM generate_series(1, 2)",
}


@pytest.mark.parametrize("accept", FORMATS)
@pytest.mark.parametrize("sql", LARGE.values(), ids=LARGE)
def test_a_result_has_a_budget(api: ApiClient, settings: Any, sql: str, accept: str) -> None:
    settings.ENDPOINTS_MAX_RESULT_BYTES = settings.ENDPOINTS_SANDBOX_MAX_BYTES = 256 * 1024
    save_endpoint(Endpoint(name="test.large", sql=sql, max_rows=100_000), [])
    assert error_of(api.query("test.large", Accept=accept)) == (400, "result_too_large")


@pytest.mark.parametrize("accept", FORMATS)
def test_a_sandbox_query_has_a_budget(api: ApiClient, settings: Any, logs: None, accept: str) -> None:
    settings.ENDPOINTS_SANDBOX_MAX_BYTES = 64 * 1024
    sql = (
        "select a.event_message from edge_logs a cross join generate_series(1, 100) cross join generate_series(1, 100)"
    )
    save_endpoint(
        Endpoint(
            name="test.sandbox",
            sql="with edge_logs as (select * from edge_logs) select count(*) from edge_logs",
            sandboxing=True,
            max_rows=100_000,
        ),
        [],
    )
    assert error_of(api.query("test.sandbox", {"sql": sql}, Accept=accept)) == (400, "invalid_sql")


# --- Without the extra ------------------------------------------------------------------------------------------------
@pytest.fixture
def without_arrow(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The process has no pyarrow."""
    text_formats = tuple(each for each in ResultFormat if each not in BINARY_FORMATS)
    monkeypatch.setattr(negotiation, "OFFERED", text_formats)
    negotiation._remembered.cache_clear()
    yield
    negotiation._remembered.cache_clear()


@pytest.mark.parametrize("accept", FORMATS)
def test_without_the_extra_the_refusal_names_it(api: ApiClient, without_arrow: None, accept: str) -> None:
    # A query string of its own: what was read of another one is remembered.
    response = api.query("logs.all", {"project": f"without {accept}"}, Accept=accept)
    assert error_of(response) == (406, "not_acceptable")
    error = response.json()["error"]
    assert error["message"].endswith(f" It lacks the extra [arrow], which writes {accept}.")
    offered = ["application/json", "text/csv", "application/x-ndjson"]
    assert error["details"] == [{"media_type": media_type} for media_type in offered]
    other = api.query("logs.all", {"project": f"without {accept}"}, Accept=f"{accept}, */*;q=0.1")
    assert (other.status_code, other["Content-Type"]) == (200, "application/json; charset=utf-8")


def test_a_process_that_nobody_asks_for_it_does_not_import_the_library() -> None:
    program = (
        "import sys, django; django.setup(); import config.urls, config.wsgi, endpoints.api.negotiation as n\n"
        "from endpoints.results.encoding import encode_rows\n"
        "from endpoints.results.outcomes import ResultFormat, Rows\n"
        "rows = Rows(('a',), [(1,)], False, 0.0)\n"
        "texts = [encode_rows(rows, ResultFormat(each), redact=True) for each in ('application/json', 'text/csv')]\n"
        "assert ResultFormat.PARQUET in n.OFFERED\n"
        "assert not {'pyarrow', 'pandas', 'numpy'} & set(sys.modules), 'imported'\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program],
        cwd=django_settings.BASE_DIR,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
