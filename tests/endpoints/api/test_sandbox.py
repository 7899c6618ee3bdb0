"""Sandbox queries over HTTP: both endpoints, every way to send `sql`, every format, every refusal in the one body."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from endpoints.access.access_tokens import issue_access_token
from endpoints.models import Endpoint
from tests.conftest import ApiClient
from tests.moments import now

pytestmark = [pytest.mark.django_db, pytest.mark.sql]
IN_METADATA = {
    "function_edge_logs": "project_ref",
    "function_logs": "project_ref",
    "realtime_logs": "project",
    "storage_logs": "project",
}
TABLES = (
    "edge_logs", "database_logs", "function_edge_logs", "function_logs", "auth_logs", "realtime_logs", "storage_logs",
    "rest_logs", "pooler_logs",
)  # fmt: skip
URL = "/api/endpoints/query/logs.all"


@pytest.fixture
def rows(insert_rows) -> None:
    """In every log table two rows of acme and one of globex."""
    for table in TABLES:
        for number, project in enumerate(("acme", "globex", "acme")):
            path = IN_METADATA.get(table)
            row = {
                "timestamp": now() - timedelta(minutes=number),
                "event_message": f"{table} of {project} from 203.0.113.{number}",
                "metadata": [{path: project} if path else {}],
            }
            insert_rows(table, [row if path else {**row, "project": project}])


@pytest.mark.parametrize("table", TABLES)
def test_reads_each_of_the_nine_tables(api, rows, table) -> None:
    sql = f"select event_message from {table} order by timestamp"
    result = api.query("logs.all", {"project": "acme", "sql": sql}).json()["result"]
    assert [row["event_message"][: len(table) + 8] for row in result] == [f"{table} of acme"] * 2
    for column in ("timestamp", "id", "event_message", "metadata"):
        answer = api.query("logs.all", {"project": "acme", "sql": f"select {column} from {table}"})
        assert list(answer.json()["result"][0]) == [column]


def test_joins_the_tables(api, rows) -> None:
    sql = " union all ".join(f"select '{table}' as name, count(*) as n from {table}" for table in TABLES)
    result = api.query("logs.all", {"project": "acme", "sql": sql}).json()["result"]
    assert result == [{"name": table, "n": 2} for table in TABLES]


def test_counts_requests_of_chart_counts_and_dates(api, insert_rows) -> None:
    metadata = [{"request": [{"url": "https://acme.example.org/rest/v1/x", "path": "/rest/v1/x"}]}]
    insert_rows("edge_logs", [{"timestamp": now(), "project": "acme", "metadata": metadata}])
    arguments = {"interval": "daily", "project": "acme"}
    sql = (
        "select sum(total_rest_requests)::int as n from chart_counts where timestamp > (select window_start from dates)"
    )
    assert api.query("usage.api-counts", {**arguments, "sql": sql}).json() == {"result": [{"n": 1}]}
    arguments["project"] = "globex"
    assert api.query("usage.api-counts", {**arguments, "sql": sql}).json() == {"result": [{"n": None}]}


SQL = "select @project as p, count(*) as n from edge_logs"


@pytest.mark.parametrize(
    "send",
    [
        lambda api: api.get(URL, {"project": "acme", "sql": SQL}),
        lambda api: api.post(URL, {"project": "acme", "sql": SQL}),
        lambda api: api.post(URL, {"project": "acme", "sql": SQL}, content_type="application/json"),
        lambda api: api.post(f"{URL}?project=acme", {"sql": SQL}, content_type="application/json"),
        lambda api: api.generic(
            "GET", f"{URL}?project=acme", json.dumps({"sql": SQL}), content_type="application/json"
        ),
        lambda api: api.post(URL, f"project=acme&sql={SQL}", content_type="application/x-www-form-urlencoded"),
    ],
)
def test_sql_is_read_from_wherever_arguments_are(api, rows, send) -> None:
    response = send(api)
    assert response.status_code == 200
    assert response.json() == {"result": [{"p": "acme", "n": 2}]}


def test_answers_by_uuid_too(api, rows) -> None:
    uuid = Endpoint.objects.get(name="logs.all").pk
    assert api.query(str(uuid), {"project": "acme", "sql": SQL}).json() == {"result": [{"p": "acme", "n": 2}]}


def test_csv_and_ndjson(api, rows) -> None:
    arguments = {"project": "acme", "sql": SQL}
    assert api.query("logs.all", arguments, Accept="text/csv").content == b"p,n\r\nacme,2\r\n"
    assert api.query("logs.all", arguments, Accept="application/x-ndjson").content == b'{"p":"acme","n":2}\n'


def test_redaction(api, rows) -> None:
    arguments = {"project": "acme", "sql": "select event_message from edge_logs limit 1"}
    plain = api.query("logs.all", arguments).json()["result"]
    assert plain == [{"event_message": "edge_logs of acme from 203.0.113.0"}]
    redacted = api.query("logs.all", arguments, SVC_ENDPOINT_REDACT_PII="true").json()["result"]
    assert redacted == [{"event_message": "edge_logs of acme from REDACTED"}]


def test_tells_of_a_cut_result(api, rows) -> None:
    response = api.query("logs.all", {"project": "acme", "sql": "select generate_series(1, 1001) as n"})
    assert (response.headers["X-Result-Rows"], response.headers["X-Result-Truncated"]) == ("1000", "true")
    response = api.query("logs.all", {"project": "acme", "sql": "select generate_series(1, 1000) as n"})
    assert "X-Result-Truncated" not in response.headers


def test_a_bound_access_token_sees_its_project_only(rows) -> None:
    bound = ApiClient(issue_access_token(name="bound", bound_arguments={"project": "globex"}).secret)
    for table in TABLES:
        sql = f"select event_message from {table}"
        (row,) = bound.query("logs.all", {"sql": sql}).json()["result"]
        assert row["event_message"].startswith(f"{table} of globex")
    refused = bound.query("logs.all", {"sql": "select 1", "project": "acme"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "argument_not_allowed")


@pytest.mark.parametrize(
    ("sql", "code", "line", "column"),
    [
        ("select id\nfrom auth_users", "sandbox_violation", 2, 6),
        ("select id from edge_logs\n where nothing = 1", "invalid_sql", 2, 8),
        ("select sum(event_message) from edge_logs", "invalid_sql", 1, 8),
        ("select @project + 1 -- @", "invalid_sql", 1, 17),
    ],
)
def test_errors_tell_the_place_in_the_consumers_text(api, rows, sql, code, line, column) -> None:
    response = api.query("logs.all", {"project": "acme", "sql": sql})
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, code)
    assert (error["details"][0]["line"], error["details"][0]["column"]) == (line, column)
    assert error["request_id"] == response.headers["X-Request-ID"]


@pytest.mark.parametrize("sql", ["select 1 / 0 from edge_logs", "select event_message::int from edge_logs"])
def test_errors_hold_no_row_value(api, rows, sql) -> None:
    response = api.query("logs.all", {"project": "acme", "sql": sql})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_sql")
    assert b"203.0.113" not in response.content
    assert b"sandbox_" not in response.content


def test_a_missing_argument_is_told_before_the_query_is_read(api) -> None:
    error = api.query("logs.all", {"sql": "select"}).json()["error"]
    assert error["code"] == "invalid_parameters"


def test_a_query_over_the_time_limit_is_504(api, rows) -> None:
    Endpoint.objects.filter(name="logs.all").update(statement_timeout_seconds=1)
    sql = "select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b"
    response = api.query("logs.all", {"project": "acme", "sql": sql})
    assert (response.status_code, response.json()["error"]["code"]) == (504, "query_timeout")


# A thousand texts that grow to 4 MiB each: allowed one by one, and more than the embedded PostgreSQL gives a process.
HUNGRY = (
    "select max(length(long)) as n from (select string_agg(word, '') as long"
    " from (select generate_series(1, 1000000) as n) as numbers,"
    " (select string_agg('0123456789', '') as word from generate_series(1, 400)) as words group by n % 1000) as longs"
)
SPILLING = "select count(*) as n from generate_series(1, 100000000) as n"  # kept whole, on disk


def error_of(response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


@pytest.mark.parametrize(("sql", "lacking"), [(HUNGRY, "memory"), (SPILLING, "temporary disk space")])
@pytest.mark.parametrize("accept", ["application/json", "text/csv"])
def test_a_query_that_takes_too_much_is_a_400_and_pauses_the_sandbox_queries_of_its_access_token(
    api, rows, accept, sql, lacking
) -> None:
    Endpoint.objects.filter(name="logs.all").update(stream_rows=1000, statement_timeout_seconds=60)
    response = api.query("logs.all", {"project": "acme", "sql": sql}, Accept=accept)
    assert error_of(response) == (400, "query_too_costly")
    reason, hint = f"The query needs more {lacking} than it may use.", "Read fewer rows or columns"
    assert response.json()["error"]["message"].startswith(f"{reason} {hint}")
    (detail,) = response.json()["error"]["details"]
    assert (detail["reason"], detail["hint"].startswith(hint)) == (reason, True)
    for sent in ({"sql": "select 1 as n"}, {"lql": "c:count(*)"}):
        assert error_of(api.query("logs.all", {"project": "acme", **sent})) == (429, "sandbox_suspended")
    assert api.query("logs.all", {"project": "acme"}).status_code == 200
    other = ApiClient(issue_access_token(name="other").secret)
    assert other.query("logs.all", {"project": "acme", "sql": "select 1 as n"}).status_code == 200


def test_lql_answers_with_rows(api, rows) -> None:
    response = api.query("logs.all", {"project": "acme", "lql": "c:count(*) c:group_by(t::day)"})
    assert response.status_code == 200
    assert list(response.json()["result"][0]) == ["timestamp", "count"]


def test_lql_that_cannot_be_read_is_a_400_with_its_place(api) -> None:
    response = api.query("logs.all", {"project": "acme", "lql": "m.level:error\nc:min(m.latency)"})
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "invalid_lql")
    assert (error["details"][0]["line"], error["details"][0]["found"]) == (2, "min")
    assert "`avg`" in error["details"][0]["expected"]
