"""POST /api/logs: what is refused and how, and what is put off under pressure."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from time import perf_counter
from typing import Any

import psycopg
import pytest
from django.db import connections
from django.test import Client

from config.setting_values import Rate
from endpoints.api import bodies
from endpoints.errors import (
    DatabaseUnavailable,
    InvalidRequest,
    InvalidRows,
    LoadNotAllowed,
    LogSourceNotFound,
    NotAuthenticated,
    Overloaded,
    RateLimited,
    RequestTooLarge,
    UnsupportedEncoding,
    UnsupportedMediaType,
)
from endpoints.log_database import load_pool
from endpoints.log_database.load_pool import LoadPool, close_load_pool
from logsources import batches
from logsources.databases import owner_parameters
from logsources.models import LogSource
from logsources.services import create_source, drop_source
from tests.endpoints.api.loads import (
    LINES,
    URL,
    assert_loaded,
    assert_refused,
    in_chunks,
    row,
    send,
    stored,
)

pytestmark = pytest.mark.django_db


# --- Large rows -------------------------------------------------------------------------------------------------------
TOO_LARGE = "message and metadata have 1004 bytes as they are stored, more than 1000"
LARGE = [row(0), row(1, event_message="x" * 1000), row(2)]
FORMS = {
    "array": json.dumps(LARGE).encode(),
    "batch": json.dumps({"batch": LARGE}).encode(),
    "ndjson": b"\n".join(json.dumps(each).encode() for each in LARGE),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_row_over_the_limit_is_a_bad_row_of_every_form(
    shipper: Client, settings: Any, log_database: psycopg.Connection[Any], form: str, packed: bool
) -> None:
    settings.ENDPOINTS_MAX_ROW_BYTES = 1000
    body, options = FORMS[form], {}
    if packed:
        body, options = gzip.compress(body), {"headers": {"Content-Encoding": "gzip"}}
    error = assert_refused(send(shipper, body, **options), InvalidRows)
    assert error["details"] == [{"index": 1, "reason": TOO_LARGE}]
    assert stored(log_database) == []
    (result,) = send(shipper, body, f"{URL}&bad_rows=skip", **options).json()["result"]
    assert (result["loaded"], result["details"]) == (2, [{"index": 1, "reason": TOO_LARGE}])
    assert stored(log_database) == ["row-0", "row-2"]


def test_a_single_row_over_the_limit_is_a_bad_row(shipper: Client, settings: Any) -> None:
    settings.ENDPOINTS_MAX_ROW_BYTES = 1000
    error = assert_refused(send(shipper, row(1, event_message="x" * 1000)), InvalidRows)
    assert error["details"] == [{"index": 0, "reason": TOO_LARGE}]
    assert_loaded(send(shipper, row(1, event_message="x" * 996)), loaded=1)


# --- Refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [b"", b" \n", b"[", b'[{"a": 1}', b"[1,]", b"[1 2]", b"[1] [2]", b"[\xff]", b'[{"a": "\xff"}]', b"[" * 100_000],
    ids=lambda body: repr(body[:12]),
)
def test_refuses_what_is_no_rows(shipper: Client, body: bytes) -> None:
    assert_refused(send(shipper, body), InvalidRequest)


@pytest.mark.parametrize(
    "query",
    [
        "", "?source=", "?source=edge_logs&source_name=postgres.logs", "?source=edge_logs&source=edge_logs",
        "?source=edge_logs&bad_rows=perhaps", "?source=%ff",
    ],
)  # fmt: skip
def test_refuses_arguments_that_say_nothing_or_two_things(shipper: Client, query: str) -> None:
    assert_refused(send(shipper, [row(1)], f"/api/logs{query}"), InvalidRequest)


@pytest.mark.parametrize("query", ["source=unknown_logs", "source_name=unknown.logs", "source=cloudflare.logs.prod"])
def test_404_for_a_log_source_there_is_not(shipper: Client, query: str) -> None:
    assert_refused(send(shipper, [row(1)], f"/api/logs?{query}"), LogSourceNotFound)


def test_401_without_an_access_token() -> None:
    response = send(Client(), [row(1)])
    assert_refused(response, NotAuthenticated)
    assert "WWW-Authenticate" in response


def test_403_for_an_access_token_without_the_right(secret: str, log_database: psycopg.Connection[Any]) -> None:
    client = Client(headers={"X-API-KEY": secret})
    assert_refused(send(client, [row(1)], "/api/logs?source=unknown_logs"), LoadNotAllowed)
    assert_refused(send(client, [row(1)]), LoadNotAllowed)
    assert stored(log_database) == []


def test_a_shippers_access_token_reads_nothing(shipper: Client) -> None:
    assert shipper.get("/api/endpoints/query/logs.all?project=acme").status_code == 404


@pytest.mark.parametrize("method", ["get", "head", "put", "delete", "patch"])
def test_405_for_other_methods(shipper: Client, method: str) -> None:
    response = getattr(shipper, method)(URL)
    assert (response.status_code, response["Allow"]) == (405, "POST, OPTIONS")


def test_options_tell_the_methods() -> None:
    response = Client().options(URL)
    assert (response.status_code, response["Allow"], response.content) == (204, "POST, OPTIONS", b"")


@pytest.mark.parametrize("size", [0, 1, 1000])
@pytest.mark.parametrize("chunked", [False, True])
def test_413_for_a_body_over_the_limit(shipper: Client, settings: Any, size: int, chunked: bool) -> None:
    body = json.dumps(row(1, event_message="x" * 10)).encode()
    settings.ENDPOINTS_MAX_LOAD_BYTES = len(body)
    sent = body + b" " * size
    response = send(shipper, sent, **(in_chunks(sent) if chunked else {}))
    if size:
        assert_refused(response, RequestTooLarge)
    else:
        assert_loaded(response, loaded=1)


@pytest.mark.parametrize("members", [1, 50])
def test_413_for_a_gzip_bomb_without_expanding_it(shipper: Client, settings: Any, members: int) -> None:
    settings.ENDPOINTS_MAX_LOAD_BYTES = 1_000_000
    bomb = gzip.compress(b" " * 20_000_000) * members
    tracemalloc.start()
    assert_refused(send(shipper, bomb, headers={"Content-Encoding": "gzip"}), RequestTooLarge)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_413_for_more_gzip_members_than_a_body_has(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    """Two MiB of empty members: each byte is handed to zlib a few times, not once for each member before it."""
    empty = gzip.compress(b"")
    rows = [gzip.compress(line + b"\n") for line in LINES.split(b"\n")]
    most = rows + [empty] * (bodies.MAX_MEMBERS - len(rows))
    assert_loaded(send(shipper, b"".join(most), headers={"Content-Encoding": "gzip"}), loaded=2)
    for body in (b"".join([*most, empty]), empty * (2 * 1024 * 1024 // len(empty))):
        error = assert_refused(send(shipper, body, headers={"Content-Encoding": "gzip"}), RequestTooLarge)
        assert error["message"] == "A body may have at most 1000 members of gzip."


def test_413_for_rows_without_number_in_few_bytes(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    """Five million rows in 15 kB: not one of them is made."""
    packed = gzip.compress(b"[" + b"{}," * 5_000_000 + b"{}]", 9)
    assert len(packed) < 16_000
    tracemalloc.start()
    response = send(shipper, packed, headers={"Content-Encoding": "gzip"})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    error = assert_refused(response, RequestTooLarge)
    assert error["message"] == "A load may have at most 1000000 values; send several loads."
    assert peak < 64 * 1024 * 1024  # the body in its parts and in one piece, and in the test client's


@pytest.mark.parametrize(
    "timestamp", ["1" * 5_000, "\u0661" * 5_000, "2025-06-02T00:00:00." + "1" * 1_000_000 + "x", "1" * 17]
)
def test_400_for_a_timestamp_of_thousands_of_digits(
    shipper: Client, log_database: psycopg.Connection[Any], timestamp: str
) -> None:
    error = assert_refused(send(shipper, [row(1, timestamp=timestamp)]), InvalidRows)
    assert "time in ISO 8601, such as " in error["details"][0]["reason"]
    assert len(error["details"][0]["reason"]) < 200


@pytest.mark.parametrize("length", ["9" * 19, "9" * 5_000])
def test_413_for_an_announced_length_of_thousands_of_digits(
    shipper: Client, log_database: psycopg.Connection[Any], length: str
) -> None:
    assert_refused(send(shipper, LINES, CONTENT_LENGTH=length), RequestTooLarge)


@pytest.mark.parametrize(
    "packed",
    [
        b"no gzip",
        gzip.compress(LINES, mtime=0)[:-1],
        gzip.compress(LINES, mtime=0)[:30],
        gzip.compress(LINES, mtime=0) + b"rest",
    ],
    ids=["no gzip", "cut at its end", "cut in the middle", "more behind it"],
)
def test_400_for_damaged_gzip(shipper: Client, log_database: psycopg.Connection[Any], packed: bytes) -> None:
    assert_refused(send(shipper, packed, headers={"Content-Encoding": "gzip"}), InvalidRequest)
    assert stored(log_database) == []


def test_400_for_a_body_that_ends_early(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    cut_short = {"CONTENT_LENGTH": str(len(LINES) + 1), "wsgi.input": io.BytesIO(LINES)}
    assert_refused(send(shipper, LINES, **cut_short), InvalidRequest)
    assert stored(log_database) == []


@pytest.mark.parametrize("content_type", ["application/msgpack", "text/plain", "application/x-www-form-urlencoded"])
def test_415_for_another_content_type(shipper: Client, content_type: str) -> None:
    error = assert_refused(send(shipper, LINES, content_type=content_type), UnsupportedMediaType)
    assert {"media_type": "application/x-ndjson"} in error["details"]


@pytest.mark.parametrize("encoding", ["br", "compress", "gzip, gzip"])
def test_415_for_another_content_encoding(shipper: Client, encoding: str) -> None:
    response = send(shipper, LINES, headers={"Content-Encoding": encoding})
    assert_refused(response, UnsupportedEncoding)
    assert response["Accept-Encoding"] == "gzip, deflate, zstd"


def test_400_for_an_endless_idempotency_key(shipper: Client) -> None:
    assert_refused(send(shipper, LINES, headers={"Idempotency-Key": "k" * 256}), InvalidRequest)


# --- Under pressure ---------------------------------------------------------------------------------------------------


def test_loads_count_against_the_rate_limit(shipper: Client, settings: Any) -> None:
    settings.ENDPOINTS_RATE_LIMIT = Rate(calls=1, seconds=60)
    assert_loaded(send(shipper, []), loaded=0)
    response = send(shipper, [])
    assert_refused(response, RateLimited)
    assert int(response["Retry-After"]) > 0


def test_503_at_once_when_too_many_loads_are_in_hand(
    shipper: Client, settings: Any, log_database: psycopg.Connection[Any]
) -> None:
    close_load_pool()
    settings.ENDPOINTS_LOAD_CONCURRENCY = 1
    try:
        with load_pool.load_pool().place(), load_pool.load_pool().place():
            started = perf_counter()
            response = send(shipper, [row(1)])
            assert perf_counter() - started < settings.ENDPOINTS_POOL_WAIT_SECONDS
            assert_refused(response, Overloaded)
            assert int(response["Retry-After"]) > 0
        assert_loaded(send(shipper, [row(1)]), loaded=1)
    finally:
        close_load_pool()


def test_503_when_the_table_stays_locked(
    shipper: Client, log_database: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "LOCK_TIMEOUT", "100ms")
    with log_database.transaction():
        log_database.execute("LOCK TABLE logs.edge_logs IN ACCESS EXCLUSIVE MODE")
        assert_refused(send(shipper, [row(1)]), Overloaded)
    assert_loaded(send(shipper, [row(1)]), loaded=1)


def test_503_soon_when_the_log_database_is_away(shipper: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = LoadPool({**owner_parameters(), "host": "127.0.0.1", "port": "1"}, size=1, wait_seconds=0.3)
    monkeypatch.setattr(load_pool, "_pool", nowhere)
    try:
        started = perf_counter()
        response = send(shipper, [row(1)])
        assert perf_counter() - started < 2
        assert_refused(response, DatabaseUnavailable)
        assert int(response["Retry-After"]) > 0
    finally:
        nowhere.close()


def test_a_connection_that_died_meanwhile_costs_no_load(
    shipper: Client, log_database: psycopg.Connection[Any], superuser: psycopg.Connection[Any]
) -> None:
    assert_loaded(send(shipper, [row(1)]), loaded=1)
    superuser.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND usename = %s AND pid <> %s AND backend_type = 'client backend'",
        (owner_parameters()["user"], log_database.info.backend_pid),
    )
    connections["logs"].close()  # Django's own died too; a later test would be the first to notice
    assert_loaded(send(shipper, [row(2)]), loaded=1)


def test_follows_a_table_that_was_made_anew(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    def make(**fields: Any) -> Any:
        return create_source(name="moving_logs", holds="rows", **fields)

    source = make(project_location="row field")
    url = "/api/logs?source=moving_logs"
    try:
        assert_loaded(send(shipper, [row(1)], url), loaded=1, source="moving_logs")
        drop_source(source)
        source = make(project_location="metadata", project_path="project")
        assert_loaded(send(shipper, [row(1)], url), loaded=1, source="moving_logs")
        drop_source(source)
        source = make(project_location="metadata", project_path="owner")
        elsewhere = row(1, project=None, metadata={"project": "acme", "owner": "globex"})
        assert_loaded(send(shipper, [elsewhere], url), loaded=1, source="moving_logs")
        assert log_database.execute("SELECT project FROM logs.moving_logs").fetchall() == [("globex",)]
        drop_source(source)
        assert_refused(send(shipper, [row(1)], url), LogSourceNotFound)
    finally:
        log_database.execute("DROP TABLE IF EXISTS logs.moving_logs")


def test_an_operator_names_another_producer(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    source = LogSource.objects.get(name="pooler_logs")
    source.producer_names = [*source.producer_names, "supavisor.logs"]
    source.save()
    response = send(shipper, [row(1)], "/api/logs?source_name=supavisor.logs")
    assert_loaded(response, loaded=1, source="pooler_logs")
