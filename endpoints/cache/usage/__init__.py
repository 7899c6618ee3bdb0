"""What callers ask for and how that went: counted cheaply, read by warming and by the admin."""

from __future__ import annotations

from endpoints.cache.usage.activity import MINUTES, Activity, activity
from endpoints.cache.usage.asked import AskedFor, note_call, worth_warming
from endpoints.cache.usage.backoff import is_backing_off, note_failure, note_success
from endpoints.cache.usage.counters import EndpointStatistics, note_warm_run, statistics
from endpoints.cache.usage.durations import Durations
from endpoints.cache.usage.flushing import FLUSHER
from endpoints.cache.usage.recent_calls import RecentCall, last_calls, note_outcome

__all__ = [
    "FLUSHER",
    "MINUTES",
    "Activity",
    "AskedFor",
    "Durations",
    "EndpointStatistics",
    "RecentCall",
    "activity",
    "is_backing_off",
    "last_calls",
    "note_call",
    "note_failure",
    "note_outcome",
    "note_success",
    "note_warm_run",
    "statistics",
    "worth_warming",
]
