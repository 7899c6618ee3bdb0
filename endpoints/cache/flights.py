"""What the threads of this process that want one result share: one of them leads a flight, the others follow it.

A newcomer follows the flight of its key, or leads one where there is none that it may follow. The leader ends its
flight with a result, with an error, or with neither: then one of its followers leads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from time import monotonic

from endpoints.cache import error_notes
from endpoints.cache.connection import WAIT_SECONDS, CacheUnavailable
from endpoints.cache.keys import ResultKey
from endpoints.cache.leases import Lease, is_held
from endpoints.cache.waiting import WaitingRoom
from endpoints.errors import EndpointError, InternalError, LimitReached
from endpoints.results.outcomes import Outcome

# A leader looks up once in WAIT_SECONDS, so it sees a lease that has run out before its followers give up.
_LOOK_SECONDS = 2 * WAIT_SECONDS


class Role(StrEnum):
    """How a caller came by its result."""

    RAN = "ran"
    WAITED = "waited"  # for somebody else's run
    FOUND = "found"  # stored by somebody who was just faster


@dataclass(frozen=True, slots=True)
class FlightResult:
    """A result; `shared` is False when Redis had no part in it, so other processes may have run it too."""

    outcome: Outcome
    etag: str
    role: Role
    shared: bool
    age_seconds: float = 0.0


class Flight:
    """One run of one key, and what its leader and its followers know of it."""

    def __init__(self, key: ResultKey, seconds: float) -> None:
        self._key = key
        self._seconds = seconds + _LOOK_SECONDS
        self._began_at = monotonic()
        self._ends_by = self._began_at + self._seconds
        self._ended = threading.Event()
        self._result: FlightResult | None = None
        self._error: EndpointError | None = None
        self._party = ""  # of the leader; its followers of another one do not answer for its limits
        self.lease: Lease | None = None  # under which its query runs

    def begin_again(self) -> None:
        """Count its time from now on: who was waited for has died, and another one has taken over."""
        self._ends_by = monotonic() + self._seconds

    def was_overtaken(self) -> bool:
        """Tell whether newcomers should not follow it: it is overdue, or its query began before a purge.

        The lease of such a query is gone.
        """
        if monotonic() >= self._ends_by:
            return True
        lease = self.lease
        if lease is None:
            return False
        try:
            return not is_held(lease)
        except CacheUnavailable:
            return False

    @contextmanager
    def waiting(self, *, leads: bool = False) -> Iterator[Callable[[], float]]:
        """Take a place to wait in, and yield what tells for how many more seconds; it raises Overloaded at the end."""
        room = _waiting_room
        with room.enter(self._key, began_at=self._began_at, leads=leads) as leave_at:

            def remaining() -> float:
                seconds = min(leave_at, self._ends_by) - monotonic()
                if seconds <= 0:
                    raise room.turn_away(self._key)
                return seconds

            yield remaining

    def follow(self, party: str) -> FlightResult | None:
        """Return the leader's result, or raise its error; None when the leader gave up without either.

        Raises Overloaded where it takes too long for this caller.
        """
        with self.waiting() as remaining:
            while not self._ended.is_set():
                self._ended.wait(remaining())
        if isinstance(self._error, LimitReached) and party != self._party:
            return None
        if self._error is not None:
            # A copy: an exception raised in several threads at once would collect all their tracebacks.
            raise error_notes.from_json(error_notes.to_json(self._error)) from self._error
        return None if self._result is None else replace(self._result, role=Role.WAITED)

    def lead(self, work: Callable[[], FlightResult | None], *, party: str = "") -> FlightResult | None:
        """Do the work and end the flight with what it returns or raises."""
        self._party = party
        try:
            self._result = work()
            return self._result
        except EndpointError as error:
            self._error = error
            raise
        except CacheUnavailable:
            raise  # a refresh that has not begun: a follower leads now
        except Exception:
            self._error = InternalError()
            raise
        finally:
            with _lock:
                if _flights.get(self._key) is self:  # else it was overtaken
                    del _flights[self._key]
            self._ended.set()


_lock = threading.Lock()
_flights: dict[ResultKey, Flight] = {}
_waiting_room = WaitingRoom()


def join(key: ResultKey, *, seconds: float) -> tuple[Flight, bool]:
    """Return the flight of this key and whether the caller leads it: a new one, which may take so many seconds."""
    flight = _flights.get(key)
    overtaken = flight if flight is not None and flight.was_overtaken() else None
    with _lock:
        flight = _flights.get(key)
        if flight is None or flight is overtaken:
            flight = _flights[key] = Flight(key, seconds)
            return flight, True
        return flight, False


def _forget_flights() -> None:
    """A forked child has none of its parent's threads, so nobody there would ever end these."""
    global _lock, _waiting_room
    _lock = threading.Lock()
    _waiting_room = WaitingRoom()
    _flights.clear()


os.register_at_fork(after_in_child=_forget_flights)
