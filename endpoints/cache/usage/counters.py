"""Counters of an endpoint's calls and warm runs, one hash per endpoint, for the admin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import time

from endpoints.cache import keys
from endpoints.cache.connection import Part, ask_for_all

STATISTICS_SECONDS = 30 * 24 * 3600  # after the last call of an endpoint its counters go
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
