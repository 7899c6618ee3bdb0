"""POST /api/logs: what is stored, all of it or nothing, and nothing twice."""

from __future__ import annotations

import gzip
import json
import uuid
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.test import Client

from endpoints.access.access_tokens import issue_access_token
from endpoints.errors import InvalidRows, LoadNotAllowed
from logsources.models import LogSource
from tests.endpoints.api.loads import (
    LINES,
    NOW,
    URL,
    assert_loaded,
    assert_refused,
    in_chunks,
    row,
    send,
    stored,
    without,
)

pytestmark = pytest.mark.django_db


# --- What is stored ---------------------------------------------------------------------------------------------------


def test_stores_rows_as_load_logs_does(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    sent = row(1, metadata={"request": {"path": "/x"}, "n": 123456789012345678901234567890}, level="info")
    assert_loaded(send(shipper, [sent]), loaded=1)
    found = log_database.execute(
        "SELECT id, project, timestamp, event_message, metadata FROM logs.edge_logs"
    ).fetchone()
    metadata = [{"request": [{"path": "/x"}], "n": 123456789012345678901234567890, "level": "info"}]
    assert found == ("row-1", "acme", NOW, "message 1", metadata)


BODIES = {
    "array": json.dumps([row(1), row(2)]).encode(),
    "array over lines": b"\xef\xbb\xbf" + json.dumps([row(1), row(2)], indent=2).encode() + b"\n",
    "array with a long number": json.dumps([row(1), row(2, n=0.1234567890123456789)]).encode(),
    "lines": LINES,
    "lines with blank ones": b"\n" + LINES.replace(b"\n", b"\r\n \r\n") + b"\r\n",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize(
    "content_type", ["application/json", "application/x-ndjson; charset=utf-8", "application/jsonl"]
)
def test_reads_arrays_and_lines(
    shipper: Client, log_database: psycopg.Connection[Any], body: bytes, content_type: str
) -> None:
    assert_loaded(send(shipper, body, content_type=content_type), loaded=2)
    assert stored(log_database) == ["row-1", "row-2"]


@pytest.mark.parametrize("indent", [None, 2])
def test_reads_one_object(shipper: Client, log_database: psycopg.Connection[Any], indent: int | None) -> None:
    assert_loaded(send(shipper, json.dumps(row(1), indent=indent).encode()), loaded=1)
    assert stored(log_database) == ["row-1"]


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "x-gzip"])
@pytest.mark.parametrize("packed", [gzip.compress(LINES), gzip.compress(LINES[:50]) + gzip.compress(LINES[50:])])
def test_reads_gzip(shipper: Client, log_database: psycopg.Connection[Any], packed: bytes, encoding: str) -> None:
    assert_loaded(send(shipper, packed, headers={"Content-Encoding": encoding}), loaded=2)
    assert stored(log_database) == ["row-1", "row-2"]


def test_reads_a_body_in_chunks(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    response = send(shipper, LINES, **in_chunks(LINES))
    assert_loaded(response, loaded=2)
    assert stored(log_database) == ["row-1", "row-2"]


@pytest.mark.parametrize("body", [b"[]", b" [ ] "])
def test_an_empty_array_loads_nothing(shipper: Client, log_database: psycopg.Connection[Any], body: bytes) -> None:
    assert_loaded(send(shipper, body), loaded=0)


ADDRESSES = ("/api/logs", "/api/logs/", "/logs", "/logs/", "/api/logs/json", "/logs/json")


@pytest.mark.parametrize("address", ADDRESSES)
def test_answers_at_every_address_that_clients_use(
    shipper: Client, log_database: psycopg.Connection[Any], address: str
) -> None:
    assert_loaded(send(shipper, {"batch": [row(1), row(2)]}, f"{address}?source=edge_logs"), loaded=2)
    assert stored(log_database) == ["row-1", "row-2"]


def test_finds_the_source_by_its_uuid(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    reference = LogSource.objects.get(name="auth_logs").uuid
    assert_loaded(send(shipper, [row(1)], f"/logs?source={reference}"), loaded=1, source="auth_logs")


PRODUCERS = {
    "cloudflare.logs.prod": "edge_logs",
    "postgres.logs": "database_logs",
    "deno-relay-logs": "function_edge_logs",
    "deno-subhosting-events": "function_logs",
    "gotrue.logs.prod": "auth_logs",
    "realtime.logs.prod": "realtime_logs",
    "storage.logs.prod.2": "storage_logs",
    "postgREST.logs.prod": "rest_logs",
    "pgbouncer.logs.prod": "pooler_logs",
}


@pytest.mark.parametrize(("producer_name", "table"), PRODUCERS.items())
def test_knows_the_producers_of_the_shipped_sources(
    shipper: Client, log_database: psycopg.Connection[Any], producer_name: str, table: str
) -> None:
    response = send(shipper, [row(1)], f"/api/logs/?source_name={producer_name}")
    assert_loaded(response, loaded=1, source=table)
    assert stored(log_database, table) == ["row-1"]


def test_finds_the_project_inside_metadata(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    sent = {"event_message": "m", "timestamp": NOW.isoformat(), "metadata": {"project_ref": "acme"}}
    assert_loaded(send(shipper, [sent], "/api/logs?source=function_logs"), loaded=1, source="function_logs")
    assert log_database.execute("SELECT project FROM logs.function_logs").fetchone() == ("acme",)


ECS = {"@timestamp": NOW.isoformat(), "log.level": "error", "message": "m", "log": {"logger": "app"}, "project": "acme"}


@pytest.mark.parametrize("form", ["json", "lines"])
def test_names_with_dots_become_objects_and_the_body_is_known_again(
    shipper: Client, log_database: psycopg.Connection[Any], form: str
) -> None:
    rows = [ECS, ECS | {"metadata": {"http.request": [{"x.y": 1}]}}]
    body = json.dumps(rows).encode() if form == "json" else b"\n".join(json.dumps(each).encode() for each in rows)
    for loaded in (2, 0):
        assert_loaded(send(shipper, body), loaded=loaded, already_there=2 - loaded)
    log = {"log": [{"logger": "app", "level": "error"}]}
    found = log_database.execute("SELECT metadata FROM logs.edge_logs ORDER BY id").fetchall()
    expected = [log, {**log, "http": [{"request": [{"x": [{"y": 1}]}]}]}]
    assert sorted((metadata for ((metadata,),) in found), key=len) == expected


@pytest.mark.one_server("a row of a cluster tells the name of its shard")
def test_makes_the_partitions_of_the_rows_days(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    day = NOW - timedelta(days=20)
    assert_loaded(send(shipper, [row(1, timestamp=day.isoformat())]), loaded=1)
    found = log_database.execute("SELECT tableoid::regclass::text FROM logs.edge_logs").fetchone()
    assert found == (f"logs.edge_logs_p{day:%Y%m%d}",)


@pytest.mark.parametrize(("of_token", "project"), [("shop", "shop"), ("", "market")])
def test_a_row_without_a_project_has_the_one_of_the_access_token_or_of_the_source(
    log_database: psycopg.Connection[Any], of_token: str, project: str
) -> None:
    LogSource.objects.filter(name="edge_logs").update(default_project="market")
    issued = issue_access_token(name="shipper", may_load=True, load_sources=["edge_logs"], default_project=of_token)
    client = Client(headers={"X-API-KEY": issued.secret})
    assert_loaded(send(client, [without("project", 1), row(2)], "/logs"), loaded=2)
    found = log_database.execute("SELECT project FROM logs.edge_logs ORDER BY id").fetchall()
    assert found == [(project,), ("acme",)]


def test_an_access_token_loads_into_its_log_sources_alone(log_database: psycopg.Connection[Any]) -> None:
    issued = issue_access_token(name="shipper", may_load=True, load_sources=["auth_logs"])
    client = Client(headers={"X-API-KEY": issued.secret})
    for address in (URL, "/logs?source=unknown", "/logs?source_name=postgres.logs"):
        assert_refused(send(client, [row(1)], address), LoadNotAllowed)
    assert_loaded(send(client, [row(1)], "/logs"), loaded=1, source="auth_logs")


# --- The same body again ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["", "id", "timestamp", "id timestamp"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_body_that_is_sent_again_doubles_nothing(
    shipper: Client, log_database: psycopg.Connection[Any], missing: str, packed: bool
) -> None:
    body = json.dumps([without(missing, number) for number in range(3)]).encode()
    headers = {"Content-Encoding": "gzip"} if packed else {}
    untimed = 3 if "timestamp" in missing else 0
    first = send(shipper, gzip.compress(body) if packed else body, headers=headers)
    assert_loaded(first, loaded=3, without_timestamp=untimed)
    before = stored(log_database)
    assert_loaded(send(shipper, body), loaded=0, already_there=3)
    assert stored(log_database) == before


@pytest.mark.parametrize("missing", ["", "timestamp"])
def test_rows_with_ids_are_known_again_in_another_batch(
    shipper: Client, log_database: psycopg.Connection[Any], missing: str
) -> None:
    untimed = 1 if missing else 0
    assert_loaded(send(shipper, [without(missing, 1), without(missing, 2)]), loaded=2, without_timestamp=2 * untimed)
    again = send(shipper, [without(missing, 2), without(missing, 3)])
    assert_loaded(again, loaded=1, already_there=1, without_timestamp=untimed)
    assert stored(log_database) == ["row-1", "row-2", "row-3"]


@pytest.mark.parametrize("missing", ["id", "id timestamp"])
def test_equal_rows_without_ids_stay_apart(
    shipper: Client, log_database: psycopg.Connection[Any], missing: str
) -> None:
    equal = without(missing, 1)
    untimed = 1 if "timestamp" in missing else 0
    assert_loaded(send(shipper, [equal, equal]), loaded=2, without_timestamp=2 * untimed)
    assert_loaded(send(shipper, [equal]), loaded=1, without_timestamp=untimed)
    assert len(set(stored(log_database))) == 3


def test_an_idempotency_key_tells_equal_bodies_apart(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    body = json.dumps(without("id timestamp", 1)).encode()
    for key, loaded in (("first", 1), ("first", 0), ("second", 1), ("", 1), ("second", 0)):
        answer = send(shipper, body, headers={"Idempotency-Key": key} if key else {})
        assert_loaded(answer, loaded=loaded, already_there=1 - loaded, without_timestamp=loaded)
    assert len(stored(log_database)) == 3


def test_made_ids_are_uuids_of_version_8(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    send(shipper, [without("id", number) for number in range(20)])
    made = [uuid.UUID(row_id) for row_id in stored(log_database)]
    assert {(each.version, each.variant) for each in made} == {(8, uuid.RFC_4122)}


@pytest.mark.one_server("it changes rows by a statement that Citus refuses")
def test_a_row_without_timestamp_is_new_after_an_hour(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    assert_loaded(send(shipper, [without("timestamp", 1)]), loaded=1, without_timestamp=1)
    log_database.execute("UPDATE logs.edge_logs SET timestamp = timestamp - interval '61 minutes'")
    assert_loaded(send(shipper, [without("timestamp", 1)]), loaded=1, without_timestamp=1)


@pytest.mark.parametrize("form", ["array", "batch", "one", "lines"])
def test_rows_with_a_time_of_another_name_are_timed(
    shipper: Client, log_database: psycopg.Connection[Any], form: str
) -> None:
    moment = NOW - timedelta(hours=5)
    times = {"@timestamp": moment.isoformat(), "time": int(moment.timestamp() * 1000), "ts": moment.timestamp()}
    rows = [without("id timestamp", 1) | {name: value} for name, value in times.items()]
    if form == "one":
        rows = rows[:1]
    documents = {"array": rows, "batch": {"batch": rows}, "one": rows[0]}
    body = documents.get(form) or "\n".join(map(json.dumps, rows)).encode()
    for loaded in (len(rows), 0):
        assert_loaded(send(shipper, body), loaded=loaded, already_there=len(rows) - loaded)
    found = log_database.execute("SELECT timestamp, metadata FROM logs.edge_logs").fetchall()
    assert [metadata for _, metadata in found] == [[{}]] * len(rows)
    assert all(abs(timestamp - moment) < timedelta(milliseconds=1) for timestamp, _ in found)


def test_counts_the_new_rows_whose_time_is_that_of_their_arrival(
    shipper: Client, log_database: psycopg.Connection[Any]
) -> None:
    assert_loaded(send(shipper, [without("timestamp", 1)]), loaded=1, without_timestamp=1)
    rows = [row(0), *(without("timestamp", number) for number in (1, 2, 2, 3, 4)), {"id": "row-5"}]
    (result,) = send(shipper, rows, f"{URL}&bad_rows=skip").json()["result"]
    assert (result["loaded"], result["already_there"], result["without_timestamp"]) == (4, 2, 3)


@pytest.mark.parametrize("character", ["\0", "\ud83d"])
@pytest.mark.parametrize("form", ["array", "batch", "lines"])
def test_one_character_that_text_cannot_hold_costs_no_row(
    shipper: Client, log_database: psycopg.Connection[Any], character: str, form: str
) -> None:
    rows = [row(number) for number in range(100)]
    rows[7] |= {"event_message": f"GET /{character}", "metadata": {f"k{character}": [{"v": f"{character}x"}]}}
    documents = {"array": rows, "batch": {"batch": rows}}
    body = json.dumps(documents[form]).encode() if form in documents else "\n".join(map(json.dumps, rows)).encode()
    (result,) = send(shipper, body).json()["result"]
    assert result == {"source": "edge_logs", "loaded": 100, "already_there": 0, "with_replacements": 1}
    found = log_database.execute("SELECT event_message, metadata FROM logs.edge_logs WHERE id = 'row-7'").fetchall()
    assert found == [("GET /\ufffd", [{"k\ufffd": [{"v": "\ufffdx"}]}])]


# --- All or nothing ---------------------------------------------------------------------------------------------------

BAD = {
    "not an object": ("text", "the row must be a JSON object"),
    "no message": (without("event_message", 9), "event_message is missing"),
    "no project": (without("project", 9), "project is missing"),
    "timestamp": (
        row(9, timestamp="yesterday"),
        "timestamp is not a time in ISO 8601, such as 2025-06-02T08:15:02Z or 2025-06-02T10:15:02+02:00",
    ),
    "NUL": (
        row("9\0"),
        "id contains a NUL character (\\u0000), which PostgreSQL cannot store",
    ),
}


@pytest.mark.parametrize(("bad", "reason"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("in_lines", [False, True])
def test_one_bad_row_refuses_all_and_is_named(
    shipper: Client, log_database: psycopg.Connection[Any], bad: object, reason: str, in_lines: bool
) -> None:
    rows = [row(0), bad, row(2), bad]
    body: object = "\n".join(map(json.dumps, rows)).encode() if in_lines else rows
    error = assert_refused(send(shipper, body), InvalidRows)
    assert error["message"] == "2 of 4 rows cannot be stored, so none was stored."
    assert error["details"] == [{"index": 1, "reason": reason}, {"index": 3, "reason": reason}]
    assert stored(log_database) == []


def test_names_the_rows_that_postgresql_refuses(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    log_database.execute("ALTER TABLE logs.edge_logs ADD CONSTRAINT short CHECK (length(event_message) < 20) NOT VALID")
    try:
        rows = [row(0), row(1, event_message="x" * 30), row(2), row(3, event_message="y" * 30)]
        error = assert_refused(send(shipper, rows), InvalidRows)
    finally:
        log_database.execute("ALTER TABLE logs.edge_logs DROP CONSTRAINT short")
    reason = "PostgreSQL refuses the row: CheckViolation (SQLSTATE 23514)"
    assert error["details"] == [{"index": 1, "reason": reason}, {"index": 3, "reason": reason}]
    assert stored(log_database) == []


def test_bad_rows_are_left_out_where_that_is_wanted(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    response = send(shipper, [row(0), "text", row(2)], f"{URL}&bad_rows=skip")
    assert response.status_code == 200
    assert response.json()["result"] == [
        {
            "source": "edge_logs",
            "loaded": 2,
            "already_there": 0,
            "bad_rows": 1,
            "details": [{"index": 1, "reason": "the row must be a JSON object"}],
        }
    ]
    assert stored(log_database) == ["row-0", "row-2"]


def test_lists_the_first_hundred_bad_rows(shipper: Client) -> None:
    error = assert_refused(send(shipper, [1] * 101), InvalidRows)
    assert error["message"] == "101 of 101 rows cannot be stored, so none was stored; the first 100 are in details."
    assert [detail["index"] for detail in error["details"]] == list(range(100))
