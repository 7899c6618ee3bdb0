"""The frozen values that cross layers between a request and its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

# What is bound to one `$n`: canonical text (PostgreSQL casts it), a list of texts, or SQL NULL.
BoundValue = str | list[str] | None


@dataclass(frozen=True, slots=True)
class Statement:
    """One SELECT with numbered placeholders: `arguments[0]` is bound to `$1`, and so on."""

    sql: str
    arguments: tuple[BoundValue, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A result column: its name and its type as PostgreSQL's format_type() writes it."""

    name: str
    type: str


class ResultFormat(StrEnum):
    """The forms a result can be written in; the value is the media type."""

    JSON = "application/json"
    CSV = "text/csv"
    NDJSON = "application/x-ndjson"
    PARQUET = "application/vnd.apache.parquet"
    ARROW = "application/vnd.apache.arrow.stream"

    @property
    def short_name(self) -> str:
        """The value of the argument `format`, and the ending of a file's name."""
        return self.name.lower()


class SandboxDialect(StrEnum):
    """In which SQL consumers write their sandbox queries."""

    POSTGRESQL = "postgresql"
    BIGQUERY = "bigquery"


class TimestampForm(StrEnum):
    """How result columns of type timestamptz are written."""

    ISO = "iso"
    UNIX_MICROSECONDS = "unix_microseconds"


# A column's type: its oid in pg_type, and its modifier, such as precision and scale of a numeric; -1 if it has none.
ColumnType = tuple[int, int]
# No type of PostgreSQL: a jsonb that is a field of a record. What is no JSON has its value, not JSON text.
FIELD: Final[ColumnType] = (0, 0)


@dataclass(frozen=True, slots=True)
class Rows:
    """What a statement returned: at most `max_rows` rows, and whether PostgreSQL had more.

    `types` are those of the columns, `position` is that of the log before they were read, if it was awaited
    (endpoints.results.positions). Values of a row behind its last column are the service's own, and not part of the
    result; neither are types behind the last column's. `next_page` is None unless they are a page: then the token of
    the one behind it, "" for the last one.
    """

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    truncated: bool
    database_seconds: float
    types: Sequence[ColumnType] = ()
    position: int = 0
    next_page: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Which rows of a result in pages: so many after the row that the sealed token of the page before names.

    Without a token they are the first ones.
    """

    size: int
    token: str = ""


class OverBudget(Exception):
    """A result with more bytes than it may have; it was given up before it took much more memory than that."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """An encoded result, ready to be sent or cached.

    `notes` are sentences in ASCII about a text that probably does not mean what it says. `next_page` is the token of
    the page behind this one, "" if there is none. `at_own_limit` is whether the stored query's own LIMIT is reached:
    there may be more rows, which nobody has looked for. `zstd` is the body as a zstd frame, b"" where there is none:
    for what is not cached, is small, or would not become smaller.
    """

    body: bytes
    format: ResultFormat
    row_count: int
    truncated: bool
    database_seconds: float
    encoding_seconds: float
    notes: tuple[str, ...] = ()
    next_page: str = ""
    at_own_limit: bool = False
    zstd: bytes = b""
