"""Results in Redis: fetch, store while holding the lease, remove, count.

The remaining lifetime in Redis gives the age of an entry, so the clocks of two machines are never compared.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from time import time
from typing import cast

import orjson
import structlog
import xxhash
from django.conf import settings

from endpoints.cache import keys
from endpoints.cache.connection import CacheUnavailable, Script, ask_for, ask_script
from endpoints.cache.keys import ResultKey
from endpoints.cache.leases import Lease
from endpoints.cache.policy import CachePolicy
from endpoints.results.outcomes import Outcome, ResultFormat

# --- Entry format -----------------------------------------------------------------------------------------------------
# The form of a result in Redis: a fixed prefix, a small JSON header, the body.
#
# ::
#
#     "LQE2"   header length   body length   CRC-32 of all that follows   header (JSON)   body (raw or zlib)
#     4 bytes  2               4             4
#
# A value of another format, a cut or a damaged one is refused as a whole.
_MAGIC = b"LQE2"
_PREFIX = struct.Struct(">4sHII")
# Below this a hit is cheapest raw; above it a body of log rows shrinks to a ninth and costs 0.8 µs per kB to expand.
COMPRESS_FROM_BYTES = 16_384
_SAMPLE_BYTES = 16_384
_WORTHWHILE_RATIO = 0.75
_TRUNCATED = 5  # its place in a header: true, false, or
_AT_OWN_LIMIT = "limit"
_NOTES = 11  # their place in a header; entries of an earlier version do not have them


class UnreadableEntry(Exception):
    """The value is not an entry of this format, or not all of one."""


@dataclass(frozen=True, slots=True)
class Header:
    """The facts about a result without its body."""

    created_at: float  # unix seconds, by the clock of the machine that ran the query
    lifetime_ms: int  # from storing to expiry
    etag: str
    format: ResultFormat
    row_count: int
    truncated: bool
    database_seconds: float
    encoding_seconds: float
    position: int  # of the log, up to which the result contains every row
    body_bytes: int  # of the result
    compressed: bool
    notes: tuple[str, ...] = ()
    next_page: str = ""
    at_own_limit: bool = False


def entity_tag(body: bytes) -> str:
    """Return a strong ETag (RFC 9110 section 8.8.3): equal for equal bytes, and by chance for no others.

    128 bits of XXH3, ten times as fast as SHA-256, which would be a tenth of an uncached call. Nobody who writes log
    rows can aim at a collision: the seed follows from the service's secret.
    """
    return f'"{xxhash.xxh3_128_hexdigest(body, seed=_seed(settings.SECRET_KEY))}"'


@lru_cache(maxsize=4)
def _seed(secret: str) -> int:
    return int.from_bytes(hashlib.sha256(f"entity tags {secret}".encode()).digest()[:8], "big")


def encode_entry(outcome: Outcome, *, etag: str, created_at: float, lifetime_ms: int) -> bytes:
    """Return the value to store."""
    body, compressed = _compress(outcome.body)
    header = orjson.dumps(
        [
            created_at,
            lifetime_ms,
            etag,
            outcome.format.value,
            outcome.row_count,
            # A process of an earlier version reads any text as true: more rows than were returned.
            outcome.truncated or (_AT_OWN_LIMIT if outcome.at_own_limit else False),
            outcome.database_seconds,
            outcome.encoding_seconds,
            outcome.position,
            len(outcome.body),
            compressed,
            outcome.notes,
            # Only of pages: a process of an earlier version, which knows none, can read every other entry.
            *([outcome.next_page] if outcome.next_page else []),
        ]
    )
    checksum = zlib.crc32(body, zlib.crc32(header))
    return b"".join((_PREFIX.pack(_MAGIC, len(header), len(body), checksum), header, body))


def decode_entry(value: bytes) -> tuple[Header, bytes]:
    """Return the header and the stored body, for `expand_body`. Raises UnreadableEntry."""
    header_length, body_length, checksum = _read_prefix(value)
    body_start = _PREFIX.size + header_length
    if len(value) != body_start + body_length:
        raise UnreadableEntry(f"{len(value)} bytes instead of {body_start + body_length}")
    if zlib.crc32(memoryview(value)[_PREFIX.size :]) != checksum:
        raise UnreadableEntry("the checksum does not match")
    return _read_header(value[_PREFIX.size : body_start]), value[body_start:]


def expand_body(header: Header, stored: bytes) -> bytes:
    """Return the result's bytes."""
    return zlib.decompress(stored, bufsize=max(1, header.body_bytes)) if header.compressed else stored


def _compress(body: bytes) -> tuple[bytes, bool]:
    if len(body) < COMPRESS_FROM_BYTES:
        return body, False
    sample = zlib.compress(body[:_SAMPLE_BYTES], 1)
    if len(sample) > _SAMPLE_BYTES * _WORTHWHILE_RATIO:
        return body, False
    compressed = zlib.compress(body, 1)
    return (compressed, True) if len(compressed) <= len(body) * _WORTHWHILE_RATIO else (body, False)


def _read_prefix(value: bytes) -> tuple[int, int, int]:
    try:
        magic, header_length, body_length, checksum = _PREFIX.unpack_from(value)
    except struct.error as error:
        raise UnreadableEntry(f"only {len(value)} bytes") from error
    if magic != _MAGIC:
        raise UnreadableEntry("another format")
    return header_length, body_length, checksum


def _read_header(text: bytes) -> Header:
    try:
        fields = orjson.loads(text)
        fields[3] = ResultFormat(fields[3])
        fields[_NOTES : _NOTES + 1] = map(tuple, fields[_NOTES : _NOTES + 1])
        at_own_limit = fields[_TRUNCATED] == _AT_OWN_LIMIT
        fields[_TRUNCATED] = fields[_TRUNCATED] is True
        header = Header(*fields)
        return replace(header, at_own_limit=True) if at_own_limit else header
    except (ValueError, TypeError, LookupError) as error:
        raise UnreadableEntry("the header cannot be read") from error


# --- Entries ----------------------------------------------------------------------------------------------------------
logger = structlog.get_logger(__name__)

_SCAN_COUNT = 1000
_SHARE_IS_FULL = 2

_FETCH = Script("return {redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[1])}")

# Only the lease's owner stores. The index is by the server's clock, like expiry itself, and so is a share, whose keys
# Redis may have evicted one by one.
_STORE = Script("""
local lease, entry, index, sizes, ends = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
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


@dataclass(frozen=True)
class Entry:
    """A stored result; the body stays compressed until the first access to `outcome`."""

    header: Header
    stored_body: bytes
    age_seconds: float
    policy: CachePolicy

    @property
    def is_fresh(self) -> bool:
        return self.policy.is_fresh(self.age_seconds)

    @property
    def etag(self) -> str:
        return self.header.etag

    @cached_property
    def outcome(self) -> Outcome:
        header = self.header
        return Outcome(
            body=expand_body(header, self.stored_body),
            format=header.format,
            row_count=header.row_count,
            truncated=header.truncated,
            database_seconds=header.database_seconds,
            encoding_seconds=header.encoding_seconds,
            position=header.position,
            notes=header.notes,
            next_page=header.next_page,
            at_own_limit=header.at_own_limit,
        )


def fetch(key: ResultKey, policy: CachePolicy) -> Entry | None:
    """Return the entry in one round trip, None if there is none that is usable. Raises CacheUnavailable."""
    remaining_ms, value = ask_script(_FETCH, [key.entry])
    # Every entry expires; one that does not was not put there by `store`.
    if value is None or remaining_ms < 0:
        return None
    try:
        header, body = decode_entry(value)
    except UnreadableEntry as error:
        logger.warning("cache_entry_unreadable", entry=key.entry, reason=str(error))
        return None
    age_seconds = (header.lifetime_ms - remaining_ms) / 1000
    if not policy.is_usable(age_seconds, header.position):
        return None
    return Entry(header=header, stored_body=body, age_seconds=age_seconds, policy=policy)


def store(key: ResultKey, outcome: Outcome, policy: CachePolicy, *, lease: Lease, etag: str | None = None) -> bool:
    """Store a result for as long as it is usable; False if the lease is no longer held and nothing was stored.

    `etag` spares hashing the body again. Raises CacheUnavailable, also if the share of the policy has no room.
    """
    lifetime_ms = max(1, round(policy.kept_seconds * 1000))
    value = encode_entry(outcome, etag=etag or entity_tag(outcome.body), created_at=time(), lifetime_ms=lifetime_ms)
    names = [lease.name, key.entry, keys.index_name(key.endpoint_id)]
    if policy.share:
        names += keys.share_names(policy.share)
    limit = settings.ENDPOINTS_SANDBOX_CACHE_BYTES
    stored = ask_script(_STORE, names, [lease.owner, value, lifetime_ms, key.member, limit])
    if stored == _SHARE_IS_FULL:
        raise CacheUnavailable(f"the results of {policy.share} would take more than {limit} bytes")
    return bool(stored)


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
