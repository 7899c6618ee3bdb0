"""Loads of rows by log source: how they ended, how many rows and bytes came in, how long they took; for /metrics.

Counted in the process and added to one hash in Redis a second later, because every web process answers /metrics for
all. While Redis does not answer, the counts wait.

    lqe:loads     <source>|requests:2xx, <source>|rows, <source>|bytes, <source>|microseconds, <source>|le:0.25
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final

from endpoints.cache.connection import CacheUnavailable, ask_for
from endpoints.cache.usage.asked import counter_commands
from endpoints.cache.usage.flushing import FLUSHER, send

LOADS: Final = "lqe:loads"
# Prometheus adds these up itself: a quantile of all processes and any period.
UPPER_BOUNDS_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, inf)
_BETWEEN: Final = "|"  # no log source has it in its name


@dataclass(slots=True)
class LoadCounts:
    """The loads of one log source since counting began; `durations` counts them by upper bound, not added up."""

    requests: dict[str, int] = field(default_factory=dict)  # by the class of their status, such as 2xx
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    durations: dict[float, int] = field(default_factory=dict)


_lock = threading.Lock()
_noted: Counter[str] = Counter()


def note_load(source: str, *, status: int, rows: int, sent_bytes: int, seconds: float) -> None:
    """Count a load; without a source if it was refused before that was known. Never raises and does no I/O."""
    bound = UPPER_BOUNDS_SECONDS[bisect_left(UPPER_BOUNDS_SECONDS, seconds)]
    counts = {
        f"requests:{status // 100}xx": 1,
        "rows": rows,
        "bytes": sent_bytes,
        "microseconds": round(seconds * 1_000_000),
        f"le:{bound}": 1,
    }
    with _lock:
        for name, count in counts.items():
            _noted[f"{source}{_BETWEEN}{name}"] += count
    FLUSHER.note()


def flush() -> None:
    """Write what was noted; never raises. Loads leave that to FLUSHER."""
    with _lock:
        counts = dict(_noted)
        _noted.clear()
    if not counts:
        return
    try:
        send(counter_commands(LOADS, counts))
    except CacheUnavailable:
        with _lock:
            _noted.update(counts)


FLUSHER.writes(flush)


def load_counts() -> dict[str, LoadCounts]:
    """Return the counts of all processes by log source. Raises CacheUnavailable."""
    stored: Mapping[bytes, bytes] = ask_for("HGETALL", LOADS)
    found: dict[str, LoadCounts] = {}
    for key, value in sorted(stored.items()):
        source, _, name = key.decode().partition(_BETWEEN)
        _add(found.setdefault(source, LoadCounts()), name, int(value))
    return found


def _add(counts: LoadCounts, name: str, count: int) -> None:
    kind, _, detail = name.partition(":")
    if kind == "requests":
        counts.requests[detail] = count
    elif kind == "rows":
        counts.rows = count
    elif kind == "bytes":
        counts.bytes = count
    elif kind == "microseconds":
        counts.seconds = count / 1_000_000
    elif kind == "le":
        counts.durations[float(detail)] = count
