"""How long calls took, as counts in fixed buckets: enough for a median, and processes can add them up."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

BUCKETS: Final = 48
# From half a millisecond in steps of 30 % to 88 seconds; the last bucket holds what took longer.
UPPER_BOUNDS_MS: Final = tuple(0.5 * 1.3**step for step in range(BUCKETS - 1))


@dataclass(frozen=True, slots=True)
class Durations:
    """Calls by bucket; the bucket of a call is that of the first upper bound it does not exceed."""

    counts: tuple[int, ...] = (0,) * BUCKETS

    def quantile_ms(self, share: float) -> float | None:
        """Return the duration that this share of the calls (0 to 1) did not exceed, None where there are no calls.

        Off by no more than the bucket is wide, 30 %; what took longer than the last bound counts as that bound.
        """
        total = sum(self.counts)
        if not total:
            return None
        wanted = share * total
        below = 0
        for bucket, count in enumerate(self.counts[:-1]):
            if count and below + count >= wanted:
                start = UPPER_BOUNDS_MS[bucket - 1] if bucket else 0.0
                return start + (UPPER_BOUNDS_MS[bucket] - start) * (wanted - below) / count
            below += count
        return UPPER_BOUNDS_MS[-1]


def bucket_of(milliseconds: float) -> int:
    """Return the number of the bucket a duration counts in."""
    return bisect_left(UPPER_BOUNDS_MS, milliseconds)


def added(parts: Sequence[Sequence[int]]) -> Durations:
    """Return the sum of several counts by bucket."""
    return Durations(tuple(map(sum, zip(*parts, strict=True))) if parts else (0,) * BUCKETS)
