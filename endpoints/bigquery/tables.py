"""What a translation has to know of the sandbox tables: their columns and PostgreSQL's types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from endpoints.outcomes import Column

# Every log table fills these for every row; a sort by one of them needs no NULLS FIRST, which no index would serve.
NEVER_NULL: Final = frozenset({"id", "timestamp"})


@dataclass(frozen=True, slots=True)
class BigQueryColumn:
    """A column and its type as PostgreSQL's format_type() writes it."""

    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class BigQueryTable:
    """A table that a text may read."""

    name: str
    columns: tuple[BigQueryColumn, ...]


def log_table(name: str, columns: Sequence[Column]) -> BigQueryTable:
    """Return a published sandbox table as the translation wants it."""
    return BigQueryTable(
        name, tuple(BigQueryColumn(column.name, column.type, column.name not in NEVER_NULL) for column in columns)
    )
