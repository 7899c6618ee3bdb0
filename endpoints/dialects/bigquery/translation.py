"""The result of a translation: PostgreSQL's text, and the way back from a place in it to the consumer's text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Translation:
    """PostgreSQL's text for a text in BigQuery's dialect."""

    sql: str
    _starts: tuple[int, ...] = field(repr=False)  # offsets of the pieces in `sql`
    _origins: tuple[int, ...] = field(repr=False)  # offsets of the pieces in the consumer's text

    @classmethod
    def from_pieces(cls, pieces: Sequence[str], origins: Sequence[int]) -> Translation:
        """Join the pieces, each with its offset in the consumer's text."""
        starts = accumulate((len(piece) + 1 for piece in pieces[:-1]), initial=0)
        return cls(" ".join(pieces), tuple(starts), tuple(origins))

    def original_offset(self, offset: int) -> int:
        """Return the offset in the consumer's text for an offset in `sql`, as exactly as it is known."""
        piece = bisect_right(self._starts, offset) - 1
        return self._origins[max(piece, 0)]
