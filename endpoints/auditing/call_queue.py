"""Calls of this process that wait to be written to the audit log: bounded, in memory, without I/O.

A call appends one tuple. If the queue is full because the database is away, the oldest calls are dropped and counted.
Refused calls are different: anybody can send them, so a minute has room for REFUSALS_A_MINUTE of them; more are only
counted, together with those of the same access token, endpoint and reason.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from endpoints.cache.usage import RecentCall
from endpoints.definition import Version

LIMIT: Final = 20_000  # calls; some 600 bytes each
REFUSALS_A_MINUTE: Final = 60  # rows of one process; the rest is counted
_REASONS_A_MINUTE: Final = 200  # kinds of refused calls that are counted apart; the rest together
# 404: an access token that tries out names; 405 and 413 do not need a valid one. 503: too many calls at once, or a
# database is away: then every call is one.
REFUSALS: Final = frozenset((400, 401, 403, 404, 405, 406, 408, 413, 415, 429, 431, 503))
VALUE_CHARACTERS: Final = 200
# Of what waits: an address that begins within the first 200 characters is whole, or redaction would not know it.
_WAITING_CHARACTERS: Final = 600

# How the call ended, its endpoint if it is known, request id, kind, arguments as sent, whether they are redacted.
# A plain tuple: making a dataclass takes five times as long, and every cached call makes one.
NotedCall = tuple[RecentCall, "Version | None", str, str, Mapping[str, Any], bool]

# Calls append to it themselves (calling.calls), after a look at its length: see `note`.
QUEUE: Final[deque[NotedCall]] = deque(maxlen=LIMIT)
_lock = threading.Lock()
_dropped = 0


@dataclass(frozen=True, slots=True)
class CountedRefusals:
    """Refused calls of one minute with the same reason, beyond those that have rows."""

    call: RecentCall  # the first of them
    endpoint: Version | None
    kind: str
    calls: int


class _Minute:
    """The refused calls of the current minute."""

    def __init__(self) -> None:
        self.number = 0
        self.rows = 0
        self.counted: dict[tuple[str, ...], CountedRefusals] = {}


_minute = _Minute()
_over: list[CountedRefusals] = []  # of minutes that are over


def note(noted: NotedCall) -> None:
    """Have a call written to the audit log. Never raises and does no I/O."""
    if len(QUEUE) == LIMIT:
        count_dropped(1)
    QUEUE.append(noted)


def note_refusal(noted: NotedCall) -> None:
    """Have a refused call written, or counted if this minute has many. Never raises and does no I/O."""
    call, endpoint, _, kind, _, _ = noted
    with _lock:
        number = int(call.at) // 60
        if number != _minute.number:
            _close_minute(number)
        if _minute.rows >= REFUSALS_A_MINUTE:
            _count(call, endpoint, kind)
            return
        _minute.rows += 1
    note(noted)


def _count(call: RecentCall, endpoint: Version | None, kind: str) -> None:
    name = "" if endpoint is None else endpoint.pk.hex
    key: tuple[str, ...] = (call.access_token_prefix, name, kind, call.error_code)
    if key not in _minute.counted and len(_minute.counted) >= _REASONS_A_MINUTE:
        key, endpoint, call = (call.error_code,), None, _nobodys(call)
    before = _minute.counted.get(key)
    first = before or CountedRefusals(call, endpoint, kind, 0)
    _minute.counted[key] = CountedRefusals(first.call, first.endpoint, first.kind, first.calls + 1)


def _nobodys(call: RecentCall) -> RecentCall:
    return RecentCall(call.at, "", "", call.status, call.error_code, 0, 0.0, "", 0)


def _close_minute(number: int) -> None:
    _over.extend(_minute.counted.values())
    _minute.number, _minute.rows, _minute.counted = number, 0, {}


def take_calls() -> list[NotedCall]:
    """Return what waits, the oldest first, and forget it."""
    taken: list[NotedCall] = []
    with suppress(IndexError):
        while len(taken) < LIMIT:  # others continue to append
            taken.append(QUEUE.popleft())
    return taken


def take_refusals(*, now: float, is_end: bool) -> list[CountedRefusals]:
    """Return the counted refusals of minutes that are over, at the end of the process of the last one too."""
    with _lock:
        if is_end or int(now) // 60 != _minute.number:
            _close_minute(int(now) // 60)
        taken, _over[:] = list(_over), []
    return taken


def has_refusals() -> bool:
    """Tell whether counted refusals wait for the end of their minute, or to be written."""
    return bool(_minute.counted or _over)


def count_dropped(calls: int) -> None:
    """Count calls that no audit log will have."""
    global _dropped
    with _lock:
        _dropped += calls


def take_dropped() -> int:
    """Return how many calls were dropped since the last time."""
    global _dropped
    with _lock:
        taken, _dropped = _dropped, 0
    return taken


def kept_arguments(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return arguments as short texts: what a body has sent may be a megabyte, and thousands of calls may wait."""
    return {name: as_text(value) for name, value in list(arguments.items())[:100]}


def as_text(value: object) -> str:
    """Return a value as a text that PostgreSQL can store, cut to a few hundred characters."""
    text = ", ".join(map(str, value[:50])) if isinstance(value, list | tuple) else "" if value is None else str(value)
    return text[:_WAITING_CHARACTERS].encode("utf-8", "replace").decode().replace("\0", "\ufffd")
