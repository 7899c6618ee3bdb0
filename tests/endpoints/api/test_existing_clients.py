"""Clients that were written for another service: their SQL, their timestamps, their interval names, unchanged."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command

from endpoints.access.access_tokens import issue_access_token
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from tests.conftest import ApiClient
from tests.files import PROJECT
from tests.moments import now

pytestmark = pytest.mark.django_db


def now_sharp() -> datetime:
    return now().replace(microsecond=123456)


TABLES = (
    "edge_logs postgres_logs function_edge_logs function_logs auth_logs realtime_logs storage_logs postgrest_logs"
    " pgbouncer_logs pg_cron_logs supavisor_logs auth_audit_logs etl_replication_logs multigres_logs pg_upgrade_logs"
    " workflow_run_logs"
)


# It takes seconds, so what asks for the same of many tables or intervals is one test.
@pytest.fixture
def compat(log_database: Any) -> None:
    call_command("import_endpoints", str(PROJECT / "fixtures" / "compat"), verbosity=0)


@pytest.fixture
def rows(insert_rows: Callable[..., None]) -> None:
    insert_rows(
        "edge_logs",
        [
            {
                "id": f"row-{status}-{minutes}",
                "timestamp": now_sharp() - timedelta(minutes=minutes),
                "event_message": f"GET | {status}",
                "project": "default",
                "metadata": [
                    {
                        "request": [{"method": "GET", "path": "/rest/v1/x", "url": "https://default.example.com/rest"}],
                        "response": [{"status_code": status}],
                    }
                ],
            }
            for status, minutes in ((200, 1), (404, 2), (500, 3), (200, 70))
        ],
    )


def micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def result(api: ApiClient, name: str = "logs.all", **arguments: str) -> list[dict[str, Any]]:
    response = api.query(name, {"project": "default", **arguments})
    assert response.status_code == 200, response.content
    found: list[dict[str, Any]] = response.json()["result"]
    return found


def test_the_stored_query_answers_in_microseconds(api: ApiClient, compat: None, rows: None) -> None:
    newest, *_, oldest = result(api, iso_timestamp_end="")
    assert newest["timestamp"] == micros(now_sharp() - timedelta(minutes=1))
    assert len(str(oldest["timestamp"])) == 16
    assert newest["metadata"][0]["response"][0]["status_code"] == 200


def test_a_page_of_rows(api: ApiClient, compat: None, rows: None) -> None:
    sql = """select id, identifier, timestamp, event_message, request.method, request.path, response.status_code
      from edge_logs cross join unnest(metadata) as m cross join unnest(m.request) as request
      cross join unnest(m.response) as response
      where response.status_code >= 400 order by timestamp desc limit 100"""
    assert [(row["status_code"], row["identifier"]) for row in result(api, sql=sql)] == [
        (404, "default"),
        (500, "default"),
    ]
    assert result(api, sql=sql)[0]["timestamp"] == micros(now_sharp() - timedelta(minutes=2))


def test_a_chart(api: ApiClient, compat: None, rows: None) -> None:
    sql = """
-- edge-logs-chart
SELECT
  timestamp_trunc(t.timestamp, hour) as timestamp,
  count(CASE WHEN response.status_code < 400 THEN 1 END) as ok_count,
  count(CASE WHEN response.status_code >= 500 THEN 1 END) as error_count,
FROM edge_logs t
  cross join unnest(metadata) as m
  cross join unnest(m.request) as request
  cross join unnest(m.response) as response
GROUP BY timestamp
ORDER BY timestamp ASC;"""
    buckets = result(api, sql=sql)
    assert sum(bucket["ok_count"] for bucket in buckets) == 2
    assert sum(bucket["error_count"] for bucket in buckets) == 1
    assert all(bucket["timestamp"] % 3_600_000_000 == 0 for bucket in buckets)
    assert [bucket["timestamp"] for bucket in buckets] == sorted({bucket["timestamp"] for bucket in buckets})


ASKED_FOR = (
    "select workflow_run from workflow_run_logs",
    "select id, workflow_run, w.timestamp from workflow_run_logs w where workflow_run = 'x' order by w.timestamp desc",
    "select id, timestamp, event_message, metadata from etl_replication_logs where pipeline_id = 12",
    "select count(*) as n from etl_replication_logs where pipeline_id = '12' group by pipeline_id",
    *(f"select id, identifier, timestamp, event_message, metadata from {table} limit 0" for table in TABLES.split()),
)


def test_tables_have_the_columns_that_clients_ask_for(api: ApiClient, compat: None) -> None:
    assert [sql for sql in ASKED_FOR if result(api, sql=sql)] == []


def test_one_row_by_its_id(api: ApiClient, compat: None, rows: None) -> None:
    sql = "select id, timestamp, event_message, metadata from edge_logs where id = 'row-500-3' limit 1"
    (row,) = result(api, sql=sql)
    assert (row["id"], row["event_message"]) == ("row-500-3", "GET | 500")


def test_fields_are_found_in_any_case(api: ApiClient, compat: None, rows: None, insert_rows: Any) -> None:
    metadata = [{"botManagement": [{"score": 30}], "level": "info"}]
    insert_rows("auth_logs", [{"project": "default", "timestamp": now_sharp(), "metadata": metadata}])
    sql = "select m.BotManagement.score, M.LEVEL as level from auth_logs cross join unnest(metadata) as m"
    assert result(api, sql=sql) == [{"score": 30, "level": "info"}]
    assert result(api, sql=sql.replace("BotManagement", "botmanagement")) == [{"score": None, "level": "info"}]


def test_a_misspelt_column_is_null_and_noted(api: ApiClient, compat: None, rows: None) -> None:
    sql = "select event_massage from edge_logs t cross join unnest(metadata) m limit 1"
    response = api.query("logs.all", {"project": "default", "sql": sql})
    assert (response.status_code, response.json()["result"]) == (200, [{"event_massage": None}])
    assert response["X-Result-Notes"] == "metadata.event_massage: no sampled row has this field"


def test_rows_of_another_project_tell_nothing_about_a_name(
    api: ApiClient, compat: None, rows: None, insert_rows: Any
) -> None:
    insert_rows("edge_logs", [{"project": "other", "timestamp": now_sharp(), "metadata": [{"event_massage": "back"}]}])
    sql = "select event_massage from edge_logs cross join unnest(metadata) m limit 1"
    assert "X-Result-Notes" in api.query("logs.all", {"project": "default", "sql": sql})
    other = api.query("logs.all", {"project": "other", "sql": sql})
    assert other.json()["result"] == [{"event_massage": "back"}]
    assert "X-Result-Notes" not in other


def test_a_header_names_fields_that_no_row_has(api: ApiClient, compat: None, rows: None) -> None:
    endpoint = Endpoint.objects.get(name="logs.all")
    endpoint.cache_seconds = 60
    save_endpoint(endpoint, endpoint.parameters_of_version)
    sql = "select r.methd, r.pth from edge_logs cross join unnest(metadata) m cross join unnest(m.request) r"
    for state in ("miss", "hit"):
        response = api.query("logs.all", {"project": "default", "sql": sql})
        assert response.headers["X-Cache"] == state
        assert response.headers["X-Result-Notes"] == (
            "metadata.request.methd: no sampled row has this field; metadata.request.pth: no sampled row has this field"
        )
    unchanged = api.query("logs.all", {"project": "default", "sql": sql}, if_none_match=response.headers["ETag"])
    assert (unchanged.status_code, "X-Result-Notes" in unchanged.headers) == (304, True)
    of_columns = api.query("logs.all", {"project": "default", "sql": "select id from edge_logs"})
    assert "X-Result-Notes" not in of_columns.headers


def test_every_table_exists(api: ApiClient, compat: None, rows: None) -> None:
    counts = {table: result(api, sql=f"select count(*) as count from {table}") for table in TABLES.split()}
    assert counts == {table: [{"count": 4 if table == "edge_logs" else 0}] for table in TABLES.split()}


def test_a_page_of_every_table_is_read_by_its_columns(api: ApiClient, compat: None, rows: None) -> None:
    for table in TABLES.split():
        sql = f"select identifier, id, {table}.timestamp, event_message, metadata from {table} order by timestamp desc"
        found = result(api, sql=f"{sql} limit 100")
        assert [row["identifier"] for row in found] == ["default"] * (4 if table == "edge_logs" else 0), table
        assert result(api, sql=f"select count(t.id) as n from {table} t where t.metadata is null") == [{"n": 0}]


def test_pg_cron_logs_are_the_lines_of_pg_cron_in_the_database_logs(
    api: ApiClient, compat: None, insert_rows: Callable[..., None]
) -> None:
    parsed = {
        "launcher": {"backend_type": "pg_cron launcher"},
        "worker": {"backend_type": "pg_cron worker", "application_name": ""},
        "job": {"backend_type": "client backend", "application_name": "pg_cron"},
        "other": {"backend_type": "client backend", "application_name": "psql"},
        "alike": {"backend_type": "pgXcron"},
        "nothing": {},
    }
    insert_rows(
        "database_logs",
        [
            {
                "id": id,
                "timestamp": now_sharp() - timedelta(minutes=number),
                "event_message": f"cron job {number}",
                "project": "default",
                "metadata": [{"parsed": [fields]}],
            }
            for number, (id, fields) in enumerate(parsed.items())
        ],
    )
    sql = "select id from pg_cron_logs order by timestamp desc limit 100"
    assert [row["id"] for row in result(api, sql=sql)] == ["launcher", "worker", "job"]
    assert result(api, sql="select count(*) as n from postgres_logs") == [{"n": 6}]


def test_what_is_not_supported_is_named_with_its_place(api: ApiClient, compat: None) -> None:
    response = api.query("logs.all", {"project": "default", "sql": "select id\nfrom edge_logs tablesample system (1)"})
    assert response.status_code == 400
    assert response.json()["error"]["details"][0]["line"] == 2


def test_lql_answers_in_microseconds_too(api: ApiClient, compat: None, rows: None) -> None:
    assert result(api, lql="m.response.status_code:500")[0]["timestamp"] == micros(now_sharp() - timedelta(minutes=3))


def test_the_values_of_an_lql_chart_are_called_count_whatever_they_are(
    api: ApiClient, compat: None, rows: None
) -> None:
    for aggregate, value in (("count(*)", 4), ("countd(m.request.path)", 1), ("max(m.response.status_code)", 500)):
        found = result(api, lql=f"c:{aggregate} c:group_by(t::day)")
        assert {tuple(bucket) for bucket in found} == {("timestamp", "count")}
        assert max(bucket["count"] for bucket in found) in range(1, value + 1)
        assert len(str(found[0]["timestamp"])) == 16


def test_interval_names_of_both_generations(api: ApiClient, compat: None, rows: None) -> None:
    for older, newer, count in (("minutely", "1hr", 3), ("hourly", "1day", 4), ("daily", "7day", 4)):
        old, new = (result(api, "usage.api-counts", interval=interval) for interval in (older, newer))
        assert sum(row["total_rest_requests"] for row in new) == count, newer
        assert sum(row["total_rest_requests"] for row in old) == count, older
        assert len(str(new[0]["timestamp"])) == 16


def gateway_row(id: str, moment: datetime, project: str = "default", url: str | None = None) -> dict[str, Any]:
    """Return a row as a gateway without a domain of the project writes it: a path, and no URL unless one is given."""
    request = {"method": "GET", "path": "/rest/v1/x"} | ({"url": url} if url else {})
    metadata = [{"request": [request], "response": [{"status_code": 200}]}]
    return {"id": id, "timestamp": moment, "event_message": "m", "project": project, "metadata": metadata}


def counts_of(api: ApiClient, project: str, interval: str = "1hr") -> int:
    response = api.query("usage.api-counts", {"project": project, "interval": interval})
    return sum(bucket["total_rest_requests"] for bucket in response.json()["result"])


def test_usage_counts_rows_of_the_project_and_rows_whose_url_matches_it_each_once(
    api: ApiClient, compat: None, insert_rows: Callable[..., None]
) -> None:
    moment = now_sharp() - timedelta(minutes=2)
    insert_rows(
        "edge_logs",
        [
            gateway_row("no URL", moment),
            gateway_row("both", moment, url="https://default.example.com/rest/v1/x"),
            gateway_row("URL of it, row of another", moment, project="acme", url="https://default.example.com/rest"),
            gateway_row("of another", moment, project="acme"),
            gateway_row("too long for the covering index", moment, url="https://example.com/" + "x" * 1300),
        ],
    )
    assert counts_of(api, "default") == 4
    assert counts_of(api, "acme") == 2
    assert counts_of(api, "^https://default[.]") == 2
    assert counts_of(api, "defaul.") == 2, "a row belongs to a project by its whole name alone"


def test_the_window_may_be_unix_times_of_any_unit(api: ApiClient, compat: None, rows: None) -> None:
    start, end = micros(now_sharp() - timedelta(minutes=2, seconds=30)), micros(now_sharp() - timedelta(seconds=90))
    for to_unit in (lambda t: t // 10**6, lambda t: t // 10**3, lambda t: t, lambda t: t * 1000):
        found = result(api, iso_timestamp_start=str(to_unit(start)), iso_timestamp_end=str(to_unit(end)))
        assert [row["id"] for row in found] == ["row-404-2"]


def test_a_missing_project_is_the_default_and_a_bond_of_the_access_token_wins_over_it(
    api: ApiClient, compat: None, rows: None, insert_rows: Callable[..., None]
) -> None:
    insert_rows("edge_logs", [gateway_row("of acme", now_sharp() - timedelta(minutes=5), project="acme")])
    bound = ApiClient(issue_access_token(name="acme", bound_arguments={"project": "acme"}).secret)

    def ids(caller: ApiClient, **arguments: str) -> list[str]:
        return [row["id"] for row in caller.query("logs.all", arguments).json()["result"]]

    assert ids(api) == ids(api, project="") == ids(api, project="default")
    assert len(ids(api)) == 4
    assert ids(api, project="acme") == ids(bound) == ids(bound, project="acme") == ["of acme"]
    assert ids(api, sql="select id from edge_logs order by id") == sorted(ids(api))
    assert bound.query("logs.all", {"project": "default"}).status_code == 403
    assert (
        sum(row["total_rest_requests"] for row in api.query("usage.api-counts", {"interval": "1day"}).json()["result"])
        == 4
    )
    parameters = api.get("/api/openapi.json").json()["paths"]["/api/endpoints/query/logs.all"]["get"]["parameters"]
    (project,) = (one for one in parameters if one["name"] == "project")
    assert (project["required"], project["schema"]["default"]) == (False, "default")


def test_other_endpoints_keep_their_dialect_and_their_timestamps(api: ApiClient, compat: None, rows: None) -> None:
    sql = "WITH t AS (SELECT timestamp FROM logs.edge_logs) SELECT timestamp FROM t"
    save_endpoint(Endpoint(name="plain", sql=sql, sandboxing=True), ())
    assert result(api, "plain")[0]["timestamp"].endswith("Z")
    assert api.query("plain", {"sql": "select countif(true) from t"}).status_code == 400


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT '2025-06-02T08:15:02.000001Z'::timestamptz AS t", 1748852102000001),
        ("SELECT '1969-12-31T23:59:59.999999Z'::timestamptz AS t", -1),
        ("SELECT NULL::timestamptz AS t", None),
        ("SELECT 'infinity'::timestamptz AS t", "infinity"),
        ("SELECT '2025-06-02 08:15:02'::timestamp AS t", "2025-06-02T08:15:02.000000"),
        ("SELECT ARRAY['2025-06-02T08:15:02Z'::timestamptz] AS t", ["2025-06-02T08:15:02.000000Z"]),
        ("SELECT '0044-03-15 00:00:00+00 BC'::timestamptz AS t", "0044-03-15 00:00:00+00 BC"),
    ],
)
def test_microseconds_are_exact_and_of_the_outermost_level_alone(api: ApiClient, sql: str, expected: object) -> None:
    save_endpoint(Endpoint(name="micros", sql=sql, timestamps_as="unix_microseconds"), ())
    assert result(api, "micros") == [{"t": expected}]


def test_microseconds_in_csv_and_redacted(api: ApiClient) -> None:
    sql = "SELECT '2025-06-02T08:15:02Z'::timestamptz AS t, '192.0.2.1' AS a"
    save_endpoint(Endpoint(name="micros", sql=sql, timestamps_as="unix_microseconds", redact_pii=True), ())
    assert result(api, "micros") == [{"t": 1748852102000000, "a": "REDACTED"}]
    assert api.query("micros", accept="text/csv").content == b"t,a\r\n1748852102000000,REDACTED\r\n"
