"""How many threads of a process may wait for what others compute, and for how long.

A process answers with a fixed number of threads. Without a bound, callers of one slow result would take all of them,
and nobody else got an answer. So ENDPOINTS_WAITING_CALLS of them may wait until the result is there, all but one of
those for the same one. Any more wait for a moment, in which most results are made, and are then sent away; while
that has happened to a result a few seconds ago, they are sent away at once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from math import inf
from time import monotonic
from typing import Final

from django.conf import settings

from endpoints.errors import Overloaded

GRACE_SECONDS: Final = 1.0  # since the work began, for callers beyond the limits
CROWDED_SECONDS: Final = 10.0  # after somebody was sent away: no grace for this result
_CROWDED_LIMIT: Final = 1000
_RETRY_AFTER_SECONDS: Final = 2


class WaitingRoom:
    """Who waits in this process, by the result they wait for; for all its threads."""

    def __init__(self, *, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting = 0
        self._followers: Counter[Hashable] = Counter()
        self._crowded_until: dict[Hashable, float] = {}

    @contextmanager
    def enter(self, key: Hashable, *, began_at: float, leads: bool = False) -> Iterator[float]:
        """Wait inside for work that began then, until the moment that is yielded; both by the clock, inf is for ever.

        `leads` says that others of this process wait for the caller in turn. Never waits itself.
        """
        has_place = self._take_place(key, leads=leads)
        try:
            yield inf if has_place else self._grace_ends_at(key, began_at)
        finally:
            if has_place:
                self._give_back(key, leads=leads)

    def turn_away(self, key: Hashable) -> Overloaded:
        """Return what to raise for a caller whose time is over, and remember that this result is slow."""
        with self._lock:
            if len(self._crowded_until) >= _CROWDED_LIMIT:
                self._crowded_until.clear()
            self._crowded_until[key] = self._clock() + CROWDED_SECONDS
        message = "This result is being computed, and as many calls as may wait for it do so."
        return Overloaded(_RETRY_AFTER_SECONDS, message=message)

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
