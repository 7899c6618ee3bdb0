"""What callers ask for and how that went: counted cheaply, read by warming and by the admin."""

from __future__ import annotations

from endpoints.cache.usage.asked import AskedFor, flush, note_call, worth_warming
from endpoints.cache.usage.backoff import is_backing_off, note_failure, note_success
from endpoints.cache.usage.counters import EndpointStatistics, note_error, note_warm_run, statistics

__all__ = [
    "AskedFor",
    "EndpointStatistics",
    "flush",
    "is_backing_off",
    "note_call",
    "note_error",
    "note_failure",
    "note_success",
    "note_warm_run",
    "statistics",
    "worth_warming",
]
