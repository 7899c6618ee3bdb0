"""Whether a server lives: by one small question, shared by all who ask."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from psycopg.conninfo import conninfo_to_dict

from endpoints import heartbeat as heartbeat_module
from endpoints.heartbeat import ALIVE_FOR, DEAD_FOR, PROBE_SECONDS, Heartbeat
from tests.drills import DrillServer, server
from tests.still_clock import StillClock

__all__ = ["server"]

PATIENT = 20.0  # seconds for a server that lives, however busy the machine


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StillClock:
    clock = StillClock()
    monkeypatch.setattr(heartbeat_module, "monotonic", clock)
    return clock


@pytest.fixture
def heartbeat(server: DrillServer, clock: StillClock) -> Iterator[Heartbeat]:
    assert server.servers.logs_gate_url is not None
    own = Heartbeat(dict(conninfo_to_dict(server.servers.logs_gate_url)))
    yield own
    own.close()


@pytest.fixture
def questions(heartbeat: Heartbeat, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each question to the server was to wait, in order."""
    asked: list[float] = []
    probe = heartbeat._probe

    def counted(seconds: float) -> bool:
        asked.append(seconds)
        return probe(seconds)

    monkeypatch.setattr(heartbeat, "_probe", counted)
    return asked


def test_a_living_server_answers_and_refuses_nobody(heartbeat: Heartbeat) -> None:
    assert heartbeat.answers(within=PATIENT)
    assert not heartbeat.is_known_dead()
    assert not heartbeat.refuses()


def test_a_verdict_serves_everybody_for_a_moment(
    heartbeat: Heartbeat, clock: StillClock, questions: list[float]
) -> None:
    for _ in range(3):
        assert heartbeat.answers(within=PATIENT)
    assert questions == [PATIENT]
    clock.now += ALIVE_FOR
    assert heartbeat.answers(within=PATIENT)
    assert questions == [PATIENT, PATIENT]


@pytest.mark.parametrize("is_connected", [True, False])
def test_a_hanging_server_is_found_dead_in_time(
    heartbeat: Heartbeat, server: DrillServer, clock: StillClock, questions: list[float], is_connected: bool
) -> None:
    if is_connected:
        assert heartbeat.answers(within=PATIENT)
        clock.now += ALIVE_FOR
    with server.frozen():
        started = time.monotonic()
        assert not heartbeat.answers(within=0.3)
        assert time.monotonic() - started < 10 * 0.3
        assert heartbeat.is_known_dead()
        assert heartbeat.refuses()
        assert questions[int(is_connected) :] == [pytest.approx(0.3)]
    clock.now += DEAD_FOR
    assert not heartbeat.is_known_dead()
    until(lambda: not heartbeat.refuses(), clock)
    assert heartbeat.answers(within=PATIENT)


def until(condition: Callable[[], bool], clock: StillClock) -> None:
    """Ask again each DEAD_FOR seconds of the heartbeat's clock: on a busy machine a server needs time to wake up."""
    for _ in range(20):
        if condition():
            return
        clock.now += DEAD_FOR
    raise AssertionError("it did not come about")


def test_all_who_ask_at_once_share_one_question(
    heartbeat: Heartbeat, server: DrillServer, questions: list[float]
) -> None:
    with server.frozen(), ThreadPoolExecutor(16) as executor:
        verdicts = list(executor.map(lambda _: heartbeat.answers(within=0.3), range(16)))
    assert verdicts == [False] * 16
    assert questions == [pytest.approx(0.3)]


def test_one_caller_asks_again_while_the_others_are_refused_at_once(
    heartbeat: Heartbeat, server: DrillServer, clock: StillClock, questions: list[float]
) -> None:
    with server.frozen():
        assert not heartbeat.answers(within=0.3)
        clock.now += DEAD_FOR
        with ThreadPoolExecutor(6) as executor:
            assert list(executor.map(lambda _: heartbeat.refuses(), range(6))) == [True] * 6
    assert questions == [pytest.approx(0.3), PROBE_SECONDS]


def test_a_restarted_server_is_alive_although_the_kept_connection_has_died(
    heartbeat: Heartbeat, server: DrillServer, clock: StillClock
) -> None:
    assert heartbeat.answers(within=PATIENT)
    server.kill()
    server.start()
    clock.now += ALIVE_FOR
    assert heartbeat.answers(within=PATIENT)


def test_a_server_that_is_gone_is_dead_at_once(heartbeat: Heartbeat, server: DrillServer, clock: StillClock) -> None:
    assert heartbeat.answers(within=PATIENT)
    server.kill()
    clock.now += ALIVE_FOR
    started = time.monotonic()
    assert not heartbeat.answers(within=PATIENT)
    assert time.monotonic() - started < PATIENT / 2


def test_a_server_without_a_free_place_for_the_heartbeat_is_alive(heartbeat: Heartbeat, server: DrillServer) -> None:
    server.execute("ALTER ROLE logs_gate CONNECTION LIMIT 0")
    try:
        assert heartbeat.answers(within=PATIENT)
    finally:
        server.execute("ALTER ROLE logs_gate CONNECTION LIMIT 40")
