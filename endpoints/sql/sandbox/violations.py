"""How a refusal is told: one sentence, and the construct, the reason, the place and what is allowed as data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from endpoints.errors import SandboxViolation
from endpoints.sql.functions import MAX_SUGGESTIONS
from endpoints.sql.lexemes import line_and_column

MAX_CONSTRUCT_CHARACTERS: Final = 63  # as long as an identifier can be

# Constructs that are described, not quoted.
THE_QUERY: Final = "the query"
THE_END: Final = "the end of the query"
A_STRING: Final = "a string"
_DESCRIPTIONS: Final = frozenset({THE_QUERY, THE_END, A_STRING})


def violation(
    sql: str,
    offset: int,
    *,
    construct: str,
    reason: str,
    tables: Sequence[str],
    similar: Sequence[str] = (),
) -> SandboxViolation:
    """Return the refusal of `construct` at `offset` of the consumer's text; `reason` is its predicate."""
    line, column = line_and_column(sql, offset)
    shown = construct if len(construct) <= MAX_CONSTRUCT_CHARACTERS else construct[:MAX_CONSTRUCT_CHARACTERS] + "…"
    detail: dict[str, object] = {
        "construct": shown,
        "reason": reason,
        "line": line,
        "column": column,
        "tables": list(tables),
    }
    hint = ""
    if similar:
        detail["similar"] = list(similar)
        hint = f" Did you mean {' or '.join(f'`{name}`' for name in similar)}?"
    subject = shown if shown in _DESCRIPTIONS else f"`{shown}`"
    return SandboxViolation(f"Line {line}, column {column}: {subject} {reason}.{hint}", details=[detail])


def similar_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the names near to `name`, nearest first."""
    return get_close_matches(name, sorted(known), n=MAX_SUGGESTIONS)
