"""The requests that docs/shippers.md's configurations of Vector and Fluent Bit make, body and headers.

Vector's `http` sink: with codec json an array, items joined by commas, or lines without a last line end; Fluent Bit's
`http` output: an array or lines, its date key first. Both name themselves and the length.
"""

from __future__ import annotations

import gzip
from typing import Any

import psycopg
import pytest
from django.test import Client

from endpoints.access.access_tokens import issue_access_token

pytestmark = pytest.mark.django_db

VECTOR_ROWS = (
    b'{"event_message":"GET /orders 200","id":"0b1f7a3e-6f0c-4c57-9f3a-4f6f0a7d2a10","metadata":{"host":"web-1"},'
    b'"project":"shop","timestamp":"2026-11-20T08:15:02.123456789Z"}',
    b'{"event_message":"GET /cart 404","id":"5f0a0c52-08c4-4a0e-8d25-7ac1a2f9b0c4","metadata":{"host":"web-1"},'
    b'"project":"shop","timestamp":"2026-11-20T08:15:03.000000001Z"}',
)
FLUENT_BIT_ROWS = (
    b'{"timestamp":"2026-11-20T08:15:02.123456Z","stream":"stdout","event_message":"GET /orders 200","project":"shop"}',
    b'{"timestamp":"2026-11-20T08:15:03.000000Z","stream":"stdout","event_message":"GET /cart 404","project":"shop"}',
)
DOUBLE_DATES = tuple(
    row.replace(b'"2026-11-20T08:15:02.123456Z"', b"1795162502.123456").replace(
        b'"2026-11-20T08:15:03.000000Z"', b"1795162503.000000"
    )
    for row in FLUENT_BIT_ROWS
)
VECTOR, FLUENT_BIT = {"User-Agent": "Vector/0.43.0"}, {"User-Agent": "Fluent-Bit"}
JSON, NDJSON = "application/json", "application/x-ndjson"


def array(rows: tuple[bytes, ...]) -> bytes:
    return b"[" + b",".join(rows) + b"]"


REQUESTS = {
    "Vector, codec json": (array(VECTOR_ROWS), JSON, VECTOR),
    "Vector, newline_delimited": (b"\n".join(VECTOR_ROWS), NDJSON, VECTOR),
    "Fluent Bit, json": (array(FLUENT_BIT_ROWS), JSON, FLUENT_BIT),
    "Fluent Bit, json_lines": (b"".join(row + b"\n" for row in FLUENT_BIT_ROWS), NDJSON, FLUENT_BIT),
    "Fluent Bit, dates as it writes them unasked": (array(DOUBLE_DATES), JSON, FLUENT_BIT),
}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(("body", "content_type", "headers"), REQUESTS.values(), ids=REQUESTS)
def test_a_shippers_rows_are_stored_once(
    log_database: psycopg.Connection[Any], body: bytes, content_type: str, headers: dict[str, str], compressed: bool
) -> None:
    secret = issue_access_token(name="shipper", may_load=True, no_endpoints=True).secret
    client = Client(headers={"X-API-KEY": secret, **headers, **({"Content-Encoding": "gzip"} if compressed else {})})
    for loaded in (2, 0):
        answer = client.post(
            "/api/logs?source_name=cloudflare.logs.prod&bad_rows=skip",
            gzip.compress(body) if compressed else body,
            content_type=content_type,
        )
        assert answer.status_code == 200
        assert answer.json()["result"] == [{"source": "edge_logs", "loaded": loaded, "already_there": 2 - loaded}]
    stored = log_database.execute(
        "SELECT project, to_char(timestamp AT TIME ZONE 'UTC', 'HH24:MI:SS.US'), event_message FROM logs.edge_logs"
        " ORDER BY timestamp"
    ).fetchall()
    assert stored == [
        ("shop", "08:15:02.123456", "GET /orders 200"),
        ("shop", "08:15:03.000000", "GET /cart 404"),
    ]


def test_what_has_no_column_is_in_metadata(log_database: psycopg.Connection[Any]) -> None:
    secret = issue_access_token(name="shipper", may_load=True).secret
    Client(headers={"X-API-KEY": secret}).post("/api/logs?source=edge_logs", FLUENT_BIT_ROWS[0], content_type=JSON)
    assert log_database.execute("SELECT metadata FROM logs.edge_logs").fetchone() == ([{"stream": "stdout"}],)


@pytest.mark.parametrize("method", ["get", "head"])
@pytest.mark.parametrize("path", ["/health", "/health/"])
def test_health_answers_without_an_access_token(settings: Any, method: str, path: str) -> None:
    settings.SECURE_SSL_REDIRECT = True
    response = getattr(Client(), method)(path)
    # Without its last slash the address is asked over plain HTTP too.
    assert response.status_code == (200 if path == "/health" else 301)
    if (method, path) == ("get", "/health"):
        assert response.json() == {"status": "ok"}


def test_fluent_bits_own_format_is_refused_in_words(log_database: psycopg.Connection[Any]) -> None:
    secret = issue_access_token(name="shipper", may_load=True).secret
    client = Client(headers={"X-API-KEY": secret})
    answer = client.post("/api/logs?source=edge_logs", b"\x92\x81", content_type="application/msgpack")
    assert answer.status_code == 415
    assert "send application/json or application/x-ndjson" in answer.json()["error"]["message"]
