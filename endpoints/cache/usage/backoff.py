"""Results that keep failing are tried ever less often: after 1, 2, 4, 8 and from then on 16 times the base."""

from __future__ import annotations

from endpoints.cache.connection import Script, ask_for, ask_script
from endpoints.cache.keys import ResultKey

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
