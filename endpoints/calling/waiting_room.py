"""The waiting room of a web process: answers that wait for new rows, without a thread each.

An answer that waits is an object. A few threads try it again when a load is announced into a log source that it may
read, when its time is up, and after the connection that hears of loads was lost. What cannot be heard, such as rows
that somebody stores without the service, is found when the time is up.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import Final, Protocol

import structlog
from django.conf import settings
from django.db import close_old_connections

from config import logs
from config.ending import at_end
from config.exchanges import Exchange, Headers, LaterAnswer
from endpoints.errors import Overloaded
from endpoints.log_database.listening import Listener
from endpoints.results.positions import NO_POSITION

THREADS: Final = 4  # each may run a query; most calls are not tails
# After an attempt in vain: loads of this time lead to one attempt, so a busy log source does not take everything.
PAUSE_SECONDS: Final = 0.5
RETRY_SECONDS: Final = 1.0

logger = structlog.get_logger(__name__)


class LateReply(Protocol):
    """What is answered in the end; its headers come before those that were given when the wait began."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def body(self) -> bytes: ...


class NotNow(Exception):
    """An attempt failed by something that may be over in a moment."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is waited for.

    `attempt` returns the answer, or None if there is nothing new; told that it is the last one, it returns an answer.
    It may raise NotNow before that, and nothing else. `names` has the log sources that count, among other names;
    `since` is the moment of the room before the first attempt.
    """

    attempt: Callable[[bool], LateReply | None]
    names: frozenset[str]
    since: int
    seconds: float


@dataclass(slots=True, eq=False)
class _Waiting:
    wish: Wish
    exchange: Exchange
    headers: Headers
    leave: Callable[[], object]
    deadline: float
    since: int
    due_at: float = field(default=inf)
    not_before: float = field(default=-inf)


class WaitingRoom:
    """Those who wait in one process; `has_left` tells whether a client has hung up."""

    def __init__(self, *, places: int, has_left: Callable[[Exchange], bool] = lambda exchange: False) -> None:
        self._places = places
        self._has_left = has_left
        self._changed = threading.Condition()
        self._taken = 0
        self._waiting: set[_Waiting] = set()
        self._moment = 0  # grows with each announcement
        self._heard: dict[str, int] = {}
        self._connected = 0
        self._listener: Listener | None = None
        self._threads: list[threading.Thread] = []
        self._is_ending = self._is_closing = False
        # Of answers that nobody gave. A finalizer may run inside any function, so it takes no lock.
        self._forgotten: deque[Callable[[], object]] = deque()
        self.position = NO_POSITION  # of the log: contains every load that was announced

    @property
    def moment(self) -> int:
        """A number to compare announcements with: read before a first attempt, it tells what came during it."""
        return self._moment

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def answer_when(self, wish: Wish, take: Callable[[], Callable[[], object]]) -> LaterAnswer:
        """Return the answer to a wish; it has a place until it is given, or nobody has it any more.

        `take` takes what else it needs until then, and returns what gives that back. Raises Overloaded if there is no
        place, and what `take` raises.
        """
        self._clear_up()
        with self._changed:
            if self._taken >= self._places:
                raise Overloaded(message="Too many tails are waiting for rows.")
            self._taken += 1
        try:
            leave = take()
        except BaseException:
            self.leave(lambda: None)
            raise
        answer = _AnswerOfRoom(self, wish, leave)
        answer.forgotten = weakref.finalize(answer, self._forgotten.append, leave)
        answer.forgotten.atexit = False
        return answer

    def heard(self, source: str, position: int) -> None:
        """Note that rows were loaded into a log source, and wake who waits for them."""
        with self._changed:
            self._moment += 1
            self._heard[source] = self._moment
            self.position = max(self.position, position)
            for each in self._waiting:
                if source in each.wish.names:
                    each.due_at = min(each.due_at, max(monotonic(), each.not_before))
            self._changed.notify_all()

    def connected(self, position: int) -> None:
        """Note that announcements are heard from now on; what came before may have been missed by everybody."""
        with self._changed:
            self._moment += 1
            self._connected = self._moment
            self.position = position  # lower than before, if a standby that had less was promoted
            for each in self._waiting:
                each.due_at = min(each.due_at, max(monotonic(), each.not_before))
            self._changed.notify_all()

    def end_waits(self) -> None:
        """Answer everybody who waits now, or will, as when their time is up."""
        with self._changed:
            self._is_ending = True
            for each in self._waiting:
                each.due_at = each.deadline = monotonic()
            self._changed.notify_all()

    def close(self) -> None:
        """End the threads; who waits gets no answer."""
        with self._changed:
            self._is_closing = True
            threads, listener = self._threads, self._listener
            self._changed.notify_all()
        for thread in threads:
            thread.join()
        if listener is not None:
            listener.stop()
        for waiting in self._waiting:
            waiting.leave()
        self._waiting.clear()
        self._clear_up()

    def enter(self, wish: Wish, exchange: Exchange, headers: Headers, leave: Callable[[], object]) -> None:
        """Let an exchange wait for its answer."""
        now = monotonic()
        seconds = 0.0 if self._is_ending else wish.seconds
        waiting = _Waiting(wish, exchange, headers, leave, deadline=now + seconds, since=wish.since)
        with self._changed:
            self._start()
            self._put(waiting)

    def _start(self) -> None:
        if self._listener is None:
            self._listener = Listener(self.heard, self.connected)
            self._listener.start()
        while len(self._threads) < THREADS:
            thread = threading.Thread(target=self._work, name="waiting-room", daemon=True)
            thread.start()
            self._threads.append(thread)

    def _put(self, waiting: _Waiting) -> None:
        news = max([self._connected, *(self._heard.get(name, 0) for name in waiting.wish.names)])
        waiting.due_at = max(monotonic(), waiting.not_before) if news > waiting.since else waiting.due_at
        waiting.due_at = min(waiting.due_at, waiting.deadline)
        self._waiting.add(waiting)
        self._changed.notify()

    def _work(self) -> None:
        while (waiting := self._take()) is not None:
            try:
                self._try(waiting)
            except Exception as error:  # the thread serves everybody
                logger.error("tail_not_answered", exc_info=error)
                waiting.leave()
            finally:
                close_old_connections()
                logs.begin()

    def _take(self) -> _Waiting | None:
        """Wait for the next that is due; None when the room closes."""
        with self._changed:
            while not self._is_closing:
                first = min(self._waiting, key=lambda each: each.due_at, default=None)
                if first is not None and first.due_at <= monotonic():
                    self._waiting.remove(first)
                    first.due_at, first.since = inf, self._moment
                    return first
                self._changed.wait(None if first is None else first.due_at - monotonic())
            return None

    def _try(self, waiting: _Waiting) -> None:
        if self._has_left(waiting.exchange):
            waiting.leave()
            return
        pause = PAUSE_SECONDS
        try:
            reply = waiting.wish.attempt(monotonic() >= waiting.deadline)
        except NotNow:
            reply, pause = None, RETRY_SECONDS
            waiting.due_at = monotonic() + RETRY_SECONDS
        if reply is None:
            with self._changed:
                waiting.not_before = monotonic() + pause
                self._put(waiting)
            return
        names = {name.lower() for name in (*reply.headers, "Content-Length")}
        headers = [header for header in waiting.headers if header[0].lower() not in names]
        headers += [*reply.headers.items(), ("Content-Length", str(len(reply.body)))]
        try:
            waiting.exchange.answer(reply.status, headers, reply.body)
        finally:
            waiting.leave()

    def leave(self, leave: Callable[[], object]) -> None:
        """Give a place back."""
        with self._changed:
            self._taken -= 1
        leave()

    def _clear_up(self) -> None:
        with suppress(IndexError):
            while True:
                self.leave(self._forgotten.popleft())


class _AnswerOfRoom(LaterAnswer):
    forgotten: weakref.finalize[..., _AnswerOfRoom]

    def __init__(self, room: WaitingRoom, wish: Wish, leave: Callable[[], object]) -> None:
        self._room = room
        self._wish = wish
        self._leave = leave

    def deliver(self, exchange: Exchange, status: int, headers: Headers) -> None:
        # The room has the answer's own method, so the answer lives as long as its place.
        self._room.enter(self._wish, exchange, headers, self._left)

    def _left(self) -> None:
        if self.forgotten.detach() is not None:
            self._room.leave(self._leave)

    def __iter__(self) -> Iterator[bytes]:
        exchange = _WaitedFor()
        self.deliver(exchange, 200, [])
        exchange.answered.wait()
        yield exchange.body


class _WaitedFor(Exchange):
    """For a web server whose thread waits; the status it has begun with stays."""

    __slots__ = ("answered", "body")

    def __init__(self) -> None:
        super().__init__(None)
        self.answered = threading.Event()
        self.body = b""

    def is_abandoned(self) -> bool:
        return False

    def answer(self, status: int, headers: Headers, body: bytes) -> None:
        self.body = body
        self.answered.set()


_room: WaitingRoom | None = None
_lock = threading.Lock()


def waiting_room() -> WaitingRoom:
    """Return this process's room, made on first use (after a web server has forked its workers)."""
    global _room
    with _lock:
        if _room is None:
            _room = WaitingRoom(places=settings.ENDPOINTS_WAITING_TAILS, has_left=Exchange.is_abandoned)
            at_end(_room.end_waits)
        return _room


def close_waiting_room() -> None:
    """Close this process's room; the next wait opens a new one."""
    global _room
    with _lock:
        room, _room = _room, None
    if room is not None:
        room.close()


def _forget_room() -> None:
    """A forked child has none of its parent's threads."""
    global _room, _lock
    _room, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_room)
