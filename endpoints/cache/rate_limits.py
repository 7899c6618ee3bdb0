"""How often a caller may call, and for how long it is refused: in Redis, so for all processes.

While Redis is away each process counts by itself, to the same limit.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from math import ceil
from time import monotonic
from typing import Final, cast

from endpoints.cache.connection import CacheUnavailable, Script, ask_for, ask_script
from endpoints.cache.keys import PREFIX

# The window begins with its first call and ends by itself, on the server's clock.
_COUNT: Final = Script("""
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return {count, redis.call('PTTL', KEYS[1])}
""")

KNOWN_SECONDS: Final = 0.1  # for so long a process takes a caller for not suspended without asking again
_CAPACITY: Final = 10_000  # callers that a process remembers

_lock = threading.Lock()
_windows: OrderedDict[str, tuple[float, float]] = OrderedDict()  # their ends, and the calls in them
_suspensions: OrderedDict[str, tuple[float, float]] = OrderedDict()  # their ends, and when Redis is asked again


def seconds_until_admitted(caller: str, *, calls: int, window_seconds: int) -> int:
    """Count a call; return 0 where it is within the limit, else in how many whole seconds the next one may come."""
    name = _rate_key(caller, window_seconds)
    try:
        counted, remaining_ms = cast("list[int]", ask_script(_COUNT, [name], [window_seconds * 1000]))
        count, remaining = float(counted), remaining_ms / 1000
    except CacheUnavailable:
        count, remaining = _count_here(name, window_seconds)
    return 0 if count <= calls else max(1, ceil(remaining))


def calls_in_window(caller: str, *, window_seconds: int) -> int:
    """Return the calls that were counted in the window which runs at the moment. Raises CacheUnavailable."""
    return int(ask_for("GET", _rate_key(caller, window_seconds)) or 0)


def suspend(caller: str, *, seconds: float) -> None:
    """Suspend a caller in all processes: here at once, elsewhere within KNOWN_SECONDS (not while Redis is away)."""
    ends_at = monotonic() + seconds
    with _lock:
        _remember(_suspensions, caller, (ends_at, ends_at))
    try:
        ask_for("SET", _suspension_key(caller), 1, "PX", max(1, round(seconds * 1000)))
    except CacheUnavailable:
        return  # this process keeps it by itself


def seconds_suspended(caller: str) -> float:
    """Return for how much longer a caller is suspended, 0 where it is not; asks Redis once in KNOWN_SECONDS."""
    now = monotonic()
    with _lock:
        ends_at, ask_again_at = _suspensions.get(caller, (0.0, 0.0))
    if now >= ask_again_at:
        ends_at = now + _seconds_noted(caller)
        with _lock:
            _remember(_suspensions, caller, (ends_at, max(ends_at, now + KNOWN_SECONDS)))
    return max(0.0, ends_at - now)


def _seconds_noted(caller: str) -> float:
    try:
        return max(0, int(ask_for("PTTL", _suspension_key(caller)))) / 1000  # negative where there is none
    except CacheUnavailable:
        return 0.0


def _count_here(name: str, window_seconds: int) -> tuple[float, float]:
    now = monotonic()
    with _lock:
        ends_at, count = _windows.get(name, (0.0, 0.0))
        if now >= ends_at:
            ends_at, count = now + window_seconds, 0.0
        _remember(_windows, name, (ends_at, count + 1))
    return count + 1, ends_at - now


def _remember(known: OrderedDict[str, tuple[float, float]], name: str, value: tuple[float, float]) -> None:
    known[name] = value
    known.move_to_end(name)
    if len(known) > _CAPACITY:
        known.popitem(last=False)


def _forget_lock() -> None:
    """A thread of the parent may have held it at the fork, and is not there to give it back."""
    global _lock
    _lock = threading.Lock()


def _rate_key(caller: str, window_seconds: int) -> str:
    return f"{PREFIX}:rate:{caller}:{window_seconds}"


def _suspension_key(caller: str) -> str:
    return f"{PREFIX}:suspended:{caller}"


os.register_at_fork(after_in_child=_forget_lock)
