"""Puts a translation through the checker of sandbox queries: nothing is trusted, and places are the consumer's."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from endpoints.errors import SandboxViolation
from endpoints.results.outcomes import BoundValue, Statement
from endpoints.sql.lexemes import line_and_column
from endpoints.sql.parameters import DeclaredParameter
from endpoints.sql.sandbox import CheckedQuery, SandboxLimits, SandboxTable, check_sandbox_query


# --- Translation ------------------------------------------------------------------------------------------------------
# The result of a translation: PostgreSQL's text, and the way back from a place in it to the consumer's text.
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


# --- Checking ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class CheckedTranslation:
    """A checked query that came from another dialect; used like a `CheckedQuery`."""

    query: CheckedQuery
    translation: Translation

    @property
    def sql(self) -> str:
        """Return the final SQL without the limit of rows."""
        return self.query.sql

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Return the parameter name of each placeholder, "" for the service's own values."""
        return self.query.parameter_names

    def statement(self, arguments: Mapping[str, BoundValue], *, max_rows: int) -> Statement:
        """Return the final SQL for at most ``max_rows + 1`` rows. Raises KeyError if an argument is missing."""
        return self.query.statement(arguments, max_rows=max_rows)

    def original_offset(self, emitted_offset: int) -> int:
        """Return the place in the consumer's text for this 0-based offset of the statement."""
        return self.translation.original_offset(self.query.original_offset(emitted_offset))


def check_translation(
    text: str,
    translation: Translation,
    *,
    tables: Sequence[SandboxTable],
    parameters: Sequence[DeclaredParameter],
    limits: SandboxLimits,
) -> CheckedTranslation:
    """Return the checked query for the translation of a consumer's `text`.

    Raises SandboxViolation with its line and column in that text, and RequestTooLarge.
    """
    try:
        query = check_sandbox_query(translation.sql, tables=tables, parameters=parameters, limits=limits)
    except SandboxViolation as violation:
        raise _in_text(violation, text, translation) from violation
    return CheckedTranslation(query, translation)


def _in_text(violation: SandboxViolation, text: str, translation: Translation) -> SandboxViolation:
    """Return the violation with its place in the consumer's text instead of the one in PostgreSQL's."""
    detail = dict(violation.details[0]) if violation.details else {}
    line, column = detail.get("line"), detail.get("column")
    if not isinstance(line, int) or not isinstance(column, int):
        return violation
    offset = min(translation.original_offset(_offset(translation.sql, line, column)), len(text))
    detail["line"], detail["column"] = own_line, own_column = line_and_column(text, offset)
    message = violation.message.replace(f"Line {line}, column {column}: ", f"Line {own_line}, column {own_column}: ", 1)
    return SandboxViolation(message, details=[detail])


def _offset(sql: str, line: int, column: int) -> int:
    start = 0
    for _ in range(line - 1):
        # Line ends are counted as in line_and_column: \r\n is one.
        ends = [end for end in (sql.find("\n", start), sql.find("\r", start)) if end >= 0]
        end = min(ends, default=len(sql))
        start = end + (2 if sql.startswith("\r\n", end) else 1)
    return start + column - 1
