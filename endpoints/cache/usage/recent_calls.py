"""An endpoint's calls: the last ones, those of 24 hours by minute, and how long those of the last hour took.

Each is a string of 32-bit counters in Redis, added to by BITFIELD: 23 kB for a day's minutes and 11 kB for an hour's
durations at most, one read each, and it expires by itself.
"""

from __future__ import annotations

import json
import struct
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from endpoints.cache import keys
from endpoints.cache.connection import CacheUnavailable, Part, ask_for, ask_for_all
from endpoints.cache.usage.flushing import FLUSHER, send

# --- Durations --------------------------------------------------------------------------------------------------------
# The durations of calls as counts in fixed buckets: enough for a median, and processes can add them.
BUCKETS: Final = 48
# From half a millisecond in steps of 30 % to 88 seconds; the last bucket counts what took longer.
UPPER_BOUNDS_MS: Final = tuple(0.5 * 1.3**step for step in range(BUCKETS - 1))


@dataclass(frozen=True, slots=True)
class Durations:
    """Calls by bucket; the bucket of a call is that of the first upper bound it does not exceed."""

    counts: tuple[int, ...] = (0,) * BUCKETS

    def quantile_ms(self, share: float) -> float | None:
        """Return the duration that this share of the calls (0 to 1) did not exceed, None if there are no calls.

        Off by no more than the bucket is wide, 30 %; what took longer than the last bound counts as that bound.
        """
        total = sum(self.counts)
        if not total:
            return None
        wanted = share * total
        below = 0
        for bucket, count in enumerate(self.counts[:-1]):
            if count and below + count >= wanted:
                start = UPPER_BOUNDS_MS[bucket - 1] if bucket else 0.0
                return start + (UPPER_BOUNDS_MS[bucket] - start) * (wanted - below) / count
            below += count
        return UPPER_BOUNDS_MS[-1]


def bucket_of(milliseconds: float) -> int:
    """Return the number of the bucket a duration counts in."""
    return bisect_left(UPPER_BOUNDS_MS, milliseconds)


def added(parts: Sequence[Sequence[int]]) -> Durations:
    """Return the sum of several counts by bucket."""
    return Durations(tuple(map(sum, zip(*parts, strict=True))) if parts else (0,) * BUCKETS)


# --- Activity ---------------------------------------------------------------------------------------------------------
MINUTES: Final = 24 * 60
_DAY_SECONDS: Final = 24 * 3600
_HOUR_SECONDS: Final = 3600
_KEPT_PERIODS: Final = 2  # this and the last one contain what is read
# The order of a minute's counters in the string.
_CALLS, _REFUSED, _FAILED, _CACHED = range(4)
_COUNTERS: Final = 4

# (name in Redis, its period in seconds) and the place of the counter in it
_Place = tuple[str, int, int]
# What counts of a call: endpoint, minute since 1970, status, use of the cache, bucket of its duration.
_Counted = tuple[str, int, int, str, int]


@dataclass(frozen=True, slots=True)
class Activity:
    """Counts by minute, MINUTES of them, the last one for the requested moment; durations of the last 60."""

    calls: tuple[int, ...]
    refused: tuple[int, ...]  # status 4xx: the caller must correct the call
    failed: tuple[int, ...]  # status 5xx
    cached: tuple[int, ...]  # answered by the cache, hit or stale
    durations: Durations  # of calls that were not refused

    @property
    def cached_share(self) -> float | None:
        """The share of answered calls that the cache answered, 0 to 1; None if there were none."""
        answered = sum(self.calls) - sum(self.refused) - sum(self.failed)
        return sum(self.cached) / answered if answered else None


def activity(endpoint_ids: Sequence[str], *, now: float) -> dict[str, Activity]:
    """Return the activity by endpoint id as given, in one round trip; `now` is unix seconds.

    Raises CacheUnavailable.
    """
    commands: list[list[Part]] = []
    for endpoint_id in map(keys.endpoint_hex, endpoint_ids):
        commands += [["GET", keys.minutes_name(endpoint_id, day)] for day in _last_two(now, _DAY_SECONDS)]
        commands += [["GET", keys.durations_name(endpoint_id, hour)] for hour in _last_two(now, _HOUR_SECONDS)]
    stored = ask_for_all(commands) if commands else []
    per_endpoint = len(commands) // max(1, len(endpoint_ids))
    return {
        endpoint_id: _read(stored[place * per_endpoint : (place + 1) * per_endpoint], now=now)
        for place, endpoint_id in enumerate(endpoint_ids)
    }


def _count_commands(calls: Iterable[tuple[str, RecentCall]]) -> list[list[Part]]:
    counted: Counter[_Counted] = Counter(
        (endpoint_id, int(call.at) // 60, call.status, call.cache, bucket_of(call.milliseconds))
        for endpoint_id, call in calls
    )
    additions: Counter[_Place] = Counter()
    for call, count in counted.items():
        additions.update(dict.fromkeys(_places(*call), count))
    by_name: dict[tuple[str, int], list[Part]] = {}
    for (name, period, place), count in additions.items():
        by_name.setdefault((name, period), []).extend(("INCRBY", "u32", f"#{place}", count))
    commands: list[list[Part]] = []
    for (name, period), parts in by_name.items():
        commands += [["BITFIELD", name, "OVERFLOW", "SAT", *parts], ["EXPIRE", name, _KEPT_PERIODS * period]]
    return commands


def _places(endpoint_id: str, minute: int, status: int, cache: str, bucket: int) -> list[_Place]:
    day, minute_of_day = divmod(minute, MINUTES)
    minutes, first = keys.minutes_name(endpoint_id, day), minute_of_day * _COUNTERS
    counted = [_CALLS]
    if status >= 400:
        counted.append(_FAILED if status >= 500 else _REFUSED)
    elif cache in ("hit", "stale"):
        counted.append(_CACHED)
    places = [(minutes, _DAY_SECONDS, first + counter) for counter in counted]
    if not 400 <= status < 500:
        hour, minute_of_hour = divmod(minute, 60)
        places.append((keys.durations_name(endpoint_id, hour), _HOUR_SECONDS, minute_of_hour * BUCKETS + bucket))
    return places


def _last_two(now: float, period: int) -> tuple[int, int]:
    this = int(now) // period
    return this - 1, this


def _read(stored: Sequence[bytes | None], *, now: float) -> Activity:
    yesterday, today, last_hour, this_hour = stored
    days = _numbers(yesterday, MINUTES * _COUNTERS) + _numbers(today, MINUTES * _COUNTERS)
    end = (MINUTES + int(now) % _DAY_SECONDS // 60 + 1) * _COUNTERS
    minutes = days[end - MINUTES * _COUNTERS : end]
    hours = _numbers(last_hour, 60 * BUCKETS) + _numbers(this_hour, 60 * BUCKETS)
    end = (60 + int(now) % _HOUR_SECONDS // 60 + 1) * BUCKETS
    durations = hours[end - 60 * BUCKETS : end]
    return Activity(
        calls=minutes[_CALLS::_COUNTERS],
        refused=minutes[_REFUSED::_COUNTERS],
        failed=minutes[_FAILED::_COUNTERS],
        cached=minutes[_CACHED::_COUNTERS],
        durations=added([durations[start : start + BUCKETS] for start in range(0, len(durations), BUCKETS)]),
    )


def _numbers(stored: bytes | None, length: int) -> tuple[int, ...]:
    """Return the counters of a string, which is only as long as the last one that was added to."""
    return struct.unpack(f">{length}I", (stored or b"").ljust(length * 4, b"\0"))


# --- Recent calls -----------------------------------------------------------------------------------------------------
# The last calls of each endpoint, refused and failed ones too: who, when, how it ended. No argument, no SQL.
#
# A call puts one entry into this process's memory; all of them are written to Redis once a second after the
# calls. While Redis does not answer, and beyond the limit of the memory, calls are lost: people look at this list,
# but nothing relies on it.
KEPT_CALLS: Final = 200  # per endpoint
KEPT_SECONDS: Final = 30 * 24 * 3600  # after the last call of an endpoint
_PENDING_LIMIT: Final = 20_000  # calls of all endpoints between two flushes


@dataclass(frozen=True, slots=True)
class RecentCall:
    """How a call ended; `at` is unix seconds, `error_code` is "" for success, `rows` and `cache` are for success.

    `reason` is what PostgreSQL said of a stored query that failed, without values.
    """

    at: float
    access_token: str
    access_token_prefix: str
    status: int
    error_code: str
    rows: int
    milliseconds: float
    cache: str
    version: int
    reason: str = ""


_pending: deque[tuple[str, RecentCall]] = deque(maxlen=_PENDING_LIMIT)


def note_outcome(endpoint_id: str, call: RecentCall) -> None:
    """Remember a call of the endpoint, `endpoint_id` being its 32 digits. Never raises and does no I/O."""
    _pending.append((endpoint_id, call))
    FLUSHER.note()


def flush() -> None:
    """Write what was noted; never raises. Calls leave that to FLUSHER."""
    noted: list[tuple[str, RecentCall]] = []
    with suppress(IndexError):
        while len(noted) < _PENDING_LIMIT:  # others continue to note calls
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
    commands = _count_commands(noted)
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
        call.reason,
    ]
    return json.dumps(fields, separators=(",", ":")).encode()


def _from_json(text: bytes) -> RecentCall | None:
    try:
        return RecentCall(*json.loads(text))
    except (ValueError, TypeError):  # of another form
        return None
