"""The sandbox tables as a translation knows them: their columns and PostgreSQL's types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from endpoints.results.outcomes import Column

# Every row of every log table has these, so a sort by them needs no NULLS FIRST, which no index would serve.
NEVER_NULL: Final = frozenset({"id", "timestamp"})


@dataclass(frozen=True, slots=True)
class BigQueryColumn:
    """A column and its type in the form of PostgreSQL's format_type()."""

    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class BigQueryTable:
    """A table that a text may read."""

    name: str
    columns: tuple[BigQueryColumn, ...]


def log_table(name: str, columns: Sequence[Column]) -> BigQueryTable:
    """Return a published sandbox table in the form that the translation needs."""
    return BigQueryTable(
        name, tuple(BigQueryColumn(column.name, column.type, column.name not in NEVER_NULL) for column in columns)
    )
