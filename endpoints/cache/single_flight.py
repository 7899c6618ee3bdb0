"""One runner per key: over all threads by an event, over all processes and machines by a lease in Redis.

The threads of a process that want the same result follow one leader; the leaders compete for the key's lease. The
winner runs, stores and leaves a note; the others wait for the note and fetch the entry. Where Redis fails, at any
moment, each process's leader runs by itself. Nobody waits without end: a run has until its lease is over, one that took
over from a runner that died as long again, and `waiting` bounds how many threads wait.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from time import monotonic

from endpoints.cache import error_notes
from endpoints.cache.connection import WAIT_SECONDS, CacheUnavailable
from endpoints.cache.entries import Entry, fetch, store
from endpoints.cache.entry_format import entity_tag
from endpoints.cache.keys import ResultKey
from endpoints.cache.leases import Lease, acquire, contend, finish, is_held, wait_for_note
from endpoints.cache.waiting import WaitingRoom
from endpoints.errors import EndpointError, InternalError, LimitReached
from endpoints.outcomes import Outcome

_STORED = b"stored"
_NOT_STORED = b"not stored"
_FAILED = b"failed "  # and the error
_LEFT = b"left"  # without having run: who waits runs it
_SHORTEST_WAIT_SECONDS = 0.01  # to Redis 0 is for ever
# A leader looks up once in WAIT_SECONDS, so it sees a lease that has run out before those who follow it give up.
_LOOK_SECONDS = 2 * WAIT_SECONDS
# A result that twice could not be stored (removed at once, too large) is not worth queueing for.
_FUTILE_WAITS = 2


class Role(StrEnum):
    """How a caller came by its result."""

    RAN = "ran"
    WAITED = "waited"  # for somebody else's run
    FOUND = "found"  # stored by somebody who was just faster


@dataclass(frozen=True, slots=True)
class Landing:
    """A result; `shared` is False when Redis had no part in it, so other processes may have run it too."""

    outcome: Outcome
    etag: str
    role: Role
    shared: bool
    age_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Plan:
    key: ResultKey
    produce: Callable[[], Outcome]
    fresh_seconds: float
    stale_seconds: float
    lease_seconds: float

    def fetch(self) -> Entry | None:
        return fetch(self.key, fresh_seconds=self.fresh_seconds, stale_seconds=self.stale_seconds)


class _Flight:
    """What the threads of this process that want one key have in common."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds + _LOOK_SECONDS
        self.began_at = monotonic()
        self.ends_by = self.began_at + self._seconds
        self.landed = threading.Event()
        self.landing: Landing | None = None
        self.error: EndpointError | None = None
        self.lease: Lease | None = None  # under which its query runs
        self.party = ""  # of the leader; others do not answer for its limits

    def begin_again(self) -> None:
        """Count its time from now on: who was waited for has died, and another one has taken over."""
        self.ends_by = monotonic() + self._seconds

    def was_overtaken(self) -> bool:
        """Tell whether newcomers should not wait for it: it is overdue, or its query began before a purge.

        The lease of such a query is gone.
        """
        if monotonic() >= self.ends_by:
            return True
        lease = self.lease
        if lease is None:
            return False
        try:
            return not is_held(lease)
        except CacheUnavailable:
            return False

    def wait(self, key: ResultKey, party: str) -> Landing | None:
        """Return the leader's landing, or raise its error; None when the leader gave up without either.

        Raises Overloaded where it takes too long for this caller.
        """
        with _waiting_room.enter(key, began_at=self.began_at) as leave_at:
            while not self.landed.wait(max(0.0, min(leave_at, self.ends_by) - monotonic())):
                if monotonic() >= min(leave_at, self.ends_by):
                    raise _waiting_room.turn_away(key)
        if isinstance(self.error, LimitReached) and party != self.party:
            return None
        if self.error is not None:
            # A copy: an exception raised in several threads at once would collect all their tracebacks.
            raise error_notes.from_json(error_notes.to_json(self.error)) from self.error
        return self.landing


_lock = threading.Lock()
_flights: dict[ResultKey, _Flight] = {}
_waiting_room = WaitingRoom()


def fly(
    key: ResultKey,
    *,
    produce: Callable[[], Outcome],
    fresh_seconds: float,
    stale_seconds: float,
    lease_seconds: float,
    party: str = "",
) -> Landing:
    """Return the result of one run, this caller's or that of somebody who wants the same at the same time.

    `lease_seconds` must outlast `produce`, or two run at once; so long do the others wait for a runner that died.
    Raises what `produce` raises; to those who waited an equal EndpointError, InternalError for anything else. The
    LimitReached of a leader is raised to those of its `party` in this process; the others run it in their turn.
    Raises Overloaded where too many wait, or the run takes too long.
    """
    plan = _Plan(key, produce, fresh_seconds, stale_seconds, lease_seconds)
    while True:
        flight = _board(key, lease_seconds)
        if flight is None:
            landing = _lead(key, lambda flight: _compete(plan, flight), party=party)
        else:
            waited = flight.wait(key, party)
            landing = None if waited is None else replace(waited, role=Role.WAITED)
        if landing is not None:
            return landing


def refresh(
    key: ResultKey,
    *,
    produce: Callable[[], Outcome],
    fresh_seconds: float,
    stale_seconds: float,
    lease_seconds: float,
) -> Landing | None:
    """Run now, however fresh the entry is; None when somebody is running it already.

    Raises what `produce` raises, and CacheUnavailable before it has run.
    """
    plan = _Plan(key, produce, fresh_seconds, stale_seconds, lease_seconds)

    def run_unless_taken(flight: _Flight) -> Landing | None:
        lease = acquire(key.lease, seconds=lease_seconds)
        return None if lease is None else _run(plan, lease, flight)

    return _lead(key, run_unless_taken) if _board(key, lease_seconds) is None else None


def _board(key: ResultKey, seconds: float) -> _Flight | None:
    """Return the flight to wait for; None when there was none and this thread leads a new one."""
    flight = _flights.get(key)
    overtaken = flight if flight is not None and flight.was_overtaken() else None
    with _lock:
        flight = _flights.get(key)
        if flight is None or flight is overtaken:
            _flights[key] = _Flight(seconds)
            return None
        return flight


def _lead(key: ResultKey, work: Callable[[_Flight], Landing | None], *, party: str = "") -> Landing | None:
    """Do the work and land the flight with it, whatever happens."""
    flight = _flights[key]
    flight.party = party
    try:
        flight.landing = work(flight)
        return flight.landing
    except EndpointError as error:
        flight.error = error
        raise
    except CacheUnavailable:
        raise  # a refresh that has not begun: who waits leads now
    except Exception:
        flight.error = InternalError()
        raise
    finally:
        with _lock:
            if _flights.get(key) is flight:  # else it was overtaken
                del _flights[key]
        flight.landed.set()


def _compete(plan: _Plan, flight: _Flight) -> Landing:
    try:
        got = _contend(plan, flight)
    except CacheUnavailable:
        got = None
    if isinstance(got, Landing):
        return got
    flight.begin_again()
    if got is not None:
        return _run_unless_fresh(plan, got, flight)
    outcome = plan.produce()
    return Landing(outcome=outcome, etag=entity_tag(outcome.body), role=Role.RAN, shared=False)


def _contend(plan: _Plan, flight: _Flight) -> Lease | Landing | None:
    """Return the lease, or the result of who had it; None where waiting is futile.

    Raises what the other run raised, Overloaded where it takes too long, and CacheUnavailable.
    """
    taken = contend(plan.key.lease, seconds=plan.lease_seconds)
    if isinstance(taken, Lease):
        return taken
    first, futile_waits = taken, 0
    with _waiting_room.enter(plan.key, began_at=flight.began_at, leads=True) as leave_at:
        while futile_waits < _FUTILE_WAITS:
            remaining = min(leave_at, flight.ends_by) - monotonic()
            if remaining <= 0:
                raise _waiting_room.turn_away(plan.key)
            note = wait_for_note(taken, seconds=max(_SHORTEST_WAIT_SECONDS, min(WAIT_SECONDS, remaining)))
            entry = plan.fetch() if note == _STORED else None
            if entry is not None:
                return _landing(entry, role=Role.WAITED)
            if note is not None and note != _LEFT:
                _raise_noted_error(note)
                futile_waits += 1
            before, taken = taken, contend(plan.key.lease, seconds=plan.lease_seconds)
            if isinstance(taken, Lease):
                return taken
            if before == first != taken:  # once: a chain of runners that die is not waited for
                flight.begin_again()
    return None


def _run_unless_fresh(plan: _Plan, lease: Lease, flight: _Flight) -> Landing:
    """Look once more: between this caller's fetch and its lease another runner may have finished."""
    try:
        entry = plan.fetch()
    except CacheUnavailable:
        entry = None
    if entry is None or not entry.is_fresh:
        return _run(plan, lease, flight)
    finish(lease, _STORED)
    return _landing(entry, role=Role.FOUND)


def _run(plan: _Plan, lease: Lease, flight: _Flight) -> Landing:
    """Produce, store, and tell those who wait; the lease is finished whatever happens."""
    flight.lease = lease
    try:
        outcome = plan.produce()
    except LimitReached:
        flight.lease = None
        finish(lease, _LEFT)
        raise
    except EndpointError as error:
        flight.lease = None
        finish(lease, _FAILED + error_notes.to_json(error))
        raise
    except Exception:
        flight.lease = None
        finish(lease, _FAILED + error_notes.to_json(InternalError()))
        raise
    except BaseException:  # the thread is being ended, which says nothing about the query
        finish(lease, _NOT_STORED)
        raise
    etag = entity_tag(outcome.body)
    is_shared = True
    try:
        is_stored = store(
            plan.key,
            outcome,
            fresh_seconds=plan.fresh_seconds,
            stale_seconds=plan.stale_seconds,
            lease=lease,
            etag=etag,
        )
    except CacheUnavailable:
        is_stored = is_shared = False
    if is_stored:
        flight.lease = None  # ended here and not by a purge, which would have kept it from being stored
    finish(lease, _STORED if is_stored else _NOT_STORED)
    return Landing(outcome=outcome, etag=etag, role=Role.RAN, shared=is_shared)


def _landing(entry: Entry, *, role: Role) -> Landing:
    return Landing(outcome=entry.outcome, etag=entry.etag, role=role, shared=True, age_seconds=entry.age_seconds)


def _raise_noted_error(note: bytes) -> None:
    if note.startswith(_FAILED):
        raise error_notes.from_json(note.removeprefix(_FAILED))


def _forget_flights() -> None:
    """A forked child has none of its parent's threads, so nobody there would ever land these."""
    global _lock, _waiting_room
    _lock = threading.Lock()
    _waiting_room = WaitingRoom()
    _flights.clear()


os.register_at_fork(after_in_child=_forget_flights)
