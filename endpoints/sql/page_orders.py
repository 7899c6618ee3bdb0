"""The order of pages, as operators write it: `timestamp desc, id desc`, over the columns of the stored query's result.

NULLs stand where PostgreSQL puts them (manual, "Sorting Rows"): first in descending order, last in ascending order,
unless `nulls first` or `nulls last` says otherwise. Rows whose value is NULL are in no page if the column is declared
`not null`: an index in ascending order then finds a page at once, which has not to look for NULLs behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Final

from endpoints.results.outcomes import Column
from endpoints.sql.lexemes import Kind, Lexeme, LexicalError, lex

MAX_COLUMNS: Final = 4  # each makes the condition of a page longer
# Types whose values are the same after a way through their text, with one order for equal and different values.
_ORDERED_TYPES: Final = (
    "bigint", "boolean", "character varying", "date", "double precision", "integer", "numeric", "real", "smallint",
    "text", "time without time zone", "timestamp with time zone", "timestamp without time zone", "uuid",
)  # fmt: skip
_MODIFIER: Final = re.compile(r"\(\d+(?:,-?\d+)?\)")
_NULLS: Final[tuple[list[str], ...]] = ([], ["nulls", "first"], ["nulls", "last"], ["not", "null"])
_FORM: Final = "write column names with asc or desc, as in timestamp desc, id desc"
# The key of a log table is its id, project and timestamp.
_UNIQUE_IN_LOG_TABLES: Final = frozenset({"id", "timestamp"})


class PageOrderError(ValueError):
    """A text that is not an order of pages; the message says what is right."""


@dataclass(frozen=True, slots=True)
class PageKey:
    """One column of an order; `column` is its name as PostgreSQL stores it."""

    column: str
    descending: bool = False
    nulls_first: bool = False
    not_null: bool = False


@lru_cache(maxsize=512)
def parse_page_order(text: str) -> tuple[PageKey, ...]:
    """Return the columns of an order, the most significant first; a blank text has none. Raises PageOrderError."""
    try:
        words = [lexeme for lexeme in lex(text) if not lexeme.is_blank]
    except LexicalError as error:
        raise PageOrderError(f"The order cannot be read: {error.message}.") from error
    if not words:
        return ()
    groups = groupby(words, key=lambda word: word.text == ",")
    keys = tuple(_key(list(group)) for is_comma, group in groups if not is_comma)
    if sum(word.text == "," for word in words) != len(keys) - 1:
        raise PageOrderError(f"Between two columns stands one comma; {_FORM}.")
    if len(keys) > MAX_COLUMNS:
        raise PageOrderError(f"An order has at most {MAX_COLUMNS} columns.")
    for key in keys:
        if sum(other.column == key.column for other in keys) > 1:
            raise PageOrderError(f"The column {key.column} is named twice.")
    return keys


def _key(words: Sequence[Lexeme]) -> PageKey:
    # timestamp desc nulls last  ->  PageKey("timestamp", descending=True, nulls_first=False)
    rest = [word.text.lower() for word in words[1:]]
    descending = rest[:1] == ["desc"]
    if rest[:1] in (["asc"], ["desc"]):
        rest = rest[1:]
    if rest not in _NULLS:
        raise PageOrderError(f"“{' '.join(word.text for word in words)}” is not a column with its direction; {_FORM}.")
    nulls_first = rest == ["nulls", "first"] or (descending and rest != ["nulls", "last"])
    return PageKey(_column_name(words[0]), descending, nulls_first, not_null=rest == ["not", "null"])


def _column_name(word: Lexeme) -> str:
    if word.kind is Kind.QUOTED_IDENTIFIER:
        return word.text[1:-1].replace('""', '"')
    if word.kind is not Kind.WORD:
        raise PageOrderError(f"“{word.text}” is not the name of a column; {_FORM}.")
    # PostgreSQL folds ASCII letters alone.
    return "".join(character.lower() if character.isascii() else character for character in word.text)


def page_order_problems(keys: Sequence[PageKey], columns: Sequence[Column]) -> Iterator[str]:
    """Yield why rows with these columns cannot be put into this order."""
    for key in keys:
        types = [column.type for column in columns if column.name == key.column]
        if not types:
            known = ", ".join(dict.fromkeys(column.name for column in columns))
            yield f"The result has no column {key.column}; its columns are {known}."
        elif len(types) > 1:
            yield f"The result has {len(types)} columns called {key.column}; give each a name of its own."
        elif _MODIFIER.sub("", types[0]) not in _ORDERED_TYPES:
            yield (
                f"Pages cannot be ordered by {key.column}, which is {types[0]}; they can be by columns of type "
                f"{', '.join(_ORDERED_TYPES)}."
            )


def may_repeat(keys: Sequence[PageKey]) -> bool:
    """Tell whether two rows of a log table could have the same values in all columns of the order."""
    return not {key.column for key in keys} >= _UNIQUE_IN_LOG_TABLES
