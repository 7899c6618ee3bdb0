"""The result cache in Redis, which never fails a call: entries, one runner per key, and what is worth warming.

::

    single_flight   one runner per key, over threads and processes      flights        a leader and its followers
    entries         fetch, store, purge, count                          recent_entries what was fetched a moment ago
    policy          fresh, stale or too old                             keys           the key of a result
    leases          one holder, and a note for waiters                  permits        how many at the same time
    usage           requested results, counters, backoff                connection     Redis within 250 ms, or not
    running_calls   whether anybody still wants a call's result

Redis may lose or evict everything: each part continues to work without its data.
"""

from __future__ import annotations

from endpoints.cache.connection import CacheUnavailable, clock
from endpoints.cache.entries import Entry, entity_tag, fetch, live_entries, purge, store
from endpoints.cache.flights import FlightResult, Role
from endpoints.cache.keys import QueryRequest, ResultKey, result_key
from endpoints.cache.leases import Lease, Slot, acquire, finish, slot
from endpoints.cache.policy import CachePolicy
from endpoints.cache.recent_entries import RECENT, RecentEntry
from endpoints.cache.single_flight import refresh, run_once
from endpoints.cache.usage import AskedFor, EndpointStatistics

__all__ = [
    "RECENT",
    "AskedFor",
    "CachePolicy",
    "CacheUnavailable",
    "EndpointStatistics",
    "Entry",
    "FlightResult",
    "Lease",
    "QueryRequest",
    "RecentEntry",
    "ResultKey",
    "Role",
    "Slot",
    "acquire",
    "clock",
    "entity_tag",
    "fetch",
    "finish",
    "live_entries",
    "purge",
    "refresh",
    "result_key",
    "run_once",
    "slot",
    "store",
]
