"""Clients that leave in the middle of a query: PostgreSQL stops it within a second, and no other call is affected."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Final
from urllib.parse import urlencode
from uuid import uuid4

import pytest

from tests.live.calls import Answer, Caller, all_at_once, until
from tests.live.installation import Installation
from tests.live.servers import SETTINGS

LABEL = {"label": "text"}
# Longer than any test, so that how fast the machine is does not matter.
LONG = "SELECT logs.counted(@label, 60) AS label"
BUSY = (  # computes for minutes and sleeps nowhere
    "SELECT count(*) AS rows FROM generate_series(1, 30000) AS a, generate_series(1, 30000) AS b WHERE a + b = 1"
)
SHARED = "SELECT logs.counted(@label, 6) AS label"
QUICK = "SELECT logs.counted(@label, 0) AS label"
CROWD: Final = 200
GENEROUS_SECONDS: Final = 30.0  # on an idle machine all are gone after half a second; unnoticed they run for a minute
_RESET_AT_CLOSE: Final = struct.pack("ii", 1, 0)


@pytest.fixture(scope="module")
def crowded() -> Iterator[Installation]:
    """An installation whose PostgreSQL takes a connection for each of the crowd."""
    with Installation(server_settings={**SETTINGS, "max_connections": "300"}) as installation:
        installation.servers.execute(f"ALTER ROLE logs_gate CONNECTION LIMIT {CROWD + 60}")
        yield installation


class LeavingClient:
    """A client that sends a call and can leave before the answer."""

    def __init__(
        self, port: int, secret: str, endpoint: str, label: str, *, method: str = "GET", accept: str = "*/*"
    ) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=40)
        self.request_id = uuid4().hex
        path = f"/api/endpoints/query/{endpoint}?{urlencode({'label': label})}"
        headers = f"Host: 127.0.0.1\r\nX-API-KEY: {secret}\r\nX-Request-ID: {self.request_id}\r\n"
        headers += f"Accept: {accept}\r\n"
        body = "" if method == "GET" else json.dumps({"label": label})
        if body:
            headers += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self._socket.sendall(f"{method} {path} HTTP/1.1\r\n{headers}\r\n{body}".encode())

    def leave(self, *, rudely: bool = False) -> None:
        if rudely:  # socket(7): with a reset in place of an orderly end
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
        self._socket.close()


def running(installation: Installation) -> int:
    count = installation.servers.value(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = 'logs_gate' AND state = 'active'"
        " AND query NOT LIKE '%log_position(%'"
    )
    assert isinstance(count, int)
    return count


def outcomes(log: bytes, endpoint: str) -> list[tuple[int, str]]:
    """Return status and error code of the calls of an endpoint, as the log has them."""
    lines = [json.loads(line) for line in log.splitlines() if line.startswith(b"{") and b'"request_finished"' in line]
    return [(line["code"], line.get("error", "")) for line in lines if line.get("endpoint") == endpoint]


@contextmanager
def clients(port: int, secret: str, endpoint: str, labels: Sequence[str]) -> Iterator[list[LeavingClient]]:
    with ExitStack() as stack:
        crowd = []
        for label in labels:
            crowd.append(LeavingClient(port, secret, endpoint, label))
            stack.callback(crowd[-1].leave)
        yield crowd


def redis_keys(installation: Installation, pattern: str) -> list[bytes]:
    with installation.servers.redis() as client:
        return client.keys(f"lqe:{pattern}")  # type: ignore[return-value]  # of the synchronous client


def is_listed(installation: Installation, request_id: str) -> bool:
    """Tell whether a call runs, or waits for another one, for so long that it looks whether anybody still wants it."""
    return bool(redis_keys(installation, f"calls:*:{request_id}"))


def test_two_hundred_leave_and_no_statement_runs_on(crowded: Installation, name: str) -> None:
    long, quick = f"{name}.long", f"{name}.quick"
    crowded.save(long, LONG, parameters=LABEL, cache_seconds=0, statement_timeout_seconds=90)
    crowded.save(quick, QUICK, parameters=LABEL, cache_seconds=0)
    sizes = {"ENDPOINTS_POOL_SIZE": str(CROWD + 20), "ENDPOINTS_POOL_WAIT_SECONDS": "30"}
    with crowded.another_web(threads=CROWD + 20, **sizes) as (web, port), crowded.caller(port=port) as other:
        assert other.query(quick, {"label": "known"}).status == 200
        with clients(port, crowded.secret, long, [f"{name} {n}" for n in range(CROWD)]) as crowd:
            until(lambda: running(crowded) == CROWD, seconds=GENEROUS_SECONDS)
            for number, client in enumerate(crowd):
                client.leave(rudely=number % 2 == 0)
            left_at = time.monotonic()
            meanwhile = []
            while running(crowded) and time.monotonic() - left_at < GENEROUS_SECONDS:
                meanwhile.append(other.query(quick, {"label": "meanwhile"}))
            seconds = time.monotonic() - left_at
        assert running(crowded) == 0
        print(f"{CROWD} statements were cancelled in {seconds:.2f} s")  # noqa: T201  # the figure, shown by -s
        assert {answer.status for answer in meanwhile} == {200}
        until(lambda: len(outcomes(web.log.read_bytes(), long)) == CROWD, seconds=GENEROUS_SECONDS)
        assert set(outcomes(web.log.read_bytes(), long)) == {(499, "client_left")}
        assert b"internal_error" not in web.log.read_bytes()
        assert {answer.status for answer in _many(crowded, port, quick, calls=400)} == {200}


def test_a_statement_that_computes_is_cancelled_too(crowded: Installation, name: str) -> None:
    crowded.save(name, BUSY, cache_seconds=0, statement_timeout_seconds=60)
    crowd = [LeavingClient(crowded.port, crowded.secret, name, "", method=method) for method in ("GET", "POST")]
    until(lambda: running(crowded) == len(crowd), seconds=GENEROUS_SECONDS)
    for client in crowd:
        client.leave()
    until(lambda: running(crowded) == 0, seconds=GENEROUS_SECONDS)


def test_a_stream_that_has_no_row_yet_is_cancelled_too(crowded: Installation, name: str) -> None:
    crowded.save(name, LONG, parameters=LABEL, stream_rows=1000, statement_timeout_seconds=90)
    client = LeavingClient(crowded.port, crowded.secret, name, name, accept="text/csv")
    until(lambda: running(crowded) == 1, seconds=GENEROUS_SECONDS)
    client.leave()
    until(lambda: running(crowded) == 0, seconds=GENEROUS_SECONDS)
    until(lambda: (499, "client_left") in outcomes(crowded.web.log.read_bytes(), name), seconds=GENEROUS_SECONDS)


def test_those_who_left_before_their_turn_run_nothing(crowded: Installation, name: str) -> None:
    crowded.save(name, LONG, parameters=LABEL, cache_seconds=0, statement_timeout_seconds=90)
    with crowded.another_web(threads=4) as (web, port):
        mark = crowded.servers.mark()
        with clients(port, crowded.secret, name, [f"{name} {n}" for n in range(40)]) as crowd:
            until(lambda: running(crowded) == 4, seconds=GENEROUS_SECONDS)
            for client in crowd:
                client.leave()
            until(lambda: len(outcomes(web.log.read_bytes(), name)) == 40, seconds=GENEROUS_SECONDS)
        assert set(outcomes(web.log.read_bytes(), name)) == {(499, "client_left")}
        assert len(crowded.servers.statements(mark, label=name)) == 4
        assert running(crowded) == 0


@pytest.mark.parametrize("leaver", ["the one who runs it", "the one who waits"])
def test_the_other_one_gets_the_rows(crowded: Installation, name: str, leaver: str) -> None:
    crowded.save(name, SHARED, parameters=LABEL, cache_seconds=600)
    with crowded.another_web(threads=8) as (_, port), ThreadPoolExecutor(1) as pool, crowded.caller(port=port) as other:
        mark = crowded.servers.mark()
        if leaver == "the one who runs it":
            leaving = LeavingClient(port, crowded.secret, name, name)
            until(lambda: is_listed(crowded, leaving.request_id), seconds=GENEROUS_SECONDS)
            answer = pool.submit(other.query, name, {"label": name}, x_request_id=name)
            until(lambda: is_listed(crowded, name), seconds=GENEROUS_SECONDS)
        else:
            answer = pool.submit(other.query, name, {"label": name}, x_request_id=name)
            until(lambda: is_listed(crowded, name), seconds=GENEROUS_SECONDS)
            leaving = LeavingClient(port, crowded.secret, name, name)
            until(lambda: is_listed(crowded, leaving.request_id), seconds=GENEROUS_SECONDS)
        leaving.leave()
        assert answer.result().rows == [{"label": name}]
    assert len(crowded.servers.statements(mark, label=name)) == 1


def test_another_process_that_waits_gets_the_rows_of_the_same_statement(crowded: Installation, name: str) -> None:
    crowded.save(name, SHARED, parameters=LABEL, cache_seconds=600)
    with ExitStack() as stack:
        _, first = stack.enter_context(crowded.another_web())
        _, second = stack.enter_context(crowded.another_web())
        other, pool = stack.enter_context(crowded.caller(port=second)), stack.enter_context(ThreadPoolExecutor(1))
        mark = crowded.servers.mark()
        leaving = LeavingClient(first, crowded.secret, name, name)
        until(lambda: running(crowded) == 1, seconds=GENEROUS_SECONDS)
        answer = pool.submit(other.query, name, {"label": name})
        until(lambda: bool(redis_keys(crowded, "awaited:*")), seconds=GENEROUS_SECONDS)
        leaving.leave()
        assert answer.result().rows == [{"label": name}]
    assert len(crowded.servers.statements(mark, label=name)) == 1


def test_a_statement_that_everybody_left_ends(crowded: Installation, name: str) -> None:
    crowded.save(name, LONG, parameters=LABEL, cache_seconds=600, statement_timeout_seconds=90)
    with crowded.another_web(threads=8) as (web, port), clients(port, crowded.secret, name, [name] * 5) as crowd:
        until(lambda: all(is_listed(crowded, client.request_id) for client in crowd), seconds=GENEROUS_SECONDS)
        for client in crowd:
            client.leave()
        until(lambda: running(crowded) == 0, seconds=GENEROUS_SECONDS)
        until(lambda: len(outcomes(web.log.read_bytes(), name)) == 5, seconds=GENEROUS_SECONDS)
        assert set(outcomes(web.log.read_bytes(), name)) == {(499, "client_left")}


def test_leaving_frees_no_permit_before_the_statement_is_over(crowded: Installation, name: str) -> None:
    crowded.save(name, LONG, parameters=LABEL, cache_seconds=0, statement_timeout_seconds=90)
    secret = crowded.console.do("issue", name=name, limits={"calls_at_once": 2})
    with crowded.another_web(threads=16) as (_, port):
        with clients(port, secret, name, [f"{name} first {n}" for n in range(6)]):
            until(lambda: running(crowded) == 2, seconds=GENEROUS_SECONDS)
        # Those who come while the statements of the first ones are being cancelled run after them, or get a 429.
        for turn in range(5):
            with clients(port, secret, name, [f"{name} {turn} {n}" for n in range(6)]):
                assert max(running(crowded) for _ in range(20)) <= 2
        until(lambda: running(crowded) == 0, seconds=GENEROUS_SECONDS)


def test_a_call_is_cancelled_through_any_process_with_its_own_access_token(crowded: Installation, name: str) -> None:
    crowded.save(name, LONG, parameters=LABEL, cache_seconds=0, statement_timeout_seconds=90)
    strangers = crowded.console.do("issue", name=name)
    with ExitStack() as stack:
        _, first = stack.enter_context(crowded.another_web())
        _, second = stack.enter_context(crowded.another_web())
        caller, pool = stack.enter_context(crowded.caller(port=first)), stack.enter_context(ThreadPoolExecutor(1))
        owner = stack.enter_context(crowded.caller(port=second))
        stranger = stack.enter_context(crowded.caller(port=second, secret=strangers))
        answer = pool.submit(caller.query, name, {"label": name}, x_request_id=name)
        until(lambda: is_listed(crowded, name), seconds=GENEROUS_SECONDS)
        assert stranger.request("DELETE", f"/api/calls/{name}").code == "call_not_found"
        assert running(crowded) == 1
        cancelled = owner.request("DELETE", f"/api/calls/{name}")
        assert (cancelled.status, cancelled.rows) == (200, [{"request_id": name, "cancelled": True}])
        assert (answer.result().status, answer.result().code) == (409, "cancelled")
        until(lambda: running(crowded) == 0, seconds=GENEROUS_SECONDS)
        assert owner.request("DELETE", f"/api/calls/{name}").status == 404


def _many(installation: Installation, port: int, endpoint: str, *, calls: int) -> list[Answer]:
    with ExitStack() as stack:
        callers = [stack.enter_context(installation.caller(port=port)) for _ in range(calls)]

        def call(number: int, caller: Caller) -> Answer:
            return caller.query(endpoint, {"label": f"after {number}"})

        return all_at_once([lambda n=n, caller=caller: call(n, caller) for n, caller in enumerate(callers)])  # type: ignore[misc]
