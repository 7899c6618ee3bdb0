"""What the age of a result means: fresh, stale but usable, or not to be returned."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """For how long a result is fresh, how much longer it may be returned stale, and how long its runner may take.

    The lease must outlast the run, or two run at once; the others wait that long for a runner that died. Who wants it
    anew gets no result of a run that began before, and who takes no stale result a fresh one alone.
    A result that is stored for a `share` counts against the bytes that all results of one share may take in Redis.
    """

    fresh_seconds: float
    stale_seconds: float
    lease_seconds: float
    anew: bool = False
    takes_stale: bool = True
    share: str = ""  # empty: without a bound

    @property
    def kept_seconds(self) -> float:
        """The age at which Redis drops a result."""
        return self.fresh_seconds + self.stale_seconds

    def is_usable(self, age: float) -> bool:
        """Tell whether a result of this age, in seconds, may be returned."""
        # Negative: the clock of Redis has gone back, so the age of the result is unknown.
        longest = self.kept_seconds if self.takes_stale else self.fresh_seconds
        return 0 <= age < longest

    def is_fresh(self, age: float) -> bool:
        """Tell whether a result of this age may be returned without asking for a newer one."""
        return age < self.fresh_seconds

    def remaining(self, age: float) -> float:
        """Return for how many seconds a result of this age is still fresh, 0 if it is stale."""
        return max(0.0, self.fresh_seconds - age)
