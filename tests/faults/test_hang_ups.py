"""Clients that leave in the middle of a query: PostgreSQL stops it within a second, and nobody else is any worse off."""

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

import pytest

from tests.live.calls import Answer, Caller, all_at_once, until
from tests.live.installation import Installation
from tests.live.servers import SETTINGS

LABEL = {"label": "text"}
LONG = "SELECT logs.counted(@label, 10) AS label"
BUSY = (  # computes for minutes and sleeps nowhere
    "SELECT count(*) AS rows FROM generate_series(1, 30000) AS a, generate_series(1, 30000) AS b WHERE a + b = 1"
)
QUICK = "SELECT logs.counted(@label, 0) AS label"
CROWD: Final = 200
GENEROUS_SECONDS: Final = 8.0  # on an idle machine all are gone after half a second; unnoticed they run for ten
_RESET_AT_CLOSE: Final = struct.pack("ii", 1, 0)


@pytest.fixture(scope="module")
def crowded() -> Iterator[Installation]:
    """An installation whose PostgreSQL takes a connection for each of the crowd."""
    with Installation(server_settings={**SETTINGS, "max_connections": "300"}) as installation:
        installation.servers.execute(f"ALTER ROLE logs_gate CONNECTION LIMIT {CROWD + 60}")
        yield installation


class LeavingClient:
    """A client that sends a call and can leave before the answer."""

    def __init__(self, port: int, secret: str, endpoint: str, label: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=40)
        path = f"/api/endpoints/query/{endpoint}?{urlencode({'label': label})}"
        self._socket.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-KEY: {secret}\r\n\r\n".encode())

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


def test_two_hundred_leave_and_no_statement_runs_on(
    crowded: Installation, name: str, record_property: pytest.FixtureRequest
) -> None:
    long, quick = f"{name}.long", f"{name}.quick"
    crowded.save(long, LONG, parameters=LABEL, cache_seconds=0, statement_timeout_seconds=15)
    crowded.save(quick, QUICK, parameters=LABEL, cache_seconds=0)
    sizes = {"ENDPOINTS_POOL_SIZE": str(CROWD + 20), "ENDPOINTS_POOL_WAIT_SECONDS": "30"}
    with crowded.another_web(threads=CROWD + 20, **sizes) as (web, port), crowded.caller(port=port) as other:
        assert other.query(quick, {"label": "known"}).status == 200
        with clients(port, crowded.secret, long, [f"{name} {n}" for n in range(CROWD)]) as crowd:
            until(lambda: running(crowded) == CROWD, seconds=30)
            for number, client in enumerate(crowd):
                client.leave(rudely=number % 2 == 0)
            left_at = time.monotonic()
            meanwhile = []
            while running(crowded) and time.monotonic() - left_at < GENEROUS_SECONDS:
                meanwhile.append(other.query(quick, {"label": "meanwhile"}))
            seconds = time.monotonic() - left_at
        assert running(crowded) == 0
        print(f"\n{CROWD} statements were cancelled in {seconds:.2f} s")  # noqa: T201  # the figure of the drill
        assert {answer.status for answer in meanwhile} == {200}
        until(lambda: len(outcomes(web.log.read_bytes(), long)) == CROWD, seconds=10)
        assert set(outcomes(web.log.read_bytes(), long)) == {(499, "client_left")}
        assert b"internal_error" not in web.log.read_bytes()
        assert {answer.status for answer in _many(crowded, port, quick, calls=400)} == {200}


def test_a_statement_that_computes_is_cancelled_too(crowded: Installation, name: str) -> None:
    crowded.save(name, BUSY, cache_seconds=0, statement_timeout_seconds=60)
    with clients(crowded.port, crowded.secret, name, ["", ""]) as crowd:
        until(lambda: running(crowded) == 2, seconds=10)
        for client in crowd:
            client.leave()
        until(lambda: running(crowded) == 0, seconds=GENEROUS_SECONDS)


def test_those_who_left_before_their_turn_run_nothing(crowded: Installation, name: str) -> None:
    crowded.save(name, LONG, parameters=LABEL, cache_seconds=0, statement_timeout_seconds=15)
    with crowded.another_web(threads=4) as (web, port):
        mark = crowded.servers.mark()
        with clients(port, crowded.secret, name, [f"{name} {n}" for n in range(40)]) as crowd:
            until(lambda: running(crowded) == 4, seconds=10)
            for client in crowd:
                client.leave()
            until(lambda: len(outcomes(web.log.read_bytes(), name)) == 40, seconds=GENEROUS_SECONDS)
        assert set(outcomes(web.log.read_bytes(), name)) == {(499, "client_left")}
        assert len(crowded.servers.statements(mark, label=name)) == 4
        assert running(crowded) == 0


@pytest.mark.parametrize("who", ["the one who runs it", "the one who waits"])
def test_the_other_one_gets_the_rows(crowded: Installation, name: str, who: str) -> None:
    crowded.save(name, "SELECT logs.counted(@label, 3) AS label", parameters=LABEL, cache_seconds=600)
    with crowded.another_web(threads=8) as (_, port), crowded.caller(port=port) as staying:
        mark = crowded.servers.mark()
        with ThreadPoolExecutor(1) as pool:
            if who == "the one who runs it":
                leaving, answer = _first_leaving(crowded, port, name, staying, pool)
            else:
                answer = pool.submit(staying.query, name, {"label": name})
                until(lambda: running(crowded) == 1, seconds=10)
                leaving = LeavingClient(port, crowded.secret, name, name)
            time.sleep(0.5)  # the second one is on its way: it waits for the first one's run of three seconds
            leaving.leave()
            assert answer.result().rows == [{"label": name}]
        assert len(crowded.servers.statements(mark, label=name)) == 1


def _first_leaving(installation, port, name, staying, pool):  # type: ignore[no-untyped-def]
    leaving = LeavingClient(port, installation.secret, name, name)
    until(lambda: running(installation) == 1, seconds=10)
    return leaving, pool.submit(staying.query, name, {"label": name})


def test_a_statement_that_everybody_left_ends(crowded: Installation, name: str) -> None:
    crowded.save(name, LONG, parameters=LABEL, cache_seconds=600, statement_timeout_seconds=15)
    with crowded.another_web(threads=8) as (web, port), clients(port, crowded.secret, name, [name] * 5) as crowd:
        until(lambda: running(crowded) == 1, seconds=10)
        time.sleep(0.5)  # until the others wait for it
        for client in crowd:
            client.leave()
        until(lambda: running(crowded) == 0, seconds=GENEROUS_SECONDS)
        until(lambda: len(outcomes(web.log.read_bytes(), name)) == 5, seconds=10)


def test_another_process_that_waits_gets_the_rows_of_the_first_statement(crowded: Installation, name: str) -> None:
    crowded.save(name, "SELECT logs.counted(@label, 4) AS label", parameters=LABEL, cache_seconds=600)
    with crowded.another_web() as (_, first), crowded.another_web() as (_, second), crowded.caller(port=second) as other:
        mark = crowded.servers.mark()
        leaving = LeavingClient(first, crowded.secret, name, name)
        until(lambda: running(crowded) == 1, seconds=10)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(other.query, name, {"label": name})
            time.sleep(0.5)
            leaving.leave()
            assert answer.result().rows == [{"label": name}]
        assert len(crowded.servers.statements(mark, label=name)) == 1


def _many(installation: Installation, port: int, endpoint: str, *, calls: int) -> list[Answer]:
    with ExitStack() as stack:
        callers = [stack.enter_context(installation.caller(port=port)) for _ in range(calls)]

        def call(number: int, caller: Caller) -> Answer:
            return caller.query(endpoint, {"label": f"after {number}"})

        return all_at_once([lambda n=n, caller=caller: call(n, caller) for n, caller in enumerate(callers)])  # type: ignore[misc]
