"""The content of an LQL query as frozen values: `parser` makes them, `printing` writes them, `lowering` makes SQL.

Rules keep the written text and no meaning that depends on a table or a clock: a value is its text, a path is as
`path_of` writes it, a shorthand such as ``last@7days`` is not yet an interval. `position` is the offset in the query's
text, for messages; it does not count in comparisons, so rules with the same content are equal wherever they stood.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import Final

from endpoints.lql.refusals import quoted

MESSAGE: Final = "event_message"  # the column in which bare words and phrases are searched
TIMESTAMP: Final = "timestamp"
METADATA: Final = "metadata"
LEVEL_PATH: Final = "metadata.level"
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_BARE: Final = re.compile(r"[A-Za-z0-9_]+")
STRING: Final = r'"([^"\\]*+(?>(?:\\[\s\S][^"\\]*+)*))"'  # text in quotes, as a regular expression
_PART: Final = re.compile(rf'{STRING}|[^."]++')
_ESCAPED: Final = re.compile(r'\\(["\\])')


def path_of(keys: Sequence[str]) -> str:
    """Return the path that names these keys, which are not empty, as rules have it: other characters are in quotes.

    ``["metadata", "x-real-ip"]``  ->  ``metadata."x-real-ip"``
    """
    return ".".join(key if _BARE.fullmatch(key) else quoted(key) for key in keys)


def keys_of(path: str) -> tuple[str, ...]:
    """Return the keys that a path names."""
    return tuple(part[0] if part[1] is None else unescaped(part[1]) for part in _PART.finditer(path))


def unescaped(text: str) -> str:
    """Return the text between quotes as it is meant."""
    return _ESCAPED.sub(r"\1", text)


def _position() -> int:
    return field(default=0, compare=False, repr=False)


class Operator(StrEnum):
    """How a filter compares."""

    EQUAL = "="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    REGEXP = "~"
    LIST_INCLUDES = "list_includes"
    LIST_INCLUDES_REGEXP = "list_includes_regexp"
    STRING_CONTAINS = "string_contains"


ORDER_OPERATORS: Final = frozenset((Operator.GREATER, Operator.GREATER_OR_EQUAL, Operator.LESS, Operator.LESS_OR_EQUAL))


class Origin(StrEnum):
    """Whether a moment was written with a time zone (also Unix time and shorthands) or without one (then it is UTC)."""

    ABSOLUTE = "absolute"
    LOCAL = "local"


class Aggregate(StrEnum):
    """The function that a chart computes per bucket."""

    COUNT = "count"
    COUNT_DISTINCT = "countd"
    AVERAGE = "avg"
    SUM = "sum"
    MAXIMUM = "max"
    P50 = "p50"
    P95 = "p95"
    P99 = "p99"


class ChartColumn(StrEnum):
    """What the column with a chart's values is called: after its aggregate, or `count` whatever it computes."""

    AGGREGATE = "aggregate"
    COUNT = "count"

    def name_for(self, aggregate: Aggregate) -> str:
        """Return the name of the column."""
        return (Aggregate.COUNT if self is ChartColumn.COUNT else aggregate).value


class Period(StrEnum):
    """The width of a chart's bucket."""

    SECOND = "second"
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"


class ShorthandKind(StrEnum):
    """The words of relative times."""

    TODAY = "today"
    YESTERDAY = "yesterday"
    THIS = "this"
    LAST = "last"


class Unit(StrEnum):
    """The units of relative times; weeks begin on Monday."""

    SECOND = "second"
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"


@dataclass(frozen=True, slots=True)
class Value:
    """A value as written, unescaped; if `quoted`, NULL, true and numbers are text."""

    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Now:
    """``t:now``: the clock reading of the query, cut to the second."""


# A day, a moment in UTC without a zone, or the clock reading.
Moment = date | datetime | Now


@dataclass(frozen=True, slots=True)
class Shorthand:
    """A relative interval; only ``last@`` has `count`, only ``last@`` and ``this@`` have `unit`."""

    kind: ShorthandKind
    unit: Unit | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True)
class FromRule:
    """``f:table``."""

    table: str
    position: int = _position()


@dataclass(frozen=True, slots=True)
class ChartRule:
    """``c:avg(m.latency) c:group_by(t::minute)``; path `timestamp` also stands for ``*``."""

    aggregate: Aggregate = Aggregate.COUNT
    path: str = TIMESTAMP
    period: Period = Period.MINUTE
    position: int = _position()


@dataclass(frozen=True, slots=True)
class SelectRule:
    """``s:path@alias``; path ``*`` is every column."""

    path: str
    alias: str | None = None
    position: int = _position()

    @property
    def is_wildcard(self) -> bool:
        return self.path == "*"


@dataclass(frozen=True, slots=True)
class FilterRule:
    """``path:op value``, a word or a phrase; a `value` of None is NULL, and only EQUAL takes it."""

    path: str
    operator: Operator
    value: Value | None
    negated: bool = False
    position: int = _position()


@dataclass(frozen=True, slots=True)
class RangeRule:
    """``path:a..b``, both ends included; the ends are numbers or dates, as written."""

    path: str
    lower: Value
    upper: Value
    negated: bool = False
    position: int = _position()


@dataclass(frozen=True, slots=True)
class LevelRangeRule:
    """``m.level:warning..emergency``: the level is one of those between, in either order of the ends."""

    first: str
    last: str
    negated: bool = False
    position: int = _position()

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels from `first` to `last`."""
        first, last = LEVELS.index(self.first), LEVELS.index(self.last)
        step = 1 if first <= last else -1
        return tuple(LEVELS[index] for index in range(first, last + step, step))


@dataclass(frozen=True, slots=True)
class TimeRule:
    """``t:>=2026-03-17``, ``t:now``: the timestamp compared by EQUAL or an order operator with one moment or day."""

    operator: Operator
    moment: Moment
    negated: bool = False
    origin: Origin | None = field(default=None, compare=False)
    position: int = _position()


@dataclass(frozen=True, slots=True)
class TimeRangeRule:
    """``t:A..B`` and the forms with braces: two days or two moments, both included."""

    lower: date | datetime
    upper: date | datetime
    negated: bool = False
    origin: Origin | None = field(default=None, compare=False)
    position: int = _position()


@dataclass(frozen=True, slots=True)
class TimeShorthandRule:
    """``t:today``, ``t:this@week``, ``t:last@7days``."""

    shorthand: Shorthand
    negated: bool = False
    position: int = _position()


Filter = FilterRule | RangeRule | LevelRangeRule | TimeRule | TimeRangeRule | TimeShorthandRule


@dataclass(frozen=True, slots=True)
class Rules:
    """A whole query. `text` is its source, for messages."""

    table: FromRule | None = None
    chart: ChartRule | None = None
    selects: tuple[SelectRule, ...] = ()
    filters: tuple[Filter, ...] = ()
    text: str = field(default="", compare=False, repr=False)

    def __iter__(self) -> Iterator[FromRule | ChartRule | SelectRule | Filter]:
        """Yield every rule: table, chart, selects, filters."""
        if self.table is not None:
            yield self.table
        if self.chart is not None:
            yield self.chart
        yield from self.selects
        yield from self.filters
