"""Whether a server lives: by one small question, shared by all who ask."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from psycopg.conninfo import conninfo_to_dict

from endpoints import heartbeat as heartbeat_module
from endpoints.heartbeat import DEAD_FOR, Heartbeat
from tests.drills import DrillServer, server

__all__ = ["server"]


@pytest.fixture
def heartbeat(server: DrillServer) -> Iterator[Heartbeat]:
    assert server.servers.logs_gate_url is not None
    own = Heartbeat(dict(conninfo_to_dict(server.servers.logs_gate_url)))
    yield own
    own.close()


def test_a_living_server_answers_and_refuses_nobody(heartbeat: Heartbeat) -> None:
    assert heartbeat.answers()
    assert not heartbeat.is_known_dead()
    assert not heartbeat.refuses()


@pytest.mark.parametrize("is_connected", [True, False])
def test_a_hanging_server_is_found_dead_in_time(heartbeat: Heartbeat, server: DrillServer, is_connected: bool) -> None:
    if is_connected:
        assert heartbeat.answers()
        time.sleep(heartbeat_module.ALIVE_FOR)
    with server.frozen():
        started = time.monotonic()
        assert not heartbeat.answers(within=0.6)
        assert 0.5 < time.monotonic() - started < 1
        assert heartbeat.is_known_dead()
        assert heartbeat.refuses()
    time.sleep(DEAD_FOR)
    assert not heartbeat.is_known_dead()
    assert not heartbeat.refuses()
    assert heartbeat.answers()


def test_all_who_ask_at_once_share_one_question(heartbeat: Heartbeat, server: DrillServer) -> None:
    with server.frozen(), ThreadPoolExecutor(8) as executor:
        started = time.monotonic()
        verdicts = list(executor.map(lambda _: heartbeat.answers(within=0.6), range(16)))
        assert time.monotonic() - started < 1
    assert verdicts == [False] * 16


def test_one_caller_asks_again_while_the_others_are_refused_at_once(heartbeat: Heartbeat, server: DrillServer) -> None:
    def refused(_: int) -> float:
        started = time.monotonic()
        assert heartbeat.refuses()
        return time.monotonic() - started

    with server.frozen():
        assert not heartbeat.answers(within=0.3)
        time.sleep(DEAD_FOR)
        with ThreadPoolExecutor(6) as executor:
            waits = sorted(executor.map(refused, range(6)))
    assert waits[-2] < 0.3
    assert waits[-1] > 0.5


def test_a_restarted_server_is_alive_although_the_kept_connection_has_died(
    heartbeat: Heartbeat, server: DrillServer
) -> None:
    assert heartbeat.answers()
    server.kill()
    server.start()
    time.sleep(heartbeat_module.ALIVE_FOR)
    assert heartbeat.answers()


def test_a_server_that_is_gone_is_dead_at_once(heartbeat: Heartbeat, server: DrillServer) -> None:
    assert heartbeat.answers()
    server.kill()
    time.sleep(heartbeat_module.ALIVE_FOR)
    started = time.monotonic()
    assert not heartbeat.answers()
    assert time.monotonic() - started < 0.5


def test_a_server_without_a_free_place_for_the_heartbeat_is_alive(heartbeat: Heartbeat, server: DrillServer) -> None:
    server.execute("ALTER ROLE logs_gate CONNECTION LIMIT 0")
    try:
        assert heartbeat.answers()
    finally:
        server.execute("ALTER ROLE logs_gate CONNECTION LIMIT 40")
