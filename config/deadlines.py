"""Bounds how long PostgreSQL may keep a connection waiting: the connection keeps the deadline, whatever hangs.

    with answer_within(0.5):
        connection.execute("SELECT 1")      # raises NoAnswer after 0.5 s, and the connection is closed

A server whose processes are stopped keeps its sockets open: no timeout of its own can fire, and TCP sees nothing wrong.
psycopg wakes its waits every 0.1 s (`interval` of `Connection.wait`) and passes a value that means "nothing is ready"
on to the generator it waits for; `watched` looks at the time there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg import Connection
from psycopg.rows import Row
from psycopg.waiting import Ready

Result = TypeVar("Result")
# psycopg sends into a generator: the ready sockets, 0 at each interval, None when it begins a wait.
LookUp = Callable[["int | None"], None]


class NoAnswer(psycopg.OperationalError):
    """The server said nothing in time. Its state is unknown and the connection is closed."""


@dataclass(slots=True)
class Deadline:
    """The time on the monotonic clock by which an answer must come, and whether the server has sent anything at all."""

    at: float
    server_answered: bool = False
    is_over: bool = False

    def look_up(self, ready: int | None) -> None:
        """Raise NoAnswer when the time is over; what has come in by then is read first.

        A busy machine may wake the thread that waits long after its answer came.
        """
        has_come_in = bool(ready and ready & Ready.R)
        self.server_answered |= has_come_in
        if monotonic() < self.at:
            return
        if self.is_over or not has_come_in:
            raise NoAnswer("the database did not answer in time")
        self.is_over = True


_deadline: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def answer_within(seconds: float) -> Iterator[Deadline]:
    """Give everything that bounded connections do inside, connecting included, this time from now on.

    Waits raise NoAnswer at the deadline, to a tenth of a second. An inner deadline can only be earlier.
    """
    outer = _deadline.get()
    own = monotonic() + seconds
    deadline = Deadline(at=own if outer is None else min(own, outer.at))
    token = _deadline.set(deadline)
    try:
        yield deadline
    finally:
        _deadline.reset(token)


class BoundedConnection(Connection[Row]):
    """A psycopg connection that keeps the deadline of `answer_within`; without a deadline it is an ordinary one."""

    def wait(self, gen: Generator[Any, Any, Result], *args: Any, **kwargs: Any) -> Result:
        """Consume a generator of psycopg. If the deadline passes, closes the connection and raises NoAnswer."""
        deadline = _deadline.get()
        if deadline is None:
            return super().wait(gen, *args, **kwargs)
        try:
            return super().wait(watched(gen, deadline.look_up), *args, **kwargs)
        except NoAnswer:
            self.close()
            raise

    @classmethod
    def _connect_gen(cls, *args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        # libpq's connect_timeout counts whole seconds, at least 2; a private method is the only way to a shorter one.
        connecting = super()._connect_gen(*args, **kwargs)
        deadline = _deadline.get()
        return connecting if deadline is None else watched(connecting, deadline.look_up)


def watched(gen: Generator[Any, Any, Result], look_up: LookUp) -> Generator[Any, Any, Result]:
    """Pass on everything that goes in and out of a psycopg generator; `look_up` sees each input, and may raise."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            look_up(ready)
            wanted = gen.send(ready)
    except StopIteration as end:
        result: Result = end.value
        return result
