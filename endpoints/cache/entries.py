"""Results in Redis: fetch, store while holding the lease, remove, count.

The remaining lifetime in Redis gives the age of an entry, so the clocks of two machines are never compared.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import orjson
import structlog
import xxhash
from django.conf import settings
from zstandard import ZstdError

from endpoints.cache import keys
from endpoints.cache.connection import CacheUnavailable, Script, ask_for, ask_script
from endpoints.cache.keys import ResultKey
from endpoints.cache.leases import LATCH_MS, Lease, latch
from endpoints.cache.policy import CachePolicy
from endpoints.results.compression import expanded
from endpoints.results.outcomes import Outcome, ResultFormat

# --- Entry format -----------------------------------------------------------------------------------------------------
# The form of a result in Redis: a fixed prefix, a small JSON header, the body.
#
# ::
#
#     "LQE3"   header length   body length   header (JSON)   body (raw, or shorter as a zstd frame)
#     4 bytes  2               4
#
# A value of another format, or a cut one, is refused as a whole.
_MAGIC = b"LQE3"
_PREFIX = struct.Struct(">4sHI")


class UnreadableEntry(Exception):
    """The value is not an entry of this format, or not all of one."""


def entity_tag(body: bytes) -> str:
    """Return a strong ETag (RFC 9110 section 8.8.3): equal for equal bytes, and by chance for no others.

    128 bits of XXH3, ten times as fast as SHA-256, which would be a tenth of an uncached call. Nobody who writes log
    rows can aim at a collision: the seed follows from the service's secret.
    """
    return f'"{xxhash.xxh3_128_hexdigest(body, seed=_seed(settings.SECRET_KEY))}"'


@lru_cache(maxsize=4)
def _seed(secret: str) -> int:
    return int.from_bytes(hashlib.sha256(f"entity tags {secret}".encode()).digest()[:8], "big")


def encode_entry(outcome: Outcome, *, etag: str, lifetime_ms: int) -> bytes:
    """Return the value to store; `lifetime_ms` is from storing to expiry."""
    body = outcome.zstd or outcome.body
    header = orjson.dumps(
        [
            lifetime_ms,
            etag,
            len(outcome.body),
            outcome.format.value,
            outcome.row_count,
            outcome.truncated,
            outcome.database_seconds,
            outcome.encoding_seconds,
            outcome.notes,
            outcome.next_page,
            outcome.at_own_limit,
        ]
    )
    return b"".join((_PREFIX.pack(_MAGIC, len(header), len(body)), header, body))


def decode_entry(value: bytes) -> tuple[Outcome, str, int]:
    """Return the result, its entity tag and its lifetime in milliseconds. Raises UnreadableEntry."""
    try:
        magic, header_length, body_length = _PREFIX.unpack_from(value)
        start = _PREFIX.size + header_length
        if magic != _MAGIC or len(value) != start + body_length:
            raise UnreadableEntry(f"{len(value)} bytes of another format, or not all of them")
        fields = orjson.loads(value[_PREFIX.size : start])
        lifetime_ms, etag, size, name, rows, truncated, database, encoding, notes, page, at_limit = fields
        stored = value[start:]
        body, frame = (stored, b"") if len(stored) == size else (expanded(stored, size), stored)
        outcome = Outcome(
            body, ResultFormat(name), rows, truncated, database, encoding, tuple(notes), page, at_limit, frame
        )
        return outcome, etag, lifetime_ms
    except (struct.error, ValueError, TypeError, ZstdError) as error:
        raise UnreadableEntry(f"{type(error).__name__}: {error}") from error


# --- Entries ----------------------------------------------------------------------------------------------------------
logger = structlog.get_logger(__name__)

_SCAN_COUNT = 1000
_SHARE_IS_FULL = 2
STORED = b"stored"  # the note of a lease whose result is there

_FETCH = Script("return {redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[1])}")

# Only the lease's owner stores, and so finishes it. The index is by the server's clock, like expiry itself, and so is a
# share, whose keys Redis may have evicted one by one.
_STORE = Script("""
local lease, latch, entry, index, sizes, ends = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local owner, value, lifetime, member = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
if redis.call('GET', lease) ~= owner then return 0 end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if sizes then
    if redis.call('EXISTS', sizes, ends) < 2 then redis.call('DEL', sizes, ends) end
    local used = tonumber(redis.call('HGET', sizes, '') or 0)
    for _, over in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', now)) do
        used = used - tonumber(redis.call('HGET', sizes, over) or 0)
        redis.call('HDEL', sizes, over)
        redis.call('ZREM', ends, over)
    end
    local with_it = used - tonumber(redis.call('HGET', sizes, entry) or 0) + #value
    local fits = with_it <= tonumber(ARGV[5])
    redis.call('HSET', sizes, '', fits and with_it or used)
    if not fits then return 2 end
    redis.call('HSET', sizes, entry, #value)
    redis.call('ZADD', ends, now + lifetime, entry)
    for _, name in ipairs({sizes, ends}) do
        if redis.call('PTTL', name) < lifetime then redis.call('PEXPIRE', name, lifetime) end
    end
end
redis.call('SET', entry, value, 'PX', lifetime)
redis.call('ZREMRANGEBYSCORE', index, '-inf', now)
redis.call('ZADD', index, now + lifetime, member)
if redis.call('PTTL', index) < lifetime then redis.call('PEXPIRE', index, lifetime) end
redis.call('DEL', lease)
redis.call('RPUSH', latch, ARGV[6])
redis.call('PEXPIRE', latch, ARGV[7])
return 1
""")

# Redis may have evicted an entry before its time, so each one is checked.
_COUNT = Script("""
local index, prefix = KEYS[1], ARGV[1]
for _, member in ipairs(redis.call('ZRANGE', index, 0, -1)) do
    if redis.call('EXISTS', prefix .. member) == 0 then redis.call('ZREM', index, member) end
end
return redis.call('ZCARD', index)
""")


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored result."""

    outcome: Outcome
    etag: str
    age_seconds: float
    policy: CachePolicy

    @property
    def is_fresh(self) -> bool:
        return self.policy.is_fresh(self.age_seconds)


def fetch(key: ResultKey, policy: CachePolicy) -> Entry | None:
    """Return the entry in one round trip, None if there is none that is usable. Raises CacheUnavailable."""
    if policy.anew:
        return None
    remaining_ms, value = ask_script(_FETCH, [key.entry])
    # Every entry expires; one that does not was not put there by `store`.
    if value is None or remaining_ms < 0:
        return None
    try:
        outcome, etag, lifetime_ms = decode_entry(value)
    except UnreadableEntry as error:
        logger.warning("cache_entry_unreadable", entry=key.entry, reason=str(error))
        return None
    age_seconds = (lifetime_ms - remaining_ms) / 1000
    return Entry(outcome, etag, age_seconds, policy) if policy.is_usable(age_seconds) else None


def store(key: ResultKey, outcome: Outcome, policy: CachePolicy, *, lease: Lease, etag: str | None = None) -> bool:
    """Store a result for as long as it is usable, and finish the lease with the note STORED.

    False if the lease is no longer held and nothing was stored.
    `etag` spares hashing the body again. Raises CacheUnavailable, also if the share of the policy has no room.
    """
    lifetime_ms = max(1, round(policy.kept_seconds * 1000))
    value = encode_entry(outcome, etag=etag or entity_tag(outcome.body), lifetime_ms=lifetime_ms)
    names = [lease.name, latch(lease.owner), key.entry, keys.index_name(key.endpoint_id)]
    if policy.share:
        names += keys.share_names(policy.share)
    limit = settings.ENDPOINTS_SANDBOX_CACHE_BYTES
    stored = ask_script(_STORE, names, [lease.owner, value, lifetime_ms, key.member, limit, STORED, LATCH_MS])
    if stored == _SHARE_IS_FULL:
        raise CacheUnavailable(f"the results of {policy.share} would take more than {limit} bytes")
    return bool(stored)


def forget(key: ResultKey) -> None:
    """Remove the entry, and let no run store one that began before. Raises CacheUnavailable."""
    ask_for("UNLINK", key.lease, key.entry)


def send_to_primary(key: ResultKey, *, seconds: float) -> None:
    """Let all runs of this key that begin within so many seconds ask the primary. Raises CacheUnavailable."""
    ask_for("SET", key.primary, 1, "PX", round(seconds * 1000))


def is_sent_to_primary(key: ResultKey) -> bool:
    """Tell whether a run of this key must ask the primary. Raises CacheUnavailable."""
    return bool(ask_for("EXISTS", key.primary))


def purge(endpoint_id: str) -> int:
    """Remove every entry of every version and return how many there were; runs under way can't put theirs back.

    Callers that wait for such a run in its own process still get its result; later callers do not.
    Raises CacheUnavailable, and has then removed some or none.
    """
    endpoint_id = keys.endpoint_hex(endpoint_id)
    # Leases first: from then on nothing that began before can be stored. By scanning, as Redis may have evicted an
    # index while the entries are still there.
    _remove_all(keys.lease_prefix(endpoint_id))
    removed = _remove_all(keys.entry_prefix(endpoint_id))
    ask_for("UNLINK", keys.index_name(endpoint_id))
    return removed


def live_entries(endpoint_id: str) -> int:
    """Return how many entries an endpoint has. Raises CacheUnavailable."""
    endpoint_id = keys.endpoint_hex(endpoint_id)
    return cast(int, ask_script(_COUNT, [keys.index_name(endpoint_id)], [keys.entry_prefix(endpoint_id)]))


def _remove_all(prefix: str) -> int:
    """Remove every name with this prefix that is there from beginning to end of the scan."""
    removed, cursor = 0, 0
    while True:
        position, names = ask_for("SCAN", cursor, "MATCH", f"{prefix}*", "COUNT", _SCAN_COUNT)
        removed += ask_for("UNLINK", *names) if names else 0
        cursor = int(position)
        if cursor == 0:
            return removed
