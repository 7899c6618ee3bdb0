"""Streams: their rows, their last line, who gets one, what one holds, and how it ends."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pytest

from config.exchanges import Exchange
from endpoints.access.access_tokens import issue_access_token
from endpoints.access.secrets import OwnLimits
from endpoints.cache.usage.flushing import FLUSHER
from endpoints.calling.calls import endpoint_use
from endpoints.calling.query_requests import Call, read_request
from endpoints.calling.streams import Stream, StreamedAnswer, begin_stream
from endpoints.defining.saving import save_endpoint
from endpoints.errors import Overloaded
from endpoints.log_database import streaming
from endpoints.log_database.servers import log_servers
from endpoints.models import Endpoint
from endpoints.results.encoding import CHUNK_ROWS
from endpoints.results.outcomes import ResultFormat
from tests.conftest import ApiClient
from tests.endpoints.conftest import no_threads

__all__ = ["no_threads"]
pytestmark = pytest.mark.django_db

NDJSON, CSV = ResultFormat.NDJSON.value, ResultFormat.CSV.value
NAME = "test.stream"
MANY = 100_000_000
WIDE = "repeat('x', 200) AS filling"  # PostgreSQL sends 8 KiB at a time


def numbered(count: int, columns: str = "n, 'row ' || n AS text", **settings: Any) -> Endpoint:
    sql = f"SELECT {columns} FROM (SELECT generate_series(1, {count}) AS n) AS numbers"
    return stored(sql, **settings)


def stored(sql: str, **settings: Any) -> Endpoint:
    return save_endpoint(Endpoint(name=NAME, sql=sql, **{"stream_rows": MANY, "max_rows": 10, **settings}), [])


def body_of(response: Any) -> bytes:
    return b"".join(response)


def lines_of(response: Any) -> list[Any]:
    return [json.loads(line) for line in body_of(response).splitlines()]


def end(response: Any, rows: int, *, truncated: bool = False) -> dict[str, Any]:
    return {"end": {"rows": rows, "truncated": truncated, "request_id": response.headers["X-Request-ID"]}}


def stream_of(endpoint: Endpoint, result_format: ResultFormat = ResultFormat.NDJSON) -> Stream:
    version = endpoint.as_version()
    request = read_request(version, Call(format=result_format), None)
    return begin_stream(version, request, None)


# --- Rows and last lines ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rows", [0, 1, CHUNK_ROWS - 1, CHUNK_ROWS, CHUNK_ROWS + 1, 5 * CHUNK_ROWS + 3])
def test_sends_every_row_and_a_last_line(api: ApiClient, rows: int) -> None:
    numbered(rows)
    response = api.query(NAME, Accept=NDJSON)
    assert response.status_code == 200
    assert response.headers["X-Cache"] == "bypass"
    assert response.headers["Cache-Control"] == "private, no-store"
    assert not {"ETag", "X-Result-Rows", "Content-Length"} & set(response.headers)
    *sent, last = lines_of(response)
    assert sent == [{"n": n, "text": f"row {n}"} for n in range(1, rows + 1)]
    assert last == end(response, rows)


@pytest.mark.parametrize("rows", [0, 1, CHUNK_ROWS, 3 * CHUNK_ROWS + 1])
def test_csv_has_one_header_line_and_its_last_line_behind_a_number_sign(api: ApiClient, rows: int) -> None:
    numbered(rows)
    response = api.query(NAME, Accept=CSV)
    text, _, last = body_of(response).decode().removesuffix("\r\n").rpartition("\r\n")
    assert last.startswith("# ")
    assert json.loads(last[2:]) == end(response, rows)
    read = list(csv.reader(io.StringIO(text, newline="")))
    assert read == [["n", "text"], *([str(n), f"row {n}"] for n in range(1, rows + 1))]


@pytest.mark.parametrize("accept", [NDJSON, CSV])
def test_its_rows_are_those_of_an_ordinary_answer(api: ApiClient, accept: str) -> None:
    columns = "n, now()::date AS day, NULL AS nothing, '{\"a\": [1.50]}'::jsonb AS j, ARRAY['a', NULL] AS l, 1.50 AS d"
    numbered(300, columns, stream_rows=0, max_rows=1_000)
    ordinary = api.query(NAME, Accept=accept).content
    endpoint = Endpoint.objects.get(name=NAME)
    endpoint.stream_rows = 1_000
    save_endpoint(endpoint, [])
    streamed = body_of(api.query(NAME, Accept=accept))
    assert streamed.startswith(ordinary)
    assert streamed.count(b"\n") == ordinary.count(b"\n") + 1


@pytest.mark.parametrize(("limit", "truncated"), [(299, True), (300, False), (CHUNK_ROWS, True), (1, True)])
def test_ends_at_its_limit_and_says_so(api: ApiClient, limit: int, truncated: bool) -> None:
    numbered(300, stream_rows=limit)
    response = api.query(NAME, Accept=NDJSON)
    *sent, last = lines_of(response)
    assert [row["n"] for row in sent] == list(range(1, limit + 1))
    assert last == end(response, limit, truncated=truncated)


def test_writes_timestamps_as_the_endpoint_says(api: ApiClient) -> None:
    sql = "SELECT '2026-01-02 03:04:05+00'::timestamptz AS at"
    stored(sql, timestamps_as="unix_microseconds")
    assert lines_of(api.query(NAME, Accept=NDJSON))[0] == {"at": 1767323045000000}


# --- Who gets a stream ------------------------------------------------------------------------------------------------
def test_without_the_setting_nothing_streams(api: ApiClient) -> None:
    numbered(300, stream_rows=0)
    response = api.query(NAME, Accept=NDJSON)
    assert response.headers["X-Result-Rows"] == "10"
    assert len(response.content.splitlines()) == 10


def test_json_is_never_streamed(api: ApiClient) -> None:
    numbered(300)
    response = api.query(NAME)
    assert response.headers["X-Result-Truncated"] == "true"
    assert len(response.json()["result"]) == 10


def test_head_has_the_headers_of_an_ordinary_answer(api: ApiClient) -> None:
    numbered(300)
    response = api.head(f"/api/endpoints/query/{NAME}", headers={"Accept": NDJSON})
    assert response.status_code == 200
    assert response.headers["X-Result-Rows"] == "10"
    assert streaming._running == 0


def test_post_streams_too(api: ApiClient) -> None:
    numbered(300)
    response = api.post(f"/api/endpoints/query/{NAME}", {}, content_type="application/json", headers={"Accept": NDJSON})
    assert lines_of(response)[-1] == end(response, 300)


def test_passes_the_cache_by(api: ApiClient) -> None:
    stored("SELECT clock_timestamp() AS at", cache_seconds=600)
    cached = [api.query(NAME).headers["X-Cache"] for _ in range(2)]
    assert cached == ["miss", "hit"]
    first, second = (lines_of(api.query(NAME, Accept=NDJSON))[0] for _ in range(2))
    assert first != second


# --- Failures ---------------------------------------------------------------------------------------------------------
def test_what_fails_before_the_first_row_is_an_ordinary_error(api: ApiClient) -> None:
    numbered(3, "1 / (n - 1) AS x")
    response = api.query(NAME, Accept=NDJSON)
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "stored_query_failed"
    assert streaming._running == 0


@pytest.mark.parametrize("accept", [NDJSON, CSV])
def test_what_fails_later_is_the_last_line(api: ApiClient, accept: str) -> None:
    numbered(10_000, f"1 / (n - 5000) AS x, {WIDE}")
    response = api.query(NAME, Accept=accept)
    assert response.status_code == 200
    last = body_of(response).splitlines()[-1].removeprefix(b"# ")
    error = json.loads(last)["error"]
    assert (error["code"], error["request_id"]) == ("stored_query_failed", response.headers["X-Request-ID"])
    assert b'"end"' not in last
    assert streaming._running == 0


def test_a_piece_over_the_budget_ends_it(api: ApiClient, settings: Any) -> None:
    settings.ENDPOINTS_MAX_RESULT_BYTES = 100_000
    numbered(1_000, f"n, {WIDE}")  # 200 KB together, a quarter of the budget for each chunk
    assert "end" in lines_of(api.query(NAME, Accept=NDJSON))[-1]
    endpoint = Endpoint.objects.get(name=NAME)
    endpoint.sql = endpoint.sql.replace("repeat('x', 200)", "repeat('x', n * 3)")
    save_endpoint(endpoint, [])
    *sent, last = lines_of(api.query(NAME, Accept=NDJSON))
    assert last["error"]["code"] == "result_too_large"
    assert len(sent) == 2 * CHUNK_ROWS


def test_a_client_that_leaves_ends_everything() -> None:
    stream = stream_of(numbered(MANY, f"n, {WIDE}"))
    pieces = stream.pieces("an id")
    next(pieces)
    assert streaming._running == 1
    pieces.close()
    assert streaming._running == 0
    assert stream._rows._connection.closed


def test_a_stream_that_nobody_asks_for_is_given_up() -> None:
    stream = stream_of(numbered(MANY, f"n, {WIDE}"))
    connection = stream._rows._connection
    assert streaming._running == 1
    del stream
    assert streaming._running == 0
    assert connection.closed


# --- Limits -----------------------------------------------------------------------------------------------------------
def test_further_streams_are_overloaded_while_ordinary_calls_go_on(api: ApiClient, settings: Any) -> None:
    settings.ENDPOINTS_STREAMS = 1
    stream = stream_of(numbered(MANY, f"n, {WIDE}"))
    refused = api.query(NAME, Accept=NDJSON)
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
    assert refused.json()["error"]["code"] == "overloaded"
    assert api.query(NAME).status_code == 200
    stream.close()
    again = api.query(NAME, Accept=CSV)
    assert again.status_code == 200
    again.close()


def test_an_access_token_has_so_many_streams(api: ApiClient, settings: Any) -> None:
    settings.ENDPOINTS_STREAMS, settings.ENDPOINTS_STREAMS_AT_ONCE = 10, 1
    numbered(MANY, f"n, {WIDE}")
    running = api.query(NAME, Accept=NDJSON)
    next(iter(running))
    refused = api.query(NAME, Accept=NDJSON)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_streams")
    assert refused.json()["error"]["details"][0]["limit"] == "streams_at_once"
    other = ApiClient(issue_access_token(name="another").secret).query(NAME, Accept=NDJSON)
    assert other.status_code == 200
    for response in (running, other):
        response.close()


def test_a_stream_counts_as_a_call_of_its_access_token(settings: Any) -> None:
    log_servers()  # made before, as for all other tests: they keep these pools
    settings.ENDPOINTS_POOL_WAIT_SECONDS = 0.0
    limits = OwnLimits(calls_at_once=1)
    client = ApiClient(issue_access_token(name="narrow", limits=limits).secret)
    numbered(MANY, f"n, {WIDE}")
    running = client.query(NAME, Accept=NDJSON)
    next(iter(running))
    assert client.query(NAME).json()["error"]["code"] == "too_many_calls"
    running.close()


# --- The operator's view ----------------------------------------------------------------------------------------------
def test_notes_how_it_ended(api: ApiClient) -> None:
    endpoint = numbered(10_000, f"n, {WIDE}")
    body_of(api.query(NAME, Accept=NDJSON))
    FLUSHER.settle()
    (call,) = endpoint_use(endpoint, last_calls=1).last_calls
    assert (call.status, call.rows, call.cache, call.error_code) == (200, 10_000, "bypass", "")


# --- Delivery ---------------------------------------------------------------------------------------------------------
class KeptExchange(Exchange):
    """Takes an answer as the web server does, and stops asking for pieces after `wanted` of them."""

    def __init__(self, wanted: int = MANY) -> None:
        super().__init__(None)
        self.wanted = wanted
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.thread = ""
        self.is_over = threading.Event()

    def answer(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        self.status, self.headers, self.body = status, dict(headers), body

    def stream(self, status: int, headers: Sequence[tuple[str, str]], pieces: Iterator[bytes]) -> None:
        self.status, self.headers, self.thread = status, dict(headers), threading.current_thread().name
        try:
            for _, piece in zip(range(self.wanted), pieces, strict=False):
                self.body += piece
        finally:
            self.is_over.set()


def test_is_sent_from_a_thread_of_its_own() -> None:
    exchange = KeptExchange()
    StreamedAnswer(stream_of(numbered(300)), "an id").deliver(exchange, 200, [("X-Cache", "bypass")])
    assert exchange.is_over.wait(30)
    assert (exchange.status, exchange.thread) == (200, "stream")
    assert json.loads(exchange.body.splitlines()[-1]) == {
        "end": {"rows": 300, "truncated": False, "request_id": "an id"}
    }


def test_without_a_thread_it_is_overloaded(no_threads: Callable[[], AbstractContextManager[None]]) -> None:
    exchange = KeptExchange()
    stream = stream_of(numbered(MANY, f"n, {WIDE}"))
    with no_threads():
        StreamedAnswer(stream, "an id").deliver(exchange, 200, [("Content-Type", NDJSON), ("X-Request-ID", "an id")])
    assert (exchange.status, json.loads(exchange.body)["error"]["code"]) == (503, Overloaded.code)
    assert exchange.headers["Content-Type"].startswith("application/json")
    assert exchange.headers["X-Request-ID"] == "an id"
    assert streaming._running == 0
