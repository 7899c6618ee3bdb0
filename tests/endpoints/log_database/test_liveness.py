"""Whether a server lives: by one small question, shared by all who ask."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from psycopg.conninfo import conninfo_to_dict

from endpoints.log_database import liveness as liveness_module
from endpoints.log_database.liveness import ALIVE_FOR, DEAD_FOR, PROBE_SECONDS, Liveness
from tests.drills import DrillServer
from tests.still_clock import StillClock

PATIENT = 20.0  # seconds for a server that lives, however busy the machine


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StillClock:
    clock = StillClock()
    monkeypatch.setattr(liveness_module, "monotonic", clock)
    return clock


@pytest.fixture
def liveness(server: DrillServer, clock: StillClock) -> Iterator[Liveness]:
    assert server.servers.logs_gate_url is not None
    own = Liveness(dict(conninfo_to_dict(server.servers.logs_gate_url)))
    yield own
    own.close()


@pytest.fixture
def questions(liveness: Liveness, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each question to the server was to wait, in order."""
    asked: list[float] = []
    probe = liveness._probe

    def counted(seconds: float) -> bool:
        asked.append(seconds)
        return probe(seconds)

    monkeypatch.setattr(liveness, "_probe", counted)
    return asked


def test_a_living_server_answers_and_refuses_nobody(liveness: Liveness) -> None:
    assert liveness.answers(within=PATIENT)
    assert not liveness.is_known_dead()
    assert not liveness.refuses()


def test_a_verdict_serves_everybody_for_a_moment(liveness: Liveness, clock: StillClock, questions: list[float]) -> None:
    for _ in range(3):
        assert liveness.answers(within=PATIENT)
    assert questions == [PATIENT]
    clock.now += ALIVE_FOR
    assert liveness.answers(within=PATIENT)
    assert questions == [PATIENT, PATIENT]


@pytest.mark.parametrize("is_connected", [True, False])
def test_a_hanging_server_is_found_dead_in_time(
    liveness: Liveness, server: DrillServer, clock: StillClock, questions: list[float], is_connected: bool
) -> None:
    if is_connected:
        assert liveness.answers(within=PATIENT)
        clock.now += ALIVE_FOR
    with server.frozen():
        started = time.monotonic()
        assert not liveness.answers(within=0.3)
        assert time.monotonic() - started < 10 * 0.3
        assert liveness.is_known_dead()
        assert liveness.refuses()
        assert questions[int(is_connected) :] == [pytest.approx(0.3)]
    clock.now += DEAD_FOR
    assert not liveness.is_known_dead()
    until(lambda: not liveness.refuses(), clock)
    assert liveness.answers(within=PATIENT)


def until(condition: Callable[[], bool], clock: StillClock) -> None:
    """Ask again each DEAD_FOR seconds of the liveness's clock: on a busy machine a server needs time to wake up."""
    for _ in range(20):
        if condition():
            return
        clock.now += DEAD_FOR
    raise AssertionError("it did not come about")


def test_all_who_ask_at_once_share_one_question(
    liveness: Liveness, server: DrillServer, questions: list[float]
) -> None:
    with server.frozen(), ThreadPoolExecutor(16) as executor:
        verdicts = list(executor.map(lambda _: liveness.answers(within=0.3), range(16)))
    assert verdicts == [False] * 16
    assert questions == [pytest.approx(0.3)]


def test_one_caller_asks_again_while_the_others_are_refused_at_once(
    liveness: Liveness, server: DrillServer, clock: StillClock, questions: list[float]
) -> None:
    with server.frozen():
        assert not liveness.answers(within=0.3)
        clock.now += DEAD_FOR
        with ThreadPoolExecutor(6) as executor:
            assert list(executor.map(lambda _: liveness.refuses(), range(6))) == [True] * 6
    assert questions == [pytest.approx(0.3), PROBE_SECONDS]


def test_a_restarted_server_is_alive_although_the_kept_connection_has_died(
    liveness: Liveness, server: DrillServer, clock: StillClock
) -> None:
    assert liveness.answers(within=PATIENT)
    server.kill()
    server.start()
    clock.now += ALIVE_FOR
    assert liveness.answers(within=PATIENT)


def test_a_server_that_is_gone_is_dead_at_once(liveness: Liveness, server: DrillServer, clock: StillClock) -> None:
    assert liveness.answers(within=PATIENT)
    server.kill()
    clock.now += ALIVE_FOR
    started = time.monotonic()
    assert not liveness.answers(within=PATIENT)
    assert time.monotonic() - started < PATIENT / 2


def test_a_server_without_a_free_place_for_the_heartbeat_is_alive(liveness: Liveness, server: DrillServer) -> None:
    server.execute("ALTER ROLE logs_gate CONNECTION LIMIT 0")
    try:
        assert liveness.answers(within=PATIENT)
    finally:
        server.execute("ALTER ROLE logs_gate CONNECTION LIMIT 40")


def test_of_several_servers_the_one_that_takes_the_connection_is_meant(server: DrillServer) -> None:
    living = dict(conninfo_to_dict(str(server.servers.logs_gate_url)))
    gone = {**living, "host": "127.0.0.1", "port": "1"}
    for servers in ((gone, living), (living, gone), ({**living, "target_session_attrs": "standby"}, living)):
        liveness = Liveness(*servers)
        assert liveness.answers(within=PATIENT)
        liveness.close()
    nowhere = Liveness(gone, {**living, "target_session_attrs": "standby"})
    assert not nowhere.answers(within=PATIENT)
    nowhere.close()
