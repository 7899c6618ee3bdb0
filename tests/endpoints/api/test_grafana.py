"""The requests of Grafana's data source Infinity 3.11, set up as docs/grafana.md says, and how it reads the answers.

It is Go's HTTP client: parameters sorted and form-encoded, gzip allowed. It takes an empty body and every status from
400 on for an error, and reads JSON, whole numbers too, into doubles.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.core.management import call_command

from tests.endpoints.api.conftest import Ask
from tests.files import PROJECT

pytestmark = pytest.mark.django_db

LOGS = "/api/endpoints/query/logs.all"
COUNTS = "/api/endpoints/query/usage.api-counts"
# What it sends for each type of query; UQL and the health check ask for no format.
ACCEPT = {
    "json": "application/json;q=0.9,text/plain",
    "graphql": "application/json;q=0.9,text/plain",
    "csv": "text/csv; charset=utf-8",
    "uql": "",
}
NOW = datetime.now(UTC).replace(microsecond=250_000)
FROM, TO = NOW - timedelta(minutes=10), NOW - timedelta(minutes=1)


def milliseconds(moment: datetime) -> str:
    return str(int(moment.timestamp() * 1000))


def iso(moment: datetime) -> str:
    """Go's layout 2006-01-02T15:04:05.999Z, which drops zeros at the end of a fraction."""
    text = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}"
    return f"{text.rstrip('0').rstrip('.')}Z"


# How it writes a moment of the dashboard.
MACROS: dict[str, Callable[[datetime], str]] = {
    "${__timeFrom}": milliseconds,
    "${__from}": milliseconds,
    "${__timeFrom:date:iso}": iso,
    "${__from:date:iso}": lambda moment: f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z",
    "${__timeFrom:date:seconds}": lambda moment: str(int(moment.timestamp())),
}


@pytest.fixture
def rows(insert_rows: Callable[..., None]) -> None:
    request = {"method": "GET", "path": "/rest/v1/x", "url": "https://acme.example.com/rest/v1/x"}
    insert_rows(
        "edge_logs",
        [
            {
                "id": f"row-{minutes}",
                "timestamp": NOW - timedelta(minutes=minutes),
                "event_message": 'GET | "500", /rest',
                "project": "acme",
                "metadata": [{"request": [request], "response": [{"status_code": 500}]}],
            }
            for minutes in (0, 5, 20)
        ],
    )


@pytest.fixture
def query(ask: Ask, secret: str) -> Callable[..., tuple[int, dict[str, str], bytes]]:
    """Send a query as the data source does, with its API key in the header."""

    def send(path: str, *, type: str = "json", method: str = "GET", body: bytes = b"", **params: str) -> Any:
        headers = {"user_agent": "Go-http-client/1.1", "accept_encoding": "gzip", "x_api_key": secret}
        headers |= {"accept": ACCEPT[type]} if ACCEPT[type] else {}
        return ask(urlencode(sorted(params.items())), path=path, method=method, body=body, **headers)

    return send


def time_of(text: str) -> datetime:
    """Read a column of type Time, format Auto: RFC 3339."""
    return datetime.fromisoformat(text)


def test_the_health_check_tells_a_valid_access_token_from_another_one(query: Any, ask: Ask) -> None:
    status, headers, body = query("/api/openapi.json", type="uql")
    assert status == 200
    assert body
    assert "Content-Encoding" not in headers
    assert ask("", path="/api/openapi.json", user_agent="Go-http-client/1.1", x_api_key="lqe_0")[0] == 401


@pytest.mark.parametrize("macro", MACROS)
def test_json_of_the_time_that_the_dashboard_shows(query: Any, rows: None, macro: str) -> None:
    start, end = MACROS[macro](FROM), MACROS[macro](TO)
    status, headers, body = query(LOGS, project="acme", iso_timestamp_start=start, iso_timestamp_end=end)
    assert (status, headers["Content-Type"]) == (200, "application/json; charset=utf-8")
    (row,) = json.loads(body)["result"]  # root selector: result
    assert row["id"] == "row-5"
    assert time_of(row["timestamp"]) == NOW - timedelta(minutes=5)


def test_whole_minutes_as_a_layout_of_its_own(query: Any, rows: None) -> None:
    minute = f"{FROM:%Y-%m-%dT%H:%M}"  # ${__timeFrom:date:YYYY-MM-DDTHH:mm}
    found = json.loads(query(LOGS, project="acme", iso_timestamp_start=minute)[2])["result"]
    assert [row["id"] for row in found] == ["row-0", "row-5"]


def test_csv(query: Any, rows: None) -> None:
    lql = "s:timestamp s:event_message s:m.response.status_code@status"
    status, headers, body = query(LOGS, type="csv", project="acme", lql=lql)
    assert (status, headers["Content-Type"]) == (200, "text/csv; charset=utf-8")
    newest, *others = csv.DictReader(io.StringIO(body.decode()))
    assert len(others) == 2
    assert (newest["event_message"], newest["status"]) == ('GET | "500", /rest', "500")
    assert time_of(newest["timestamp"]) == NOW


@pytest.mark.parametrize(
    ("type", "empty"), [("json", b'{"result":[]}'), ("csv", b"id,timestamp,event_message,metadata\r\n")]
)
def test_no_rows_are_no_empty_body(query: Any, type: str, empty: bytes) -> None:
    assert query(LOGS, type=type, project="nobody")[::2] == (200, empty)


def test_uql_and_a_query_by_post(query: Any, rows: None) -> None:
    assert len(json.loads(query(LOGS, type="uql", project="acme")[2])["result"]) == 3
    body = json.dumps({"project": "acme", "iso_timestamp_start": int(milliseconds(FROM))}).encode()
    assert len(json.loads(query(LOGS, method="POST", body=body)[2])["result"]) == 2


def test_a_time_series(query: Any, rows: None) -> None:
    body = query(COUNTS, interval="daily", project="acme")[2]
    buckets = json.loads(body)["result"]
    assert sum(bucket["total_rest_requests"] for bucket in buckets) == 3
    assert [time_of(bucket["timestamp"]) for bucket in buckets] == sorted(time_of(one["timestamp"]) for one in buckets)


def test_an_endpoint_for_existing_clients_has_milliseconds_if_the_query_selects_them(query: Any, rows: None) -> None:
    call_command("import_endpoints", str(PROJECT / "fixtures" / "compat"), verbosity=0)
    sql = "select timestamp as micros, unix_millis(timestamp) as millis from edge_logs where id = 'row-5'"
    (row,) = json.loads(query(LOGS, project="acme", sql=sql)[2])["result"]
    moment = NOW - timedelta(minutes=5)
    assert row == {"micros": int(milliseconds(moment)) * 1000, "millis": int(milliseconds(moment))}
    assert float(row["micros"]) == row["micros"], "a double has them exactly"


def test_a_refusal_has_a_status_that_it_shows(query: Any, secret: str) -> None:
    assert query(LOGS, type="csv")[0] == 400
    assert query("/api/endpoints/query/none")[0] == 404
