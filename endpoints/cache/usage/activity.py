"""An endpoint's calls of the last 24 hours by minute, and how long those of the last hour took.

Each is a string of 32-bit counters in Redis, added to by BITFIELD: 23 kB for a day's minutes and 11 kB for an hour's
durations at most, one read each, and it goes by itself.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from endpoints.cache import keys
from endpoints.cache.connection import Part, ask_for_all
from endpoints.cache.usage.durations import BUCKETS, Durations, added, bucket_of

MINUTES: Final = 24 * 60
_DAY_SECONDS: Final = 24 * 3600
_HOUR_SECONDS: Final = 3600
_KEPT_PERIODS: Final = 2  # this and the last one hold what is read
# The order of a minute's counters in the string.
_CALLS, _REFUSED, _FAILED, _CACHED = range(4)
_COUNTERS: Final = 4

# (name in Redis, its period in seconds) and the place of the counter in it
_Place = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class CountedCall:
    """What counts of a call; `at` is unix seconds."""

    endpoint_id: str
    at: float
    status: int
    milliseconds: float
    cache: str


@dataclass(frozen=True, slots=True)
class Activity:
    """Counts by minute, MINUTES of them, the last one that of the moment asked for; durations of the last 60."""

    calls: tuple[int, ...]
    refused: tuple[int, ...]  # status 4xx: the caller's to mend
    failed: tuple[int, ...]  # status 5xx
    cached: tuple[int, ...]  # answered by the cache, hit or stale
    durations: Durations  # of calls that were not refused

    @property
    def cached_share(self) -> float | None:
        """The share of answered calls that the cache answered, 0 to 1; None where there were none."""
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


def count_commands(calls: Iterable[CountedCall]) -> list[list[Part]]:
    """Return the commands that add these calls."""
    additions: Counter[_Place] = Counter(place for call in calls for place in _places(call))
    by_name: dict[tuple[str, int], list[Part]] = {}
    for (name, period, place), count in additions.items():
        by_name.setdefault((name, period), []).extend(("INCRBY", "u32", f"#{place}", count))
    commands: list[list[Part]] = []
    for (name, period), parts in by_name.items():
        commands += [["BITFIELD", name, "OVERFLOW", "SAT", *parts], ["EXPIRE", name, _KEPT_PERIODS * period]]
    return commands


def _places(call: CountedCall) -> list[_Place]:
    day, second = divmod(int(call.at), _DAY_SECONDS)
    minutes, first = keys.minutes_name(call.endpoint_id, day), second // 60 * _COUNTERS
    counted = [_CALLS]
    if call.status >= 400:
        counted.append(_FAILED if call.status >= 500 else _REFUSED)
    elif call.cache in ("hit", "stale"):
        counted.append(_CACHED)
    places = [(minutes, _DAY_SECONDS, first + counter) for counter in counted]
    if not 400 <= call.status < 500:
        hour, second = divmod(int(call.at), _HOUR_SECONDS)
        place = second // 60 * BUCKETS + bucket_of(call.milliseconds)
        places.append((keys.durations_name(call.endpoint_id, hour), _HOUR_SECONDS, place))
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
