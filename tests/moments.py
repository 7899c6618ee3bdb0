"""The moment of a test: one for everything that it does.

That of the import is a quarter of an hour older when a test uses it, and may be of the day before, whose partitions and
"today" are not those of the service.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

_began: datetime | None = None


def begin() -> None:
    """Say that a test begins. It begins before midnight only if it ends there too."""
    global _began
    clock = datetime.now(UTC)
    until_midnight = (clock + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0) - clock
    if until_midnight < timedelta(seconds=10):
        time.sleep(until_midnight.total_seconds())
    _began = datetime.now(UTC)


def now() -> datetime:
    """Return when the test that runs has begun."""
    assert _began is not None, "no test has begun: a constant of a module, or a table of cases, cannot know its moment"
    return _began
