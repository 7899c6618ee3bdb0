"""The result cache in Redis, which never fails a call: entries, one runner per key, and what is worth warming.

::

    single_flight   one runner per key, over threads and processes      error_notes    its errors, for who waits
    entries         fetch, store, purge, count                          entry_format   how a result lies in Redis
    recent_entries  what was fetched a moment ago                       vouching       for how long that counts
    leases          one holder, and a note for who waits                keys           what names a result
    usage           what is asked for, counters, backing off            connection     Redis within 250 ms, or not

Redis is trusted with nothing that it could lose or evict: each part works on when its data is gone.
"""

from __future__ import annotations

from endpoints.cache.connection import CacheUnavailable, clock
from endpoints.cache.entries import Entry, EntryDescription, describe_entries, fetch, live_entries, purge, store
from endpoints.cache.entry_format import entity_tag
from endpoints.cache.keys import Recipe, ResultKey, result_key
from endpoints.cache.leases import Lease, Slot, acquire, finish, slot
from endpoints.cache.recent_entries import RECENT, RecentEntry
from endpoints.cache.single_flight import Landing, Role, fly, refresh
from endpoints.cache.usage import AskedFor, EndpointStatistics

__all__ = [
    "RECENT",
    "AskedFor",
    "CacheUnavailable",
    "EndpointStatistics",
    "Entry",
    "EntryDescription",
    "Landing",
    "Lease",
    "RecentEntry",
    "Recipe",
    "ResultKey",
    "Role",
    "Slot",
    "acquire",
    "clock",
    "describe_entries",
    "entity_tag",
    "fetch",
    "finish",
    "fly",
    "live_entries",
    "purge",
    "refresh",
    "result_key",
    "slot",
    "store",
]
