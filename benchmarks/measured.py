"""What a measurement says: two figures taken side by side, their ratio, and what was aimed at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure of the service beside what it is compared with; the ratio is the median of the rounds' ratios."""

    name: str
    against: str
    unit: str
    ours: tuple[float, ...]  # one a round
    theirs: tuple[float, ...]
    target: float
    at_least: bool  # else the ratio may be at most the target
    note: str = ""

    @property
    def ratios(self) -> tuple[float, ...]:
        return tuple(our / their for our, their in zip(self.ours, self.theirs, strict=True))

    @property
    def ratio(self) -> float:
        return median(self.ratios)

    @property
    def is_met(self) -> bool:
        return self.ratio >= self.target if self.at_least else self.ratio <= self.target

    def to_json(self) -> dict[str, Any]:
        """Return everything, rounds and verdict included."""
        return {**asdict(self), "ratio": self.ratio, "is_met": self.is_met}


def against_constant(name: str, value: float, *, limit: float, unit: str, note: str = "") -> Measured:
    """Return a figure that may not exceed a limit, as a ratio of the limit."""
    return Measured(name, f"{limit:g} {unit}", unit, (value,), (limit,), target=1.0, at_least=False, note=note)


def side_by_side(rounds: Sequence[dict[str, float]], name: str) -> tuple[float, ...]:
    """Return one contestant's figures of all rounds."""
    return tuple(figures[name] for figures in rounds)
