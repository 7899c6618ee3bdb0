"""What the audit log of calls has of each call, through the service's own routes."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import OperationalError, close_old_connections, connection
from django.test import RequestFactory

from endpoints.access.access_tokens import issue_access_token
from endpoints.api.fast_path import FastPath
from endpoints.api.slow_bodies import SLOW_AFTER_SECONDS, ReadingPlaces
from endpoints.api.slow_clients import SlowClients
from endpoints.auditing import call_log, call_queue
from endpoints.auditing.call_log import CallLog, audit_counts
from endpoints.cache.usage import RecentCall
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter
from tests.conftest import ApiClient
from tests.still_clock import StillClock

pytestmark = pytest.mark.django_db


def define(name: str = "test.audited", sql: str = "SELECT @word::text AS word", **settings: Any) -> Endpoint:
    return save_endpoint(Endpoint(name=name, sql=sql, **settings), [DeclaredParameter("word")])


def recorded() -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM endpoints_call ORDER BY at")
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def sums(period: str = "minute") -> list[tuple[int, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT sum(calls), sum(refused), sum(failed), sum(cached) FROM endpoints_call_{period}")
        return cursor.fetchall()


def test_has_one_row_of_a_call_with_the_names_of_its_arguments(audit_log: CallLog, api: ApiClient) -> None:
    endpoint = define(cache_seconds=60)
    api.query("test.audited", {"word": "secret", "undeclared": "x"}, X_Request_ID="the-first-call-0001")
    api.query("test.audited", {"word": "secret"})
    audit_log.flush()
    first, second = recorded()
    assert {name: first[name] for name in first if name not in ("at", "milliseconds", "prefix")} == {
        "request_id": "the-first-call-0001",
        "kind": "query",
        "endpoint_id": endpoint.pk,
        "endpoint": "test.audited",
        "version": 1,
        "caller": "test caller",
        "argument_names": ["word"],
        "argument_values": None,
        "cache": "miss",
        "status": 200,
        "error_code": "",
        "result_rows": 1,
        "calls": 1,
        "reason": "",
    }
    assert second["cache"] == "hit"
    assert first["milliseconds"] > 0
    assert sums() == sums("hour") == [(2, 0, 0, 1)]


def test_keeps_values_only_if_the_endpoint_says_so_and_redacts_them_like_the_result(
    audit_log: CallLog, api: ApiClient
) -> None:
    define(record_argument_values=True)
    define("test.redacted", record_argument_values=True, redact_pii=True)
    api.query("test.audited", {"word": "x" * 1000})
    api.query("test.audited", {"word": "from 192.0.2.7"}, SVC_ENDPOINT_REDACT_PII="true")
    api.query("test.redacted", {"word": "y" * 190 + " someone@example.org"})  # across the cut
    api.post("/api/endpoints/query/test.audited", '{"word": "a\\u0000b"}', content_type="application/json")
    audit_log.flush()
    values = [json.loads(row["argument_values"] or "{}").get("word") for row in recorded()]
    assert values == ["x" * 200 + "…", "from REDACTED", "y" * 190 + " REDACTED", None]


AWKWARD = ("a\tb", "line\nend\r", "back\\slash", r"\N", r"\.", 'quo"te', "{a,b}", "NULL", "", " ", "é€😀")


def test_every_character_comes_back_as_it_was(audit_log: CallLog) -> None:
    for text in AWKWARD:
        call = RecentCall(time.time(), text, "0" * 12, 500, "internal_error", 7, 1.25, "miss", 3, text)
        call_queue.note((call, None, f"id {text}", "load", {text: "x", "source": text}, False))
    audit_log.flush()
    found = recorded()
    assert [row["caller"] for row in found] == [row["reason"] for row in found] == list(AWKWARD)
    assert [row["request_id"] for row in found] == [f"id {text}" for text in AWKWARD]
    assert [row["argument_names"] for row in found] == [sorted([text, "source"]) for text in AWKWARD]
    assert [json.loads(row["argument_values"] or "{}").get("source", "") for row in found] == list(AWKWARD)
    assert {(row["endpoint_id"], row["endpoint"], row["milliseconds"], row["version"]) for row in found} == {
        (None, "", 1.25, 3)
    }


def test_has_the_kind_of_a_sandbox_query_and_nothing_of_its_text(audit_log: CallLog, api: ApiClient) -> None:
    define(
        sql="WITH t AS (SELECT @word::text AS word) SELECT word FROM t", sandboxing=True, record_argument_values=True
    )
    api.query("test.audited", {"word": "a", "sql": "SELECT 'my-own-text' AS one FROM t"})
    api.query("test.audited", {"word": "a", "sql": "SELECT nothing-of-this FROM nowhere"})
    audit_log.flush()
    rows = recorded()
    assert [(row["kind"], row["status"], row["error_code"]) for row in rows] == [
        ("sql", 200, ""),
        ("sql", 400, "sandbox_violation"),
    ]
    assert "own-text" not in str(rows)
    assert "nothing-of-this" not in str(rows)


def test_has_who_was_refused_and_why(audit_log: CallLog, api: ApiClient, client: Any) -> None:
    define()
    bound = ApiClient(issue_access_token(name="bound", bound_arguments={"word": "mine"}).secret)
    bound.query("test.audited", {"word": "yours"})
    api.query("test.unknown", {"source": "yours"})
    client.get("/api/endpoints/query/test.audited", headers={"X-API-KEY": "lqe_000000000000_" + "x" * 43})
    client.delete("/api/endpoints/cache/test.audited")
    client.post("/mcp", {}, content_type="application/json")
    client.post("/api/logs?source=edge_logs", "[]", content_type="application/json")
    audit_log.flush()
    assert [(row["caller"], row["kind"], row["status"], row["error_code"]) for row in recorded()] == [
        ("bound", "query", 403, "argument_not_allowed"),
        ("test caller", "query", 404, "endpoint_not_found"),
        ("", "query", 401, "not_authenticated"),
        ("", "other", 401, "not_authenticated"),
        ("", "mcp", 401, "not_authenticated"),
        ("", "load", 401, "not_authenticated"),
    ]
    assert "yours" not in str(recorded())


BODY_ROUTES = {
    "/api/endpoints/query/test.audited": "query",
    "/api/logs?source=edge_logs": "load",
    "/v1/logs?source=edge_logs": "load",
    "/mcp": "mcp",
}
SLOW = {"no place": (503, "overloaded"), "late": (408, "request_timeout"), "cut short": (400, "invalid_request")}


@pytest.fixture
def inside_transaction() -> Iterator[None]:
    """Keep the connection of the test, and its transaction, through requests that no test client sends."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.mark.usefixtures("inside_transaction")
@pytest.mark.parametrize("path", BODY_ROUTES)
@pytest.mark.parametrize("happens", SLOW)
def test_has_a_refused_body_as_it_was_answered(audit_log: CallLog, path: str, happens: str) -> None:
    define()
    clock = StillClock()
    places = ReadingPlaces(threads=4, body_seconds=60.0, bytes_per_second=4096, clock=clock)
    if happens == "no place":
        places.enter("somebody else")
        clock.now += 10 * SLOW_AFTER_SECONDS

    class Sent(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            clock.now += 61.0 if happens == "late" else 0.0
            return super().read(1) if happens == "late" else b""

    route, _, query = path.partition("?")
    secret = issue_access_token(name="shipper", may_load=True).secret
    environ = RequestFactory().generic("POST", route, b"{}" * 1000, content_type="application/json").environ
    environ |= {"QUERY_STRING": query, "HTTP_X_API_KEY": secret, "wsgi.input": Sent(b"{}"), "HTTP_HOST": "testserver"}
    statuses: list[int] = []
    application = SlowClients(FastPath(get_wsgi_application()), places)
    body = b"".join(application(environ, lambda status, _: statuses.append(int(status[:3]))))
    assert (*statuses, json.loads(body).get("error", {}).get("code", "invalid_request")) == SLOW[happens]
    audit_log.flush()
    audit_log._is_over = True
    audit_log.flush()
    assert [(row["kind"], row["status"], row["error_code"]) for row in recorded()] == [
        (BODY_ROUTES[path], *SLOW[happens])
    ]


@pytest.mark.parametrize(
    ("path", "body", "refusal"),
    [
        ("/api/endpoints/query/test.audited", "[", (400, "invalid_request")),
        ("/api/endpoints/query/test.audited", '{"word": 1, "sql": "select 1"}', (400, "sandbox_disabled")),
        ("/api/logs?source=edge_logs", "[", (400, "invalid_request")),
    ],
)
def test_a_flood_of_bad_requests_is_counted_and_does_not_fill_the_log(
    audit_log: CallLog, client: Any, monkeypatch: pytest.MonkeyPatch, path: str, body: str, refusal: tuple[int, str]
) -> None:
    define()
    monkeypatch.setattr(call_queue, "REFUSALS_A_MINUTE", 5)
    stand_still(monkeypatch)
    secret = issue_access_token(name="shipper", may_load=True).secret
    ApiClient(secret).query("test.audited")  # the process knows the endpoint now
    for _ in range(12):
        client.post(path, body, content_type="application/json", headers={"X-API-KEY": secret})
    audit_log.flush()
    assert len(recorded()) == 1 + 5
    monkeypatch.setattr(call_log, "time", lambda: time.time() + 60)
    audit_log.flush()
    refused = [row for row in recorded() if row["status"] != 200]
    assert sorted((row["calls"], row["caller"], row["status"], row["error_code"]) for row in refused) == [
        *((1, "shipper", *refusal) for _ in range(5)),
        (7, "shipper", *refusal),
    ]
    assert sums() == [(13, 12, 0, 0)]


def test_a_flood_of_bad_access_tokens_is_counted_and_does_not_fill_the_log(
    audit_log: CallLog, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_queue, "REFUSALS_A_MINUTE", 5)
    stand_still(monkeypatch)
    for _ in range(12):
        client.get("/api/endpoints/query/test.audited")
    audit_log.flush()
    assert len(recorded()) == 5
    monkeypatch.setattr(call_log, "time", lambda: time.time() + 60)
    audit_log.flush()
    assert sorted(row["calls"] for row in recorded()) == [1, 1, 1, 1, 1, 7]
    assert sums() == [(12, 12, 0, 0)]


def stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the minute from ending in the middle of a test."""
    now = time.time()
    monkeypatch.setattr("endpoints.calling.calls.time", lambda: now)
    monkeypatch.setattr(call_log, "time", lambda: now)


def noted(at: float, **values: Any) -> Any:
    call = RecentCall(at, "reports", "0123456789ab", values.get("status", 200), "", 1, 2.0, "hit", 1)
    return (call, None, "", "query", {}, False)


def test_reasons_beyond_a_bound_are_counted_together(audit_log: CallLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_queue, "REFUSALS_A_MINUTE", 0)
    monkeypatch.setattr(call_queue, "_REASONS_A_MINUTE", 3)
    now = time.time()
    for number in range(10):
        call = RecentCall(now, "", f"{number:012}", 404, "endpoint_not_found", 0, 0.1, "", 0)
        call_queue.note_refusal((call, None, "", "query", {}, False))
    taken = call_queue.take_refusals(now=now, is_end=True)
    assert sorted(each.calls for each in taken) == [1, 1, 1, 7]


def test_samples_beyond_half_of_a_days_rows_and_counts_every_call(
    audit_log: CallLog, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ENDPOINTS_AUDIT_ROWS_A_DAY = 20
    before, now = audit_counts(), midday()
    for _ in range(100):
        call_queue.note(noted(now))
    audit_log.flush()
    assert len(recorded()) == 10 + 9  # half, and one in ten of the other 90
    for _ in range(100):
        call_queue.note(noted(now, status=500))
    audit_log.flush()
    assert len(recorded()) == 20
    assert sums() == [(200, 0, 100, 100)]
    after = audit_counts()
    assert {name: after[name] - before[name] for name in after} == {"recorded": 20, "sampled_out": 180, "dropped": 0}


def midday() -> float:
    return datetime.now(UTC).replace(hour=12, minute=0).timestamp()


def test_makes_the_partition_of_a_day_that_has_none(audit_log: CallLog) -> None:
    call_queue.note(noted(datetime(2031, 5, 6, 23, 59, 59, tzinfo=UTC).timestamp()))
    call_queue.note(noted(datetime(2031, 5, 7, tzinfo=UTC).timestamp()))
    audit_log.flush()
    with connection.cursor() as cursor:
        cursor.execute("SELECT tableoid::regclass::text FROM endpoints_call ORDER BY at")
        assert cursor.fetchall() == [("endpoints_call_d20310506",), ("endpoints_call_d20310507",)]


def test_keeps_the_newest_calls_while_the_database_is_away_and_counts_the_others(
    audit_log: CallLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> int:
        raise OperationalError("away")

    monkeypatch.setattr(call_queue, "LIMIT", 10)
    now = midday()
    with monkeypatch.context() as patch:
        patch.setattr(call_log, "_write", away)
        for batch in range(3):
            for number in range(6):
                call_queue.note(noted(now + batch * 10 + number))
            audit_log.flush()
    audit_log.flush()
    rows = recorded()
    assert [row["at"].timestamp() - now for row in rows] == [12, 13, 14, 15, 20, 21, 22, 23, 24, 25]
    with connection.cursor() as cursor:
        cursor.execute("SELECT sum(left_out) FROM endpoints_call_day")
        assert cursor.fetchone() == (8,)


def test_a_full_queue_drops_the_oldest_and_says_how_many(audit_log: CallLog) -> None:
    for number in range(call_queue.LIMIT + 3):
        call_queue.note(noted(float(number)))
    assert call_queue.take_dropped() == 3
    assert call_queue.take_calls()[0][0].at == 3.0


def test_writes_nothing_if_it_is_switched_off(
    audit_log: CallLog, api: ApiClient, settings: Any, django_assert_num_queries: Callable[[int], Any]
) -> None:
    define()
    api.query("test.audited")
    settings.ENDPOINTS_AUDIT_DAYS = 0
    with django_assert_num_queries(0):
        audit_log.flush()
    assert not call_queue.QUEUE


def test_a_stream_has_a_row_when_it_ends_without_what_its_access_token_is_bound_to(audit_log: CallLog) -> None:
    parameters = [DeclaredParameter("word"), DeclaredParameter("other")]
    sql = "SELECT @word::text AS word, @other::text AS other"
    save_endpoint(Endpoint(name="test.streamed", sql=sql, stream_rows=1000, record_argument_values=True), parameters)
    bound = ApiClient(issue_access_token(name="bound", bound_arguments={"word": "customer-name"}).secret)
    answer = bound.query("test.streamed", {"other": "mine"}, Accept="application/x-ndjson")
    assert b"customer-name" in b"".join(answer.streaming_content)
    audit_log.flush()
    (row,) = recorded()
    assert (row["kind"], row["status"], row["result_rows"], row["argument_names"]) == ("stream", 200, 1, ["other"])
    assert json.loads(row["argument_values"]) == {"other": "mine"}
