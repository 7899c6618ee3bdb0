"""The last calls of each endpoint, refused and failed ones too: who, when, how it ended. No argument, no SQL.

A call puts one entry into this process's memory; what came together is written to Redis once a second behind the calls.
What was noted while Redis is away, or beyond what the memory holds, is lost: it is for people to look at, not to count
on.
"""

from __future__ import annotations

import json
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from endpoints.cache import keys
from endpoints.cache.connection import CacheUnavailable, Part, ask_for
from endpoints.cache.usage.activity import CountedCall, count_commands
from endpoints.cache.usage.flushing import FLUSHER, send

KEPT_CALLS: Final = 200  # per endpoint
KEPT_SECONDS: Final = 30 * 24 * 3600  # after the last call of an endpoint
_PENDING_LIMIT: Final = 20_000  # calls of all endpoints between two flushes


@dataclass(frozen=True, slots=True)
class RecentCall:
    """How a call ended; `at` is unix seconds, `error_code` is "" for success, `rows` and `cache` are for success."""

    at: float
    access_token: str
    access_token_prefix: str
    status: int
    error_code: str
    rows: int
    milliseconds: float
    cache: str
    version: int


_pending: deque[tuple[str, RecentCall]] = deque(maxlen=_PENDING_LIMIT)


def note_outcome(endpoint_id: str, call: RecentCall) -> None:
    """Remember a call of the endpoint, `endpoint_id` being its 32 digits. Never raises and asks nobody."""
    _pending.append((endpoint_id, call))
    FLUSHER.note()


def flush() -> None:
    """Write what was noted; never raises. Calls leave that to FLUSHER."""
    noted: list[tuple[str, RecentCall]] = []
    with suppress(IndexError):
        while len(noted) < _PENDING_LIMIT:  # others go on noting
            noted.append(_pending.popleft())
    if noted:
        with suppress(CacheUnavailable):
            send(_commands(noted))


FLUSHER.writes(flush)


def last_calls(endpoint_id: str, *, limit: int = KEPT_CALLS) -> list[RecentCall]:
    """Return the endpoint's last calls, the newest first. Raises CacheUnavailable."""
    stored = ask_for("LRANGE", keys.calls_name(keys.endpoint_hex(endpoint_id)), 0, limit - 1) if limit else []
    calls = [call for call in map(_from_json, stored) if call is not None]
    # Each process writes what it has noted when its second is over, so they are in order to a second only.
    return sorted(calls, key=lambda call: call.at, reverse=True)


def _commands(noted: list[tuple[str, RecentCall]]) -> list[list[Part]]:
    by_endpoint: dict[str, list[RecentCall]] = {}
    for endpoint_id, call in noted:
        by_endpoint.setdefault(endpoint_id, []).append(call)
    commands = count_commands(
        CountedCall(endpoint_id, call.at, call.status, call.milliseconds, call.cache) for endpoint_id, call in noted
    )
    for endpoint_id, calls in by_endpoint.items():
        name = keys.calls_name(endpoint_id)
        commands += [
            ["LPUSH", name, *map(_to_json, calls[-KEPT_CALLS:])],
            ["LTRIM", name, 0, KEPT_CALLS - 1],
            ["EXPIRE", name, KEPT_SECONDS],
        ]
    return commands


def _to_json(call: RecentCall) -> bytes:
    fields = [
        round(call.at, 3),
        call.access_token,
        call.access_token_prefix,
        call.status,
        call.error_code,
        call.rows,
        round(call.milliseconds, 3),
        call.cache,
        call.version,
    ]
    return json.dumps(fields, separators=(",", ":")).encode()


def _from_json(text: bytes) -> RecentCall | None:
    try:
        return RecentCall(*json.loads(text))
    except (ValueError, TypeError):  # written by another release
        return None
