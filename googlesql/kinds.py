"""The kinds of value that a translation distinguishes, and their PostgreSQL types."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Kind(Enum):
    """The kind of an expression; the value is the PostgreSQL type for it."""

    JSON = "jsonb"  # fields of records, whole records, arrays
    TEXT = "text"
    INTEGER = "bigint"
    NUMBER = "numeric"
    FLOAT = "double precision"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamptz"
    DATETIME = "timestamp"
    DATE = "date"
    TIME = "time"
    INTERVAL = "interval"
    UUID = "uuid"
    NULL = "null"  # the literal
    OTHER = "other"  # known only to PostgreSQL; nothing is coerced


@dataclass(frozen=True, slots=True)
class Struct:
    """The shape of a struct: its fields in order, each with its own shape."""

    fields: tuple[tuple[str, Shape | None], ...]


@dataclass(frozen=True, slots=True)
class Array:
    """The shape of an array."""

    element: Shape | None


Shape = Kind | Struct | Array  # a kind only for moments, which jsonb keeps as text


NUMERIC_KINDS: Final = frozenset({Kind.INTEGER, Kind.NUMBER, Kind.FLOAT})
MOMENT_KINDS: Final = frozenset({Kind.TIMESTAMP, Kind.DATETIME, Kind.DATE})

_MOMENTS: Final = MOMENT_KINDS | {Kind.TIME}


def moment_of(kind: Kind) -> Kind | None:
    """Return the shape of a value of this kind inside jsonb: the kind of a moment, None for any other."""
    return kind if kind in _MOMENTS else None


_BY_TYPE: Final = {
    "jsonb": Kind.JSON,
    "json": Kind.JSON,
    "text": Kind.TEXT,
    "character varying": Kind.TEXT,
    "character": Kind.TEXT,
    "smallint": Kind.INTEGER,
    "integer": Kind.INTEGER,
    "bigint": Kind.INTEGER,
    "numeric": Kind.NUMBER,
    "real": Kind.FLOAT,
    "double precision": Kind.FLOAT,
    "boolean": Kind.BOOLEAN,
    "timestamp with time zone": Kind.TIMESTAMP,
    "timestamptz": Kind.TIMESTAMP,
    "timestamp without time zone": Kind.DATETIME,
    "timestamp": Kind.DATETIME,
    "date": Kind.DATE,
    "time without time zone": Kind.TIME,
    "interval": Kind.INTERVAL,
    "uuid": Kind.UUID,
}


def kind_of_type(type_: str) -> Kind:
    """Return the kind of a column of this PostgreSQL type; modifiers such as ``(20)`` do not matter."""
    head, bracket, rest = type_.partition("(")
    _, _, tail = rest.partition(")")
    return _BY_TYPE.get(f"{head.strip()}{tail}" if bracket else type_, Kind.OTHER)
