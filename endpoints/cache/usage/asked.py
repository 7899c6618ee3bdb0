"""What callers ask for: counters per endpoint, and per version which results, so that warming knows its work.

Counted in the process and written once a second behind the calls, so a hit pays for a dictionary, not for a round trip.
What was counted for warming while Redis is away is lost; the counters wait for it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from time import monotonic

from redis import Redis

from endpoints.cache import keys
from endpoints.cache.connection import CacheUnavailable, Part, ask, ask_for, clock
from endpoints.cache.keys import Recipe, ResultKey
from endpoints.cache.usage.counters import COUNTER_OF_KIND, counter_commands
from endpoints.cache.usage.flushing import FLUSHER, send

_RESULTS_LIMIT = 1000  # different results noted between two flushes; the rest is only counted
# What is larger is not noted: a thousand requests of a megabyte each would fill the process and Redis.
_RECIPE_BYTES_LIMIT = 16_384
_ENDPOINTS_AT_ONCE = 100


@dataclass(slots=True)
class _Asked:
    recipe: Recipe
    keep_seconds: float
    uses: int
    last_at: float  # by time.monotonic()


@dataclass(slots=True)
class _Notes:
    """What was noted since the last flush."""

    asked: dict[ResultKey, _Asked] = field(default_factory=dict)
    counters: Counter[tuple[str, str]] = field(default_factory=Counter)  # (endpoint, field) → calls


@dataclass(frozen=True, slots=True)
class AskedFor:
    """A result that callers want, and how to make it; `last_asked` is unix seconds of Redis's clock."""

    key: ResultKey
    recipe: Recipe
    uses: int
    last_asked: float


_lock = threading.Lock()
_notes = _Notes()


def note_call(key: ResultKey, recipe: Recipe, *, kind: str, keep_seconds: float) -> None:
    """Count a call, and remember for `keep_seconds`, the endpoint's caching period, what it asked for.

    `kind` is hit, stale, miss or bypass. Never raises and asks nobody.
    """
    now = monotonic()
    with _lock:
        _notes.counters[key.endpoint_id, COUNTER_OF_KIND[kind]] += 1
        asked = _notes.asked.get(key)
        if asked is not None:
            asked.uses += 1
            asked.last_at = now
        elif len(_notes.asked) < _RESULTS_LIMIT and len(recipe.canonical) <= _RECIPE_BYTES_LIMIT:
            _notes.asked[key] = _Asked(recipe=recipe, keep_seconds=keep_seconds, uses=1, last_at=now)
    FLUSHER.note()


def flush() -> None:
    """Write what was noted; never raises. Calls leave that to FLUSHER."""
    global _notes
    with _lock:
        notes, _notes = _notes, _Notes()
    if not notes.counters:
        return
    with suppress(CacheUnavailable):
        _write_counters(notes.counters)
        send(_asked_commands(notes.asked, ahead=clock() - monotonic()))


FLUSHER.writes(flush)


def worth_warming(
    endpoint_id: str, version: int, *, asked_within_seconds: float, limit: int, now: float
) -> list[AskedFor]:
    """Return what was asked for within the last caching period, the most used first, at most `limit`.

    `asked_within_seconds` is the caching period that the calls were noted with, `now` is what `clock` says; uses are
    those of this and of the last window of that length. Raises CacheUnavailable.
    """
    endpoint_id = keys.endpoint_hex(endpoint_id)
    last_asked, uses = ask(
        lambda client: _read_uses(client, endpoint_id, version, period=asked_within_seconds, now=now)
    )
    digests = sorted(last_asked, key=lambda digest: (-uses.get(digest, 0), -last_asked[digest], digest))[:limit]
    result_keys = [ResultKey(endpoint_id=endpoint_id, version=version, digest=digest) for digest in digests]
    recipes = ask_for("MGET", *(key.recipe for key in result_keys)) if result_keys else []
    return [
        AskedFor(key=key, recipe=recipe, uses=uses.get(key.digest, 0), last_asked=last_asked[key.digest])
        for key, recipe in zip(result_keys, map(_read_recipe, recipes), strict=True)
        if recipe is not None
    ]


def _write_counters(counted: Counter[tuple[str, str]]) -> None:
    """Add to the counters of one endpoint after the other; what could not be added is noted again.

    Raises CacheUnavailable.
    """
    by_endpoint: dict[str, dict[str, int]] = {}
    for (endpoint_id, counter), count in counted.items():
        by_endpoint.setdefault(endpoint_id, {})[counter] = count
    while by_endpoint:
        some = list(by_endpoint)[:_ENDPOINTS_AT_ONCE]
        try:
            send(list(chain.from_iterable(_counter_commands(each, by_endpoint[each]) for each in some)))
        except CacheUnavailable:
            with _lock:
                for endpoint_id, counts in by_endpoint.items():
                    _notes.counters.update({(endpoint_id, counter): count for counter, count in counts.items()})
            raise
        for each in some:
            del by_endpoint[each]


def _counter_commands(endpoint_id: str, counts: dict[str, int]) -> list[list[Part]]:
    return counter_commands(keys.statistics_name(endpoint_id), counts)


def _asked_commands(notes: Mapping[ResultKey, _Asked], *, ahead: float) -> list[list[Part]]:
    """Return what writes the notes; Redis's clock is so many seconds ahead of this process's monotonic one.

    Clocks of machines differ and step. By their own a process would forget for others what was asked a moment ago.
    """
    return [command for key, asked in notes.items() for command in _commands(key, asked, last_at=asked.last_at + ahead)]


def _commands(key: ResultKey, asked: _Asked, *, last_at: float) -> list[list[Part]]:
    keep_ms = max(1, round(asked.keep_seconds * 1000))
    moments = keys.asked_name(key.endpoint_id, key.version)
    uses = keys.uses_name(key.endpoint_id, key.version, _window(last_at, asked.keep_seconds))
    return [
        ["SET", key.recipe, asked.recipe.canonical, "PX", keep_ms],
        ["ZADD", moments, "GT", last_at, key.digest],
        ["ZREMRANGEBYSCORE", moments, "-inf", last_at - asked.keep_seconds],
        ["PEXPIRE", moments, keep_ms],
        ["ZINCRBY", uses, asked.uses, key.digest],
        ["PEXPIRE", uses, 2 * keep_ms],  # to the end of the next window
    ]


def _read_uses(
    client: Redis, endpoint_id: str, version: int, *, period: float, now: float
) -> tuple[dict[str, float], Counter[str]]:
    window = _window(now, period)
    with client.pipeline(transaction=False) as pipeline:
        pipeline.zrange(keys.asked_name(endpoint_id, version), now - period, "+inf", byscore=True, withscores=True)
        for each in (window, window - 1):
            pipeline.zrange(keys.uses_name(endpoint_id, version, each), 0, -1, withscores=True)
        moments, *windows = pipeline.execute()
    uses: Counter[str] = Counter()
    for counts in windows:
        uses.update({digest.decode(): int(count) for digest, count in counts})
    return {digest.decode(): float(moment) for digest, moment in moments}, uses


def _window(now: float, period: float) -> int:
    return int(now // max(1.0, period))


def _read_recipe(text: bytes | None) -> Recipe | None:
    try:
        return None if text is None else Recipe.from_json(text)
    except ValueError:  # written by another release
        return None
