"""Entries that this process has just fetched: not fetched again while they are trusted.

A result that is requested a thousand times a second then costs Redis ten questions a second and process. Only fresh
entries are kept, up to a number of bytes, the longest unused going first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from time import monotonic
from typing import Final

from endpoints.cache import connection
from endpoints.cache.entries import Entry, fetch
from endpoints.cache.keys import ResultKey
from endpoints.cache.policy import CachePolicy

CAPACITY_BYTES: Final = 16 * 1024 * 1024  # of result bodies, in each process


@dataclass(frozen=True, slots=True)
class RecentEntry:
    """An entry, and how long ago this process fetched it."""

    entry: Entry
    seconds_ago: float

    @property
    def age_seconds(self) -> float:
        return self.entry.age_seconds + self.seconds_ago

    @property
    def is_fresh(self) -> bool:
        return self.entry.policy.is_fresh(self.age_seconds)


class RecentEntries:
    """The entries of one process, for all its threads."""

    def __init__(self, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._capacity_bytes = capacity_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[ResultKey, tuple[Entry, float]] = OrderedDict()
        self._bytes = 0

    def fetch(self, key: ResultKey, policy: CachePolicy) -> RecentEntry | None:
        """Return the entry, from Redis at most TRUSTED_SECONDS ago; None if there is none that is usable.

        Raises CacheUnavailable.
        """
        asked_at = monotonic()
        kept = self._kept.get(key)
        if kept is not None and not policy.anew:
            recent = RecentEntry(kept[0], asked_at - kept[1])
            if recent.seconds_ago < connection.TRUSTED_SECONDS and recent.is_fresh:
                return recent
        entry = fetch(key, policy)
        self._keep(key, entry, asked_at)
        return None if entry is None else RecentEntry(entry, 0.0)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    def _keep(self, key: ResultKey, entry: Entry | None, asked_at: float) -> None:
        with self._lock:
            before = self._kept.pop(key, None)
            if before is not None:
                self._bytes -= _size(before[0])
            if entry is None or not entry.is_fresh or not connection.TRUSTED_SECONDS:
                return
            self._kept[key] = (entry, asked_at)
            self._bytes += _size(entry)
            while self._bytes > self._capacity_bytes:
                _, (oldest, _) = self._kept.popitem(last=False)
                self._bytes -= _size(oldest)


def _size(entry: Entry) -> int:
    return len(entry.outcome.body) + len(entry.outcome.zstd)


RECENT: Final = RecentEntries()
