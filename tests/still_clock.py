"""A clock for tests of deadlines: it stands still until the test moves it."""

from __future__ import annotations


class StillClock:
    """Stands in for `time.monotonic`; `now` is in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
