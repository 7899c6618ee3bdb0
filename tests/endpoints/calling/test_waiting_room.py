"""Those who wait are tried again when something came for them, or when their time is up, by a few threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from config.exchanges import Exchange
from endpoints.calling import waiting_room as module
from endpoints.calling.waiting_room import NotNow, WaitingRoom, Wish
from endpoints.errors import Overloaded

PATIENCE_SECONDS = 20.0
LONG_SECONDS = 600.0


@dataclass(frozen=True)
class Reply:
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"X-Result-Rows": "1"})
    body: bytes = b"rows"


class Client(Exchange):
    """Gets one answer."""

    def __init__(self) -> None:
        super().__init__(None)
        self.answered = threading.Event()
        self.given: list[tuple[int, list[tuple[str, str]], bytes]] = []

    def answer(self, status: int, headers: Any, body: bytes) -> None:
        self.given.append((status, list(headers), body))
        self.answered.set()


class Rows:
    """What an attempt finds: nothing, until there is something."""

    def __init__(self) -> None:
        self.are_there = False
        self.attempts: list[bool] = []
        self.tried = threading.Semaphore(0)

    def attempt(self, is_last: bool) -> Reply | None:
        self.attempts.append(is_last)
        self.tried.release()
        return Reply() if self.are_there or is_last else None


class SilentListener:
    """In place of one with a connection: the tests say what is heard."""

    def __init__(self, *_: object) -> None:
        pass

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass


@pytest.fixture
def make_room(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., WaitingRoom]]:
    monkeypatch.setattr(module, "Listener", SilentListener)
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    rooms: list[WaitingRoom] = []

    def make(**options: Any) -> WaitingRoom:
        rooms.append(WaitingRoom(**{"places": 10, **options}))
        return rooms[-1]

    yield make
    for room in rooms:
        room.close()


@pytest.fixture
def room(make_room: Callable[..., WaitingRoom]) -> WaitingRoom:
    return make_room()


def nothing() -> Callable[[], object]:
    return lambda: None


def wish(room: WaitingRoom, rows: Rows, *, name: str = "edge_logs", seconds: float = LONG_SECONDS) -> Wish:
    return Wish(rows.attempt, frozenset({name}), since=room.moment, seconds=seconds)


def enter(room: WaitingRoom, wish: Wish) -> Client:
    client = Client()
    headers = [("Content-Type", "text/plain"), ("x-result-rows", "0")]
    room.answer_when(wish, nothing).deliver(client, 200, headers)
    return client


def answer_of(client: Client) -> tuple[int, dict[str, str], bytes]:
    assert client.answered.wait(PATIENCE_SECONDS)
    ((status, headers, body),) = client.given
    assert len(dict(headers)) == len(headers)
    return status, dict(headers), body


def test_answers_when_rows_were_loaded(room: WaitingRoom) -> None:
    rows = Rows()
    client = enter(room, wish(room, rows))
    rows.are_there = True
    room.heard("edge_logs", 5)
    status, headers, body = answer_of(client)
    assert (status, body) == (200, b"rows")
    assert headers == {"Content-Type": "text/plain", "X-Result-Rows": "1", "Content-Length": "4"}
    assert rows.attempts == [False]
    assert room.position == 5


def test_what_came_before_it_entered_is_not_missed(room: WaitingRoom) -> None:
    rows = Rows()
    asked = wish(room, rows)
    room.heard("edge_logs", 5)  # after the first attempt read its rows
    rows.are_there = True
    assert answer_of(enter(room, asked))[2] == b"rows"


def test_waits_on_when_nothing_matched(room: WaitingRoom) -> None:
    rows = Rows()
    client = enter(room, wish(room, rows))
    room.heard("edge_logs", 5)
    assert rows.tried.acquire(timeout=PATIENCE_SECONDS)
    rows.are_there = True
    room.heard("edge_logs", 6)
    assert answer_of(client)[2] == b"rows"


def test_other_log_sources_wake_nobody(room: WaitingRoom) -> None:
    rows, others = Rows(), Rows()
    enter(room, wish(room, rows))
    client = enter(room, wish(room, others, name="auth_logs"))
    others.are_there = True
    room.heard("auth_logs", 5)
    answer_of(client)
    assert rows.attempts == []


def test_answers_when_the_time_is_up(room: WaitingRoom) -> None:
    rows = Rows()
    assert answer_of(enter(room, wish(room, rows, seconds=0.05)))[0] == 200
    assert rows.attempts == [True]


def test_everybody_looks_again_after_the_connection_was_lost(room: WaitingRoom) -> None:
    found = [Rows() for _ in range(5)]
    clients = [enter(room, wish(room, rows, name=f"source_{number}")) for number, rows in enumerate(found)]
    for rows in found:
        rows.are_there = True
    room.connected(7)
    for client in clients:
        answer_of(client)


def test_tries_again_soon_after_a_failure_that_passes(room: WaitingRoom) -> None:
    attempts: list[bool] = []

    def attempt(is_last: bool) -> Reply | None:
        attempts.append(is_last)
        if len(attempts) < 4:
            raise NotNow
        return Reply()

    client = enter(room, Wish(attempt, frozenset({"edge_logs"}), since=room.moment, seconds=LONG_SECONDS))
    room.heard("edge_logs", 5)
    assert answer_of(client)[0] == 200
    assert attempts == [False] * 4


def test_an_attempt_with_a_bug_harms_nobody_else(room: WaitingRoom) -> None:
    def attempt(is_last: bool) -> Reply | None:
        raise ZeroDivisionError

    enter(room, Wish(attempt, frozenset({"edge_logs"}), since=room.moment, seconds=LONG_SECONDS))
    rows = Rows()
    client = enter(room, wish(room, rows))
    rows.are_there = True
    room.heard("edge_logs", 5)
    assert answer_of(client)[0] == 200


def test_has_few_threads_for_many(make_room: Callable[..., WaitingRoom]) -> None:
    room = make_room(places=300)
    before = threading.active_count()
    found = [Rows() for _ in range(300)]
    clients = [enter(room, wish(room, rows)) for rows in found]
    assert threading.active_count() - before <= module.THREADS
    for rows in found:
        rows.are_there = True
    room.heard("edge_logs", 5)
    for client in clients:
        answer_of(client)


def test_a_place_is_free_again_after_the_answer_and_when_nobody_has_it(make_room: Callable[..., WaitingRoom]) -> None:
    room = make_room(places=1)
    left: list[str] = []

    def take(name: str) -> Callable[[], Callable[[], object]]:
        return lambda: lambda: left.append(name)

    rows = Rows()
    client = Client()
    later = room.answer_when(wish(room, rows, seconds=0.0), take("answered"))
    with pytest.raises(Overloaded):
        room.answer_when(wish(room, rows), take("refused"))
    later.deliver(client, 200, [])
    answer_of(client)
    del later
    until_free(room, wish(room, rows), take("forgotten"))
    until_free(room, wish(room, rows), take("last"))
    assert left[:2] == ["answered", "forgotten"]


def until_free(room: WaitingRoom, asked: Wish, take: Callable[[], Callable[[], object]]) -> None:
    """Take a place and forget it; the thread that answered gives its own back a moment later."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / 0.01)):
        try:
            room.answer_when(asked, take)
        except Overloaded:
            pause.wait(0.01)
        else:
            return
    pytest.fail("no place became free")


def test_what_cannot_be_taken_takes_no_place(make_room: Callable[..., WaitingRoom]) -> None:
    room = make_room(places=1)

    def refuse() -> Callable[[], object]:
        raise KeyError

    for _ in range(3):
        with pytest.raises(KeyError):
            room.answer_when(wish(room, Rows()), refuse)
    assert room.answer_when(wish(room, Rows()), nothing)


def test_a_client_that_has_left_costs_no_attempt(make_room: Callable[..., WaitingRoom]) -> None:
    gone: set[Exchange] = set()
    room = make_room(has_left=gone.__contains__)
    rows, others = Rows(), Rows()
    gone.add(enter(room, wish(room, rows)))
    client = enter(room, wish(room, others))
    others.are_there = True
    room.heard("edge_logs", 5)
    answer_of(client)
    assert rows.attempts == []


def test_everybody_is_answered_when_the_process_ends(room: WaitingRoom) -> None:
    rows, late = Rows(), Rows()
    client = enter(room, wish(room, rows))
    room.end_waits()
    answer_of(client)
    answer_of(enter(room, wish(room, late)))
    assert rows.attempts == late.attempts == [True]


def test_under_another_web_server_the_body_waits(room: WaitingRoom) -> None:
    rows = Rows()
    later = room.answer_when(wish(room, rows, seconds=0.05), nothing)
    assert list(later) == [b"rows"]
