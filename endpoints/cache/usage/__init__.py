"""What callers request and how their calls ended: counted cheaply, read by warming and by the admin."""

from __future__ import annotations

from endpoints.cache.usage.asked import (
    AskedFor,
    EndpointStatistics,
    count_worth_warming,
    is_backing_off,
    note_call,
    note_failure,
    note_success,
    note_warm_run,
    statistics,
    worth_warming,
)
from endpoints.cache.usage.flushing import FLUSHER
from endpoints.cache.usage.load_ends import LoadEnd, LoadEnds, forget_load_ends, load_ends, note_load_end
from endpoints.cache.usage.loads import UPPER_BOUNDS_SECONDS, LoadCounts, load_counts, note_load
from endpoints.cache.usage.recent_calls import (
    MINUTES,
    Activity,
    Durations,
    RecentCall,
    activity,
    last_calls,
    note_outcome,
)

__all__ = [
    "FLUSHER",
    "MINUTES",
    "UPPER_BOUNDS_SECONDS",
    "Activity",
    "AskedFor",
    "Durations",
    "EndpointStatistics",
    "LoadCounts",
    "LoadEnd",
    "LoadEnds",
    "RecentCall",
    "activity",
    "count_worth_warming",
    "forget_load_ends",
    "is_backing_off",
    "last_calls",
    "load_counts",
    "load_ends",
    "note_call",
    "note_failure",
    "note_load",
    "note_load_end",
    "note_outcome",
    "note_success",
    "note_warm_run",
    "statistics",
    "worth_warming",
]
