"""Threads of this process that want the same result share a flight: one leads it, the others follow.

A new caller follows the flight of its key, or leads a new one if it may follow none. The leader ends its flight with a
result, with an error, or without both: then one of its followers leads.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from time import monotonic
from typing import Final

from django.conf import settings

from endpoints.cache.connection import WAIT_SECONDS, CacheUnavailable
from endpoints.cache.keys import ResultKey
from endpoints.cache.leases import Lease, is_awaited, is_held
from endpoints.cache.running_calls import CURRENT_CALL, LOOK_SECONDS, end_if_unwanted
from endpoints.errors import CallEnded, EndpointError, InternalError, LimitReached, Overloaded
from endpoints.results.outcomes import Outcome

# --- Waiting ----------------------------------------------------------------------------------------------------------
# How many threads of a process may wait for what others compute, and for how long.
#
# A process answers with a fixed number of threads. Without a bound, callers of one slow result would take all of
# them, so nobody else got an answer. So ENDPOINTS_WAITING_CALLS of them may wait until the result is there, all but
# one of those for the same one. Any more wait for a moment, in which most results are made, and are then sent away;
# while that has happened to a result a few seconds ago, they are sent away at once.
GRACE_SECONDS: Final = 1.0  # since the work began, for callers beyond the limits
CROWDED_SECONDS: Final = 10.0  # after a caller was sent away: no grace for this result
_CROWDED_LIMIT: Final = 1000
_RETRY_AFTER_SECONDS: Final = 2


class WaitingRoom:
    """The waiting threads of this process, by the result they wait for."""

    def __init__(self, *, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting = 0
        self._followers: Counter[Hashable] = Counter()
        self._crowded_until: dict[Hashable, float] = {}

    @contextmanager
    def enter(self, key: Hashable, *, began_at: float, leads: bool = False) -> Iterator[float]:
        """Wait inside for work that began then, until the yielded moment; both by the clock; inf means for ever.

        `leads` says that others of this process wait for the caller in turn. Never waits itself.
        """
        has_place = self._take_place(key, leads=leads)
        try:
            yield inf if has_place else self._grace_ends_at(key, began_at)
        finally:
            if has_place:
                self._give_back(key, leads=leads)

    def turn_away(self, key: Hashable) -> Overloaded:
        """Return the error for a caller whose time is over, and remember that this result is slow."""
        with self._lock:
            if len(self._crowded_until) >= _CROWDED_LIMIT:
                self._crowded_until.clear()
            self._crowded_until[key] = self._clock() + CROWDED_SECONDS
        message = "This result is being computed, and the largest allowed number of calls already wait for it."
        return Overloaded(message, retry_after_seconds=_RETRY_AFTER_SECONDS)

    def _take_place(self, key: Hashable, *, leads: bool) -> bool:
        limit = settings.ENDPOINTS_WAITING_CALLS
        with self._lock:
            if self._waiting >= limit or (not leads and self._followers[key] >= max(1, limit - 1)):
                return False
            self._waiting += 1
            if not leads:
                self._followers[key] += 1
            return True

    def _give_back(self, key: Hashable, *, leads: bool) -> None:
        with self._lock:
            self._waiting -= 1
            if not leads:
                self._followers[key] -= 1
                if not self._followers[key]:
                    del self._followers[key]

    def _grace_ends_at(self, key: Hashable, began_at: float) -> float:
        with self._lock:
            crowded_until = self._crowded_until.get(key)
            if crowded_until is None:
                return began_at + GRACE_SECONDS
            if self._clock() < crowded_until:
                return began_at
            del self._crowded_until[key]
            return began_at + GRACE_SECONDS


# --- Flights ----------------------------------------------------------------------------------------------------------
# A leader checks once in WAIT_SECONDS, so it notices an expired lease before its followers give up.
_LOOK_SECONDS = 2 * WAIT_SECONDS


class Role(StrEnum):
    """How a caller got its result."""

    RAN = "ran"
    WAITED = "waited"  # for the run of another caller
    FOUND = "found"  # stored by another caller just before


@dataclass(frozen=True, slots=True)
class FlightResult:
    """A result; `shared` is False if Redis was not used, so other processes may have run it too."""

    outcome: Outcome
    etag: str
    role: Role
    shared: bool
    age_seconds: float = 0.0


class Flight:
    """One run of one key, and what its leader and followers know about it."""

    def __init__(self, key: ResultKey, seconds: float) -> None:
        self._key = key
        self._seconds = seconds + _LOOK_SECONDS
        self._began_at = monotonic()
        self._ends_by = self._began_at + self._seconds
        self._ended = threading.Event()
        self._result: FlightResult | None = None
        self._error: EndpointError | None = None
        self._party = ""  # of the leader; its followers of another one do not answer for its limits
        self._followers: set[int] = set()  # the threads that wait for it
        self.lease: Lease | None = None  # under which its query runs

    def begin_again(self) -> None:
        """Count its time from now on: the earlier runner has died, and another one has taken over."""
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

    def is_awaited(self) -> bool:
        """Tell whether somebody beside the leader waits for the result, in this process or in another one."""
        if self._followers:
            return True
        lease = self.lease
        try:
            return lease is not None and is_awaited(lease)
        except CacheUnavailable:  # then the other processes run it by themselves
            return False

    @contextmanager
    def waiting(self, *, leads: bool = False) -> Iterator[Callable[[], float]]:
        """Take a waiting place; yield a function that returns the seconds left and raises Overloaded at the end."""
        room = _waiting_room
        with room.enter(self._key, began_at=self._began_at, leads=leads) as leave_at:

            def remaining() -> float:
                seconds = min(leave_at, self._ends_by) - monotonic()
                if seconds <= 0:
                    raise room.turn_away(self._key)
                return seconds

            yield remaining

    def follow(self, party: str) -> FlightResult | None:
        """Return the leader's result, or raise its error; None if the leader gave up without either.

        Raises Overloaded if it takes too long for this caller, and CallEnded if nobody wants this call's result.
        """
        with self.waiting() as remaining:
            self._followers.add(threading.get_ident())
            try:
                while not self._ended.is_set():
                    if not self._ended.wait(min(LOOK_SECONDS, remaining())):
                        end_if_unwanted()
            finally:
                self._followers.discard(threading.get_ident())
        if isinstance(self._error, CallEnded) or (isinstance(self._error, LimitReached) and party != self._party):
            return None
        if self._error is not None:
            raise copy(self._error) from self._error
        return None if self._result is None else replace(self._result, role=Role.WAITED)

    def lead(self, work: Callable[[], FlightResult | None], *, party: str = "") -> FlightResult | None:
        """Do the work and end the flight with what it returns or raises.

        The work goes on for those who wait for it, even if nobody wants the result of the leader's own call.
        """
        self._party = party
        call = CURRENT_CALL.get()
        if call is not None:
            call.others_wait = self.is_awaited
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
            if call is not None:
                call.others_wait = None
            with _lock:
                if _flights.get(self._key) is self:  # otherwise another one has replaced it
                    del _flights[self._key]
            self._ended.set()


_lock = threading.Lock()
_flights: dict[ResultKey, Flight] = {}
_waiting_room = WaitingRoom()


def join(key: ResultKey, *, seconds: float, alone: bool = False) -> tuple[Flight, bool]:
    """Return the flight of this key and whether the caller leads it: a new one, which may take so many seconds.

    Nobody else joins the flight of a caller who is to be alone.
    """
    if alone:
        return Flight(key, seconds), True
    flight = _flights.get(key)
    overtaken = flight if flight is not None and flight.was_overtaken() else None
    with _lock:
        flight = _flights.get(key)
        if flight is None or flight is overtaken:
            flight = _flights[key] = Flight(key, seconds)
            return flight, True
        return flight, False


def dismiss(key: ResultKey) -> None:
    """Let no newcomer follow the flight of this key that is under way."""
    with _lock:
        _flights.pop(key, None)


def _forget_flights() -> None:
    """A forked child has none of its parent's threads, so nobody there would ever end these."""
    global _lock, _waiting_room
    _lock = threading.Lock()
    _waiting_room = WaitingRoom()
    _flights.clear()


os.register_at_fork(after_in_child=_forget_flights)
