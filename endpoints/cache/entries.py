"""Results in Redis: fetch, store while holding the lease, remove, count.

How old an entry is follows from how long Redis will still keep it, so no two machines' clocks are ever compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from time import time
from typing import cast

import structlog

from endpoints.cache import keys
from endpoints.cache.connection import Script, ask_for, ask_script
from endpoints.cache.entry_format import (
    Header,
    UnreadableEntry,
    decode_entry,
    encode_entry,
    entity_tag,
    expand_body,
)
from endpoints.cache.keys import ResultKey
from endpoints.cache.leases import Lease
from endpoints.cache.policy import CachePolicy
from endpoints.results.outcomes import Outcome

logger = structlog.get_logger(__name__)

_SCAN_COUNT = 1000

_FETCH = Script("return {redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[1])}")

# Only the lease's owner stores. The index is by the server's clock, like expiry itself.
_STORE = Script("""
local lease, entry, index = KEYS[1], KEYS[2], KEYS[3]
local owner, value, lifetime, member = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
if redis.call('GET', lease) ~= owner then return 0 end
redis.call('SET', entry, value, 'PX', lifetime)
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
redis.call('ZREMRANGEBYSCORE', index, '-inf', now)
redis.call('ZADD', index, now + lifetime, member)
if redis.call('PTTL', index) < lifetime then redis.call('PEXPIRE', index, lifetime) end
return 1
""")

# Redis may have evicted an entry before its time, so each one is looked at.
_COUNT = Script("""
local index, prefix = KEYS[1], ARGV[1]
for _, member in ipairs(redis.call('ZRANGE', index, 0, -1)) do
    if redis.call('EXISTS', prefix .. member) == 0 then redis.call('ZREM', index, member) end
end
return redis.call('ZCARD', index)
""")


@dataclass(frozen=True)
class Entry:
    """A stored result; the body stays compressed until `outcome` is first asked for."""

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
        )


def fetch(key: ResultKey, policy: CachePolicy) -> Entry | None:
    """Return the entry in one round trip, None when there is none of a usable age. Raises CacheUnavailable."""
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
    if not policy.is_usable(age_seconds):
        return None
    return Entry(header=header, stored_body=body, age_seconds=age_seconds, policy=policy)


def store(key: ResultKey, outcome: Outcome, policy: CachePolicy, *, lease: Lease, etag: str | None = None) -> bool:
    """Store a result for as long as it is usable; False when the lease is no longer held and nothing was stored.

    `etag` spares hashing the body again. Raises CacheUnavailable.
    """
    lifetime_ms = max(1, round(policy.kept_seconds * 1000))
    value = encode_entry(outcome, etag=etag or entity_tag(outcome.body), created_at=time(), lifetime_ms=lifetime_ms)
    names = [lease.name, key.entry, keys.index_name(key.endpoint_id)]
    return bool(ask_script(_STORE, names, [lease.owner, value, lifetime_ms, key.member]))


def purge(endpoint_id: str) -> int:
    """Remove every entry of every version and return how many there were; runs under way can't put theirs back.

    Who has been waiting for such a run in its own process still gets its result; who calls from now on does not.
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
