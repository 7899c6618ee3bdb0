"""Leases: one holder over all processes and machines, and how the others learn that it has finished.

A lease is a name in Redis that holds its owner's random word until it expires. Its holder finishes it with a note,
which it puts into the owner's latch, a list of one element: every waiter takes it out and puts it back, and wakes the
next. Nobody polls; a waiter checks once a second whether the holder and Redis still exist.
"""

from __future__ import annotations

import random
import secrets
from collections import deque
from dataclasses import dataclass, replace
from types import TracebackType
from typing import cast

from endpoints.cache.connection import (
    WAIT_SECONDS,
    CacheUnavailable,
    RedisLeftAlone,
    Script,
    ask_and_wait,
    ask_for,
    ask_script,
)
from endpoints.cache.keys import PREFIX

# A waiter says again and again that it waits; for so long each time.
AWAITED_MS = 1000
# A waiter that was away for a moment still finds the note.
LATCH_MS = 60_000
_UNFINISHED_LIMIT = 1000

# One step: the holder, itself or another one, and whether there is a value beside it.
_CONTEND = Script("""
redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
return {redis.call('GET', KEYS[1]), redis.call('EXISTS', KEYS[2])}
""")

# DEL first: after a script's first write even a full Redis lets the note in.
_FINISH = Script("""
local lease, latch = KEYS[1], KEYS[2]
local owner, note, latch_ms = ARGV[1], ARGV[2], ARGV[3]
if redis.call('GET', lease) ~= owner then return 0 end
redis.call('DEL', lease)
if note ~= '' then
    redis.call('RPUSH', latch, note)
    redis.call('PEXPIRE', latch, latch_ms)
end
return 1
""")


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to run the work called `name`, until it is finished or expires.

    `has_beside` tells whether the value that it was taken beside was there.
    """

    name: str
    owner: str
    has_beside: bool = False


# Ended leases that Redis does not know about yet; otherwise others would wait until each of them expires.
_unfinished: deque[tuple[Lease, bytes]] = deque(maxlen=_UNFINISHED_LIMIT)


def acquire(name: str, *, seconds: float) -> Lease | None:
    """Return the lease without waiting, None while another one holds it. Raises CacheUnavailable."""
    taken = contend(name, seconds=seconds)
    return taken if isinstance(taken, Lease) else None


def contend(name: str, *, seconds: float, beside: str = "") -> Lease | str:
    """Return the lease, or its holder (for `wait_for_note`). Raises CacheUnavailable."""
    _finish_late()
    lease = Lease(name=name, owner=secrets.token_hex(16))
    try:
        holder, is_there = ask_script(_CONTEND, [name, beside], [lease.owner, max(1, round(seconds * 1000))])
    except RedisLeftAlone:
        raise
    except CacheUnavailable:
        # Perhaps taken: only the answer is missing.
        _unfinished.append((lease, b""))
        raise
    taken = bytes(holder).decode()
    return replace(lease, has_beside=bool(is_there)) if taken == lease.owner else taken


def take_over(name: str, *, seconds: float) -> Lease:
    """Return the lease, which whoever held it has lost. Raises CacheUnavailable."""
    while True:
        ask_for("UNLINK", name)
        lease = acquire(name, seconds=seconds)
        if lease is not None:
            return lease


def finish(lease: Lease, note: bytes = b"") -> bool:
    """End the lease and give everyone who waits for it the note; False if it was no longer held.

    Never raises: if Redis cannot be told now, it is told before the next lease is taken.
    """
    try:
        return _end(lease, note)
    except CacheUnavailable:
        _unfinished.append((lease, note))
        return False


def is_held(lease: Lease) -> bool:
    """Return whether the lease is still held by its owner. Raises CacheUnavailable."""
    return bool(ask_for("GET", lease.name) == lease.owner.encode())


def is_awaited(lease: Lease) -> bool:
    """Tell whether somebody waits for the note of this lease. Raises CacheUnavailable."""
    return bool(ask_for("EXISTS", _awaited(lease.owner)))


def announce_wait(owner: str) -> None:
    """Make this owner's lease one that is awaited, for AWAITED_MS from now. Raises CacheUnavailable."""
    ask_for("SET", _awaited(owner), 1, "PX", AWAITED_MS)


def wait_for_note(owner: str, *, seconds: float = WAIT_SECONDS) -> bytes | None:
    """Return the note this owner finished with, None if it has not within `seconds`, at most WAIT_SECONDS.

    Raises CacheUnavailable.
    """
    name = latch(owner)
    return cast("bytes | None", ask_and_wait("BLMOVE", name, name, "LEFT", "RIGHT", seconds))


class Slot:
    """One of a limited number of places to work in; left at the end of a `with` block."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        finish(self._lease)


def slot(limit: int, *, seconds: float) -> Slot | None:
    """Return a place, None while `limit` others are taken; given up by itself after `seconds`.

    Raises CacheUnavailable.
    """
    places = list(range(limit))
    random.shuffle(places)  # two that try at the same moment should not meet at each place
    for place in places:
        lease = acquire(f"{PREFIX}:warm-slot:{place}", seconds=seconds)
        if lease is not None:
            return Slot(lease)
    return None


def _end(lease: Lease, note: bytes) -> bool:
    return bool(ask_script(_FINISH, [lease.name, latch(lease.owner)], [lease.owner, note, LATCH_MS]))


def _finish_late() -> None:
    """Tell Redis about the ended leases it does not know. Raises CacheUnavailable if that fails again."""
    while _unfinished:
        try:
            lease, note = _unfinished.popleft()
        except IndexError:  # another thread was faster
            return
        try:
            _end(lease, note)
        except CacheUnavailable:
            _unfinished.appendleft((lease, note))
            raise


def _awaited(owner: str) -> str:
    return f"{PREFIX}:awaited:{owner}"


def latch(owner: str) -> str:
    """Return the name of the list that has the owner's note."""
    return f"{PREFIX}:latch:{owner}"
