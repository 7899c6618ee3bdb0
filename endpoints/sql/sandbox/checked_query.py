"""What came through the check: the text that runs, what it reads, and the way back to the consumer's text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from endpoints.results.outcomes import BoundValue, Statement
from endpoints.sql.composition import limit_rows

# "SELECT * FROM (\n": how far the statement's text is ahead of the query's.
_OFFSET_IN_STATEMENT: Final = limit_rows("?", max_rows=0).index("?")


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """A sandbox query that may run in a schema of exactly the sandbox tables it was checked against.

    `sql` is written anew from the checked tokens: no comments, every name quoted, functions and types pinned to
    pg_catalog, ``@name`` as ``($n::type)``. `relations` are the sandbox tables it reads, `functions` what it calls.
    """

    sql: str
    parameter_names: tuple[str, ...]
    relations: frozenset[str]
    functions: frozenset[str]
    _starts: tuple[int, ...] = field(repr=False)  # of each token in `sql`
    _origins: tuple[int, ...] = field(repr=False)  # of each token in the consumer's text

    @classmethod
    def from_pieces(
        cls,
        pieces: Sequence[str],
        origins: Sequence[int],
        *,
        parameter_names: Sequence[str],
        relations: frozenset[str],
        functions: frozenset[str],
    ) -> CheckedQuery:
        """Join the emitted tokens, each with the offset in the consumer's text that it stands for."""
        starts = accumulate((len(piece) + 1 for piece in pieces[:-1]), initial=0)
        return cls(
            sql=" ".join(pieces),
            parameter_names=tuple(parameter_names),
            relations=relations,
            functions=functions,
            _starts=tuple(starts),
            _origins=tuple(origins),
        )

    def statement(self, arguments: Mapping[str, BoundValue], *, max_rows: int) -> Statement:
        """Return what runs: at most ``max_rows + 1`` rows. Raises KeyError when an argument is missing."""
        sql = limit_rows(self.sql, max_rows=max_rows)
        return Statement(sql, tuple(arguments[name] for name in self.parameter_names))

    def original_offset(self, emitted_offset: int) -> int:
        """Return where in the consumer's text the token stands that is at this 0-based offset of the statement.

        PostgreSQL's error positions are 1-based: subtract one. An offset before or behind the query gives its first
        or its last token.
        """
        token = bisect_right(self._starts, emitted_offset - _OFFSET_IN_STATEMENT) - 1
        return self._origins[max(token, 0)]
