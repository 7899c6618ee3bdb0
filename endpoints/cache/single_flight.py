"""One runner per key: over all threads by a flight, over all processes and machines by a lease in Redis.

The threads of a process that want the same result follow one leader (`flights`); the leaders compete for the key's
lease. The winner runs, stores and leaves a note; the others wait for the note and fetch the entry. If Redis fails,
at any moment, each process's leader runs by itself. Nobody waits without end: a run has until its lease is over, one
that took over from a runner that died as long again, and `waiting` bounds how many threads wait.

Who wants a result anew takes the lease from its holder, so that a run that began before can't store its older result,
and leaves its own or none: of two that overlap, nobody knows which one saw more rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from endpoints.cache.connection import CacheUnavailable, wait_until_expired
from endpoints.cache.entries import STORED, Entry, entity_tag, fetch, forget, store
from endpoints.cache.flights import Flight, FlightResult, Role, dismiss, join
from endpoints.cache.keys import ResultKey
from endpoints.cache.leases import Lease, acquire, announce_wait, contend, finish, take_over, wait_for_note
from endpoints.cache.policy import CachePolicy
from endpoints.cache.running_calls import LOOK_SECONDS, end_if_unwanted
from endpoints.errors import CallEnded, EndpointError, InternalError, LimitReached
from endpoints.results.compression import zstd_frame
from endpoints.results.outcomes import Outcome

_NOT_STORED = b"not stored"
_FAILED = b"failed "  # and the error
_LEFT = b"left"  # without having run: a waiter runs it
_SHORTEST_WAIT_SECONDS = 0.01  # to Redis 0 is for ever
# A result that twice could not be stored (removed at once, too large, its lease taken) is not worth queueing for.
_FUTILE_WAITS = 2


def run_once(key: ResultKey, *, produce: Callable[[], Outcome], policy: CachePolicy, party: str = "") -> FlightResult:
    """Return the result of one run: of this caller, or of another one that wants the same at the same time.

    Once a result that was wanted anew is returned, nobody gets an older one; if its run failed, what was stored stays.
    Raises what `produce` raises; to those who waited an equal EndpointError, InternalError for anything else. The
    LimitReached of a leader is raised to those of its `party` in this process; the others run it in their turn.
    Raises Overloaded if too many wait, or the run takes too long, and CallEnded if nobody wants this call's result.
    """
    while True:
        flight, leads = join(key, seconds=policy.lease_seconds, alone=policy.anew)
        if leads:
            result = flight.lead(_Leader(flight, key, produce, policy).run_or_wait, party=party)
        else:
            result = flight.follow(party)
        if result is not None:
            if policy.anew:
                dismiss(key)
                wait_until_expired()
            return result


def refresh(key: ResultKey, *, produce: Callable[[], Outcome], policy: CachePolicy) -> FlightResult | None:
    """Run now, however fresh the entry is; None if another one runs it already.

    Raises what `produce` raises, and CacheUnavailable before it has run.
    """
    flight, leads = join(key, seconds=policy.lease_seconds)
    return flight.lead(_Leader(flight, key, produce, policy).run_unless_taken) if leads else None


@dataclass(frozen=True, slots=True)
class _Leader:
    """The leader of a flight, among those of other processes."""

    flight: Flight
    key: ResultKey
    produce: Callable[[], Outcome]
    policy: CachePolicy

    def run_unless_taken(self) -> FlightResult | None:
        """Run under the lease; None if another process holds it. Raises CacheUnavailable before it has run."""
        lease = acquire(self.key.lease, seconds=self.policy.lease_seconds)
        return None if lease is None else self._run(lease)

    def run_or_wait(self) -> FlightResult:
        """Run under the lease or wait for its holder; run without one if Redis fails or waiting is useless."""
        try:
            got = self._contend()
        except CacheUnavailable:
            got = None
        if isinstance(got, FlightResult):
            return got
        self.flight.begin_again()
        if got is not None:
            return self._run_unless_fresh(got)
        outcome = self.produce()
        self._remove_older()
        return FlightResult(outcome=outcome, etag=entity_tag(outcome.body), role=Role.RAN, shared=False)

    def _contend(self) -> Lease | FlightResult | None:
        """Return the lease, or the result of its holder; None if waiting is useless.

        Raises what the other run raised, Overloaded if it takes too long, and CacheUnavailable.
        """
        lease_name, seconds = self.key.lease, self.policy.lease_seconds
        if self.policy.anew:
            return take_over(lease_name, seconds=seconds)
        taken = contend(lease_name, seconds=seconds, beside=self.key.entry)
        if isinstance(taken, Lease):
            return taken
        first, futile_waits = taken, 0
        with self.flight.waiting(leads=True) as remaining:
            while futile_waits < _FUTILE_WAITS:
                announce_wait(taken)
                note = wait_for_note(taken, seconds=max(_SHORTEST_WAIT_SECONDS, min(LOOK_SECONDS, remaining())))
                entry = fetch(self.key, self.policy) if note == STORED else None
                if entry is not None:
                    return _stored_result(entry, role=Role.WAITED)
                if note is not None and note != _LEFT:
                    _raise_noted_error(note)
                    futile_waits += 1
                if note is None:
                    end_if_unwanted()
                before, taken = taken, contend(lease_name, seconds=seconds, beside=self.key.entry)
                if isinstance(taken, Lease):
                    return taken
                futile_waits += note is None and before != taken
                if before == first != taken:  # once: a chain of runners that die is not waited for
                    self.flight.begin_again()
        return None

    def _run_unless_fresh(self, lease: Lease) -> FlightResult:
        """Look once more: between this caller's fetch and its lease another runner may have finished."""
        try:
            entry = fetch(self.key, self.policy) if lease.has_beside else None
        except CacheUnavailable:
            entry = None
        if entry is None or not entry.is_fresh:
            return self._run(lease)
        finish(lease, STORED)
        return _stored_result(entry, role=Role.FOUND)

    def _run(self, lease: Lease) -> FlightResult:
        """Produce, store, and tell the waiters; the lease is finished in any case."""
        self.flight.lease = lease
        try:
            outcome = self.produce()
            outcome = replace(outcome, zstd=zstd_frame(outcome.body))
        except BaseException as error:
            self.flight.lease = None  # ended here and not by a purge: newcomers may follow until the flight has ended
            finish(lease, _LEFT if self.policy.anew else _note_of(error))
            raise
        etag = entity_tag(outcome.body)
        is_shared = True
        try:
            is_stored = store(self.key, outcome, self.policy, lease=lease, etag=etag)
        except CacheUnavailable:
            is_stored = is_shared = False
        if is_stored:
            self.flight.lease = None  # a purge would have kept it from being stored
        else:
            finish(lease, _NOT_STORED)
            self._remove_older()
        return FlightResult(outcome=outcome, etag=etag, role=Role.RAN, shared=is_shared)

    def _remove_older(self) -> None:
        """Remove what is stored in place of a result that was made anew."""
        if self.policy.anew:
            with suppress(CacheUnavailable):
                forget(self.key)


def _stored_result(entry: Entry, *, role: Role) -> FlightResult:
    return FlightResult(outcome=entry.outcome, etag=entry.etag, role=role, shared=True, age_seconds=entry.age_seconds)


def _note_of(error: BaseException) -> bytes:
    if isinstance(error, (LimitReached, CallEnded)):
        return _LEFT
    if not isinstance(error, Exception):
        return _NOT_STORED  # the thread is being ended, which says nothing about the query
    noted = error if isinstance(error, EndpointError) else InternalError()
    # Details go into the body of an answer, which writes values without a JSON form as text too.
    return _FAILED + json.dumps(noted.as_fields(), default=str).encode("ascii")


def _raise_noted_error(note: bytes) -> None:
    if note.startswith(_FAILED):
        try:
            error = EndpointError.from_fields(json.loads(note.removeprefix(_FAILED)))
        except ValueError:
            return  # a note of another form says nothing: the result is run here
        raise error
