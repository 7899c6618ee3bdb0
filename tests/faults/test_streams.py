"""Streams of a running service: slow readers, a killed PostgreSQL, the limit, memory, and others meanwhile."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import urlencode

import psycopg
import pytest

from tests.faults.conftest import CACHED, PLAIN
from tests.live.calls import until
from tests.live.installation import Installation, free_port, wait_until_ready
from tests.live.processes import children, web_server

NDJSON = "application/x-ndjson"
PATIENCE_SECONDS = 60.0
MOST_SECONDS = 3.0  # of a call beside streams; without them it takes some milliseconds
WITHOUT_END = 1_000_000_000
# 1 KiB a row: soon more than all buffers on the way hold.
SQL = "SELECT n, repeat(md5(n::text), 30) AS text FROM (SELECT generate_series(1, @rows::bigint) AS n) AS streamed"


@pytest.fixture
def endpoint(installation: Installation, name: str) -> str:
    installation.save(name, SQL, parameters={"rows": "integer"}, stream_rows=WITHOUT_END, cache_seconds=0)
    return name


@contextmanager
def begun(
    installation: Installation, endpoint: str, rows: int, *, port: int | None = None
) -> Iterator[http.client.HTTPResponse]:
    """Yield a stream's response whose body is still unread."""
    connection = http.client.HTTPConnection("127.0.0.1", port or installation.port, timeout=PATIENCE_SECONDS)
    with closing(connection):
        path = f"/api/endpoints/query/{endpoint}?{urlencode({'rows': rows})}"
        connection.request("GET", path, headers={"X-API-KEY": installation.secret, "Accept": NDJSON})
        yield connection.getresponse()


def rest_of(response: http.client.HTTPResponse) -> tuple[bytes, bool]:
    """Return the last bytes of a body, and whether HTTP says that it is whole."""
    tail = b""
    try:
        while piece := response.read1(65_536):
            tail = (tail + piece)[-100_000:]
    except (http.client.IncompleteRead, ConnectionError):
        return tail, False
    return tail, True


def statements(installation: Installation) -> int:
    """Return how many streams run in PostgreSQL."""
    try:
        found = installation.servers.value(
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%AS streamed%' AND usename = 'logs_gate'"
        )
    except psycopg.OperationalError:
        return -1
    assert isinstance(found, int)
    return found


def resident_bytes(installation: Installation) -> int:
    """Return the memory of the largest web process."""
    pages = [int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in children(installation.web.id)]
    return max(pages) * 4096


def test_memory_stays_flat(installation: Installation, endpoint: str) -> None:
    for _ in range(4):
        with begun(installation, endpoint, 2_000) as response:
            assert rest_of(response)[1]
    before = highest = resident_bytes(installation)
    with begun(installation, endpoint, 300_000) as response:  # 300 MB
        size, tail = 0, b""
        while piece := response.read1(1 << 20):
            size, tail = size + len(piece), (tail + piece)[-500:]
            highest = max(highest, resident_bytes(installation))
    end = json.loads(tail.splitlines()[-1])["end"]
    assert (end["rows"], end["truncated"]) == (300_000, False)
    assert end["request_id"] == response.headers["X-Request-ID"]
    assert size > 250_000_000
    assert highest - before < 20_000_000


def test_a_postgresql_that_is_killed_leaves_a_stream_that_nobody_takes_for_whole(
    installation: Installation, endpoint: str
) -> None:
    with begun(installation, endpoint, WITHOUT_END) as response:
        assert response.status == 200
        response.read(1_000_000)
        with installation.servers.postgres_killed():
            tail, is_whole = rest_of(response)
    last = json.loads(tail.splitlines()[-1])
    assert last["error"]["code"] == "database_unavailable"
    assert last["error"]["request_id"] == response.headers["X-Request-ID"]
    assert not is_whole


def test_a_postgresql_that_hangs_ends_a_stream_likewise(installation: Installation, endpoint: str) -> None:
    with begun(installation, endpoint, WITHOUT_END) as response:
        response.read(1_000_000)
        with installation.servers.postgres_frozen():
            tail, _ = rest_of(response)
    assert json.loads(tail.splitlines()[-1])["error"]["code"] == "database_unavailable"


def test_a_post_streams_through_django(installation: Installation, endpoint: str) -> None:
    with installation.caller() as caller:
        path, body = f"/api/endpoints/query/{endpoint}", json.dumps({"rows": 1_000}).encode()
        answer = caller.request("POST", path, body=body, Content_Type="application/json", Accept=NDJSON)
        again = caller.request("GET", "/livez")  # on the same connection
    assert json.loads(answer.body.splitlines()[-1]) == {
        "end": {"rows": 1_000, "truncated": False, "request_id": answer.headers["x-request-id"]}
    }
    assert answer.headers["transfer-encoding"] == "chunked"
    assert again.status == 200


def test_a_web_server_that_is_killed_leaves_a_stream_without_an_end(installation: Installation, endpoint: str) -> None:
    with installation.another_web() as (web, port), begun(installation, endpoint, WITHOUT_END, port=port) as response:
        response.read(1_000_000)
        web.kill()
        tail, is_whole = rest_of(response)
    assert not is_whole
    assert b'"end"' not in tail
    until(lambda: statements(installation) == 0, seconds=PATIENCE_SECONDS)


def test_a_client_that_leaves_ends_its_statement(installation: Installation, endpoint: str) -> None:
    with begun(installation, endpoint, WITHOUT_END) as response:
        response.read(1_000_000)
        assert statements(installation) == 1
    until(lambda: statements(installation) == 0, seconds=PATIENCE_SECONDS)


def test_a_client_that_does_not_read_is_cut_off_and_its_statement_ends(
    installation: Installation, endpoint: str
) -> None:
    port = free_port()
    arguments = [*web_server(port, workers=1, threads=4), "--unread-seconds", "2"]
    with ExitStack() as stack:
        web = installation.start(f"web-{port}", *arguments)
        stack.callback(web.kill)
        wait_until_ready(web, port)
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(
                f"GET /api/endpoints/query/{endpoint}?rows={WITHOUT_END} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                f"X-API-KEY: {installation.secret}\r\nAccept: {NDJSON}\r\n\r\n".encode()
            )
            until(lambda: statements(installation) == 1, seconds=PATIENCE_SECONDS)
            until(lambda: statements(installation) == 0, seconds=PATIENCE_SECONDS)


def test_others_are_answered_while_streams_run_and_further_streams_are_refused(
    installation: Installation, endpoint: str
) -> None:
    """Both streams of the only process, whose readers take what they get."""
    with installation.another_web(ENDPOINTS_STREAMS_AT_ONCE="none") as (_, port):
        over = threading.Event()

        def read() -> None:
            with begun(installation, endpoint, WITHOUT_END, port=port) as response:
                while not over.is_set() and response.read1(65_536):
                    pass

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        try:
            until(lambda: statements(installation) == 2, seconds=PATIENCE_SECONDS)
            seconds = []
            for _ in range(20):
                with installation.caller(port=port) as caller:
                    answers = [caller.query(CACHED), caller.query(PLAIN), caller.request("GET", "/livez")]
                    refused = caller.request("GET", f"/api/endpoints/query/{endpoint}?rows=1", Accept=NDJSON)
                assert [answer.status for answer in answers] == [200, 200, 200]
                assert (refused.status, refused.code) == (503, "overloaded")
                seconds += [answer.seconds for answer in (*answers, refused)]
                time.sleep(0.02)
        finally:
            over.set()
            for reader in readers:
                reader.join()
    assert max(seconds) < MOST_SECONDS
    until(lambda: statements(installation) == 0, seconds=PATIENCE_SECONDS)
