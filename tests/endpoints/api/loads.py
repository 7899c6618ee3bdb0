"""What the tests of loading send, and how they read the answers."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import psycopg
from django.test import Client

from endpoints.errors import EndpointError

URL = "/api/logs?source=edge_logs"
NOW = datetime.now(UTC)


def row(number: int, **fields: object) -> dict[str, Any]:
    return {
        "id": f"row-{number}",
        "timestamp": NOW.isoformat(),
        "project": "acme",
        "event_message": f"message {number}",
        **fields,
    }


def without(fields: str, number: int) -> dict[str, Any]:
    return {name: value for name, value in row(number).items() if name not in fields.split()}


def send(client: Client, body: object, url: str = URL, **options: Any) -> Any:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post(url, sent, content_type=options.pop("content_type", "application/json"), **options)


def in_chunks(body: bytes) -> dict[str, Any]:
    """Return the environ of a body without a length, as granian gives it."""
    given = {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True, "wsgi.input": io.BytesIO(body)}
    return {"CONTENT_LENGTH": "", **given}


def assert_loaded(
    response: Any, *, loaded: int, already_there: int = 0, source: str = "edge_logs", without_timestamp: int = 0
) -> None:
    assert response.status_code == 200, response.content
    assert response["Content-Type"] == "application/json; charset=utf-8"
    assert response["Cache-Control"] == "no-store"
    result = {"source": source, "loaded": loaded, "already_there": already_there}
    untimed = {"without_timestamp": without_timestamp} if without_timestamp else {}
    assert response.json() == {"result": [result | untimed]}


def assert_refused(response: Any, error: type[EndpointError]) -> dict[str, Any]:
    assert (response.status_code, response.json()["error"]["code"]) == (error.status, error.code), response.content
    answer: dict[str, Any] = response.json()["error"]
    return answer


def stored(log_database: psycopg.Connection[Any], table: str = "edge_logs") -> list[str]:
    return [row_id for (row_id,) in log_database.execute(f"SELECT id FROM logs.{table} ORDER BY event_message, id")]


LINES = b"\n".join(json.dumps(row(number)).encode() for number in (1, 2))
