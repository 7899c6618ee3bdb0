"""What callers request: counters per endpoint, and the results per version, so that warming knows its work.

Counted in the process and written once a second after the calls: a hit costs a dictionary access, not a round trip.
While Redis does not answer, counts for warming are lost; the counters wait for it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from time import monotonic, time

from redis import Redis

from endpoints.cache import keys
from endpoints.cache.connection import CacheUnavailable, Part, Script, ask, ask_for, ask_for_all, ask_script, clock
from endpoints.cache.keys import QueryRequest, ResultKey
from endpoints.cache.usage.flushing import FLUSHER, send

# --- Backoff ----------------------------------------------------------------------------------------------------------
# Results that keep failing are tried less and less often: after 1, 2, 4, 8 and then always 16 times the base.
MOST_TIMES_BASE = 16

_NOTE_FAILURE = Script("""
local failures, backoff = KEYS[1], KEYS[2]
local base_ms, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local count = redis.call('INCR', failures)
local wait_ms = base_ms * math.min(most, 2 ^ math.min(count - 1, 30))
wait_ms = string.format('%.0f', wait_ms)
redis.call('SET', backoff, count, 'PX', wait_ms)
redis.call('PEXPIRE', failures, string.format('%.0f', base_ms * most * 2))
return wait_ms
""")


def note_failure(key: ResultKey, *, base_seconds: float) -> float:
    """Leave this result alone for a while and return for how many seconds. Raises CacheUnavailable."""
    arguments = [max(1, round(base_seconds * 1000)), MOST_TIMES_BASE]
    return int(ask_script(_NOTE_FAILURE, [key.failures, key.backoff], arguments)) / 1000


def is_backing_off(key: ResultKey) -> bool:
    """Tell whether this result failed so recently that it is left alone. Raises CacheUnavailable."""
    return bool(ask_for("EXISTS", key.backoff))


def note_success(key: ResultKey) -> None:
    """Forget this result's failures. Raises CacheUnavailable."""
    ask_for("UNLINK", key.failures, key.backoff)


# --- Counters ---------------------------------------------------------------------------------------------------------
# Counters of an endpoint's calls and warm runs, one hash per endpoint, for the admin.
STATISTICS_SECONDS = 30 * 24 * 3600  # after the last call of an endpoint its counters expire
_ERROR_CHARACTERS = 500

COUNTER_OF_KIND: Mapping[str, str] = {"hit": "hits", "stale": "stale", "miss": "misses", "bypass": "bypass"}


@dataclass(frozen=True, slots=True)
class EndpointStatistics:
    """Counts since the counters began; times are unix seconds, 0 for never."""

    hits: int = 0
    misses: int = 0
    stale: int = 0
    bypass: int = 0
    warm_runs: int = 0
    warmed: int = 0
    warm_failures: int = 0
    last_warm_at: float = 0.0
    last_warm_seconds: float = 0.0
    last_error: str = ""
    last_error_at: float = 0.0


def statistics(endpoint_ids: Sequence[str]) -> dict[str, EndpointStatistics]:
    """Return the statistics by endpoint id as given, in one round trip. Raises CacheUnavailable."""
    names = [keys.statistics_name(keys.endpoint_hex(endpoint_id)) for endpoint_id in endpoint_ids]
    stored = ask_for_all([["HGETALL", name] for name in names]) if names else []
    return dict(zip(endpoint_ids, map(_read_fields, stored), strict=True))


def note_warm_run(endpoint_id: str, *, warmed: int, failures: int, seconds: float, last_error: str = "") -> None:
    """Add one warm run: results warmed, results that failed, and how long it took. Raises CacheUnavailable."""
    name = keys.statistics_name(keys.endpoint_hex(endpoint_id))
    fields: list[Part] = ["last_warm_at", time(), "last_warm_seconds", seconds]
    if failures:
        fields += ["last_error", last_error[:_ERROR_CHARACTERS], "last_error_at", time()]
    counters = {"warm_runs": 1, "warmed": warmed, "warm_failures": failures}
    ask_for_all([["HSET", name, *fields], *counter_commands(name, counters)])


def counter_commands(name: str, counters: Mapping[str, int]) -> list[list[Part]]:
    """Return the commands that add to an endpoint's counters and keep them."""
    additions: list[list[Part]] = [["HINCRBY", name, counter, count] for counter, count in counters.items() if count]
    return [*additions, ["EXPIRE", name, STATISTICS_SECONDS]]


def _read_fields(stored: Mapping[bytes, bytes]) -> EndpointStatistics:
    texts = {name.decode(): value.decode("utf-8", "replace") for name, value in stored.items()}
    return EndpointStatistics(
        hits=int(texts.get("hits", 0)),
        misses=int(texts.get("misses", 0)),
        stale=int(texts.get("stale", 0)),
        bypass=int(texts.get("bypass", 0)),
        warm_runs=int(texts.get("warm_runs", 0)),
        warmed=int(texts.get("warmed", 0)),
        warm_failures=int(texts.get("warm_failures", 0)),
        last_warm_at=float(texts.get("last_warm_at", 0)),
        last_warm_seconds=float(texts.get("last_warm_seconds", 0)),
        last_error=texts.get("last_error", ""),
        last_error_at=float(texts.get("last_error_at", 0)),
    )


# --- Asked ------------------------------------------------------------------------------------------------------------
_RESULTS_LIMIT = 1000  # different results noted between two flushes; the rest is only counted
# What is larger is not noted: a thousand requests of a megabyte each would fill the process and Redis.
_REQUEST_BYTES_LIMIT = 16_384
_ENDPOINTS_AT_ONCE = 100


@dataclass(slots=True)
class _Asked:
    request: QueryRequest
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
    request: QueryRequest
    uses: int
    last_asked: float


_lock = threading.Lock()
_notes = _Notes()


def note_call(key: ResultKey, request: QueryRequest, *, kind: str, keep_seconds: float) -> None:
    """Count a call, and remember for `keep_seconds`, the endpoint's caching period, what it requested.

    `kind` is hit, stale, miss or bypass. Never raises and does no I/O.
    """
    now = monotonic()
    with _lock:
        _notes.counters[key.endpoint_id, COUNTER_OF_KIND[kind]] += 1
        asked = _notes.asked.get(key)
        if asked is not None:
            asked.uses += 1
            asked.last_at = now
        elif len(_notes.asked) < _RESULTS_LIMIT and len(request.canonical) <= _REQUEST_BYTES_LIMIT:
            _notes.asked[key] = _Asked(request=request, keep_seconds=keep_seconds, uses=1, last_at=now)
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
    """Return what was requested within the last caching period, the most used first, at most `limit`.

    `asked_within_seconds` is the caching period that the calls were noted with, `now` is what `clock` says; uses are
    those of this and of the last window of that length. Raises CacheUnavailable.
    """
    endpoint_id = keys.endpoint_hex(endpoint_id)
    last_asked, uses = ask(
        lambda client: _read_uses(client, endpoint_id, version, period=asked_within_seconds, now=now)
    )
    digests = sorted(last_asked, key=lambda digest: (-uses.get(digest, 0), -last_asked[digest], digest))[:limit]
    result_keys = [ResultKey(endpoint_id=endpoint_id, version=version, digest=digest) for digest in digests]
    requests = ask_for("MGET", *(key.request for key in result_keys)) if result_keys else []
    return [
        AskedFor(key=key, request=request, uses=uses.get(key.digest, 0), last_asked=last_asked[key.digest])
        for key, request in zip(result_keys, map(_read_request, requests), strict=True)
        if request is not None
    ]


def count_worth_warming(endpoints: Sequence[tuple[str, int, float]], *, now: float) -> list[int]:
    """Return how many results of each endpoint were requested within its last caching period, in one round trip.

    Endpoints are given as id, version and caching period in seconds, `now` is what `clock` says. Raises
    CacheUnavailable.
    """
    commands: list[list[Part]] = [
        ["ZCOUNT", keys.asked_name(keys.endpoint_hex(endpoint_id), version), now - period, "+inf"]
        for endpoint_id, version, period in endpoints
    ]
    return [int(count) for count in ask_for_all(commands)]


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

    Clocks of machines differ and step. By its own clock a process could forget what others requested a moment ago.
    """
    return [command for key, asked in notes.items() for command in _commands(key, asked, last_at=asked.last_at + ahead)]


def _commands(key: ResultKey, asked: _Asked, *, last_at: float) -> list[list[Part]]:
    keep_ms = max(1, round(asked.keep_seconds * 1000))
    moments = keys.asked_name(key.endpoint_id, key.version)
    uses = keys.uses_name(key.endpoint_id, key.version, _window(last_at, asked.keep_seconds))
    return [
        ["SET", key.request, asked.request.canonical, "PX", keep_ms],
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


def _read_request(text: bytes | None) -> QueryRequest | None:
    try:
        return None if text is None else QueryRequest.from_json(text)
    except ValueError:  # of another form
        return None
