# ruff: noqa: DTZ001 - every datetime here is UTC without zone
"""What LQL means, in plain Python over plain rows: the other opinion that the lowering is held against.

Written from the language's rules, not from the lowering: no SQL, no jsonpath, no code of `endpoints.lql` but the rules.
A row is a mapping of column names to values, JSON numbers as Decimal. Datetimes are UTC without zone.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal, localcontext
from operator import eq, ge, gt, le, lt
from typing import Any

from endpoints.lql.rules import (
    Aggregate,
    ChartRule,
    Filter,
    FilterRule,
    LevelRangeRule,
    Now,
    Operator,
    Period,
    RangeRule,
    Rules,
    SelectRule,
    Shorthand,
    ShorthandKind,
    TimeRangeRule,
    TimeRule,
    Unit,
    Value,
    keys_of,
)

Row = Mapping[str, Any]
COMPARE = {
    Operator.EQUAL: eq,
    Operator.LIST_INCLUDES: eq,
    Operator.GREATER: gt,
    Operator.GREATER_OR_EQUAL: ge,
    Operator.LESS: lt,
    Operator.LESS_OR_EQUAL: le,
}
REGEXPS = (Operator.REGEXP, Operator.LIST_INCLUDES_REGEXP)


class Evaluation:
    """One table's rows; `types` are the columns' types in PostgreSQL, `now` the clock reading in UTC without zone."""

    def __init__(self, types: Mapping[str, str], now: datetime) -> None:
        self.types = types
        self.now = now

    # ── filters

    def keeps(self, rules: Rules, row: Row) -> bool:
        return all(self._holds(rule, row) != rule.negated for rule in rules.filters)

    def _holds(self, rule: Filter, row: Row) -> bool:
        if isinstance(rule, FilterRule | RangeRule | LevelRangeRule):
            column, inside = self._place("metadata.level" if isinstance(rule, LevelRangeRule) else rule.path)
            if self.types[column] == "jsonb":
                found = opened(values_at(row[column], inside))
                return self._holds_in_json(rule, found)
            return self._holds_in_column(rule, row[column], self.types[column])
        moment = row["timestamp"]
        return moment is not None and self._holds_in_time(rule, moment)

    def _place(self, path: str) -> tuple[str, list[str]]:
        first, *rest = keys_of(path)
        return (first, rest) if first in self.types else ("metadata", [first, *rest])

    def _holds_in_json(self, rule: Filter, found: Sequence[Any]) -> bool:
        if isinstance(rule, LevelRangeRule):
            return any(value in rule.levels for value in found if isinstance(value, str))
        if isinstance(rule, RangeRule):
            ends = ((Operator.GREATER_OR_EQUAL, rule.lower), (Operator.LESS_OR_EQUAL, rule.upper))
            return any(all(json_compares(value, *end) for end in ends) for value in found)
        assert isinstance(rule, FilterRule)
        if rule.value is None:
            return all(value is None for value in found)
        if rule.operator in REGEXPS:
            texts = [json_text(value) for value in found if isinstance(value, str | bool | Decimal)]
            return any(re.search(rule.value.text, text) for text in texts)
        if rule.operator in (Operator.EQUAL, Operator.LIST_INCLUDES):
            return any(json_equals(value, rule.value.text) for value in found)
        return any(json_compares(value, rule.operator, rule.value) for value in found)

    def _holds_in_column(self, rule: Filter, stored: Any, type_: str) -> bool:
        if isinstance(rule, FilterRule) and rule.value is None:
            return stored is None
        elements = [element for element in (stored if isinstance(stored, list) else [stored]) if element is not None]
        type_ = type_.removesuffix("[]")
        if isinstance(rule, RangeRule):
            ends = ((Operator.GREATER_OR_EQUAL, rule.lower.text), (Operator.LESS_OR_EQUAL, rule.upper.text))
            return any(all(column_compares(value, *end, type_) for end in ends) for value in elements)
        assert isinstance(rule, FilterRule)
        assert rule.value is not None
        if rule.operator in REGEXPS:
            return any(re.search(rule.value.text, column_text(value)) for value in elements)
        if rule.operator is Operator.STRING_CONTAINS:
            return any(rule.value.text in value for value in elements)
        return any(column_compares(value, rule.operator, rule.value.text, type_) for value in elements)

    def _holds_in_time(self, rule: Filter, moment: datetime) -> bool:
        cut = self.now.replace(microsecond=0)
        if isinstance(rule, TimeRule):
            return moment_compares(moment, rule.operator, cut if isinstance(rule.moment, Now) else rule.moment)
        if isinstance(rule, TimeRangeRule):
            return moment_compares(moment, Operator.GREATER_OR_EQUAL, rule.lower) and moment_compares(
                moment, Operator.LESS_OR_EQUAL, rule.upper
            )
        shorthand: Shorthand = rule.shorthand  # type: ignore[union-attr]
        if shorthand.kind is ShorthandKind.TODAY:
            return moment.date() == cut.date()
        if shorthand.kind is ShorthandKind.YESTERDAY:
            return moment.date() == cut.date() - timedelta(days=1)
        if moment > cut:
            return False
        if shorthand.kind is ShorthandKind.THIS:
            return unit_key(moment, shorthand.unit) == unit_key(cut, shorthand.unit)
        return moment >= last_begins(self.now, shorthand.unit, shorthand.count or 1)

    # ── columns and charts

    def selected(self, select: SelectRule, row: Row) -> Any:
        column, inside = self._place(select.path)
        if not inside:
            return row[column]
        found = values_at(row[column], inside)
        return None if not found else found[0] if len(found) == 1 else found

    def charted(self, chart: ChartRule, rows: Sequence[Row]) -> list[tuple[datetime, Any]]:
        buckets: dict[datetime, list[Row]] = {}
        for row in rows:
            buckets.setdefault(bucket(row["timestamp"], chart.period), []).append(row)
        return [(start, self._aggregated(chart, buckets[start])) for start in sorted(buckets)]

    def _aggregated(self, chart: ChartRule, rows: Sequence[Row]) -> Any:
        column, inside = self._place(chart.path)
        if chart.aggregate is Aggregate.COUNT and column == "timestamp":
            return len(rows)
        is_json = self.types[column] == "jsonb"
        found = [
            value for row in rows for value in (opened(values_at(row[column], inside)) if is_json else [row[column]])
        ]
        found = [value for value in found if value is not None]
        if chart.aggregate is Aggregate.COUNT:
            return len(found)
        if chart.aggregate is Aggregate.COUNT_DISTINCT:
            return len({canonical(value) for value in found})
        numbers = [number for value in found if (number := number_in(value) if is_json else value) is not None]
        return aggregated(chart.aggregate, numbers) if numbers else None


# ── inside JSON


def values_at(document: Any, inside: Sequence[str]) -> list[Any]:
    """Return the values at a path: some element at every level, what stands at the end as it is."""
    if document is MISSING:
        return []
    found = [document]
    for name in inside:
        found = [value[name] for value in opened(found) if isinstance(value, dict) and name in value]
    return found


class Missing:
    """SQL's NULL in a column of JSON, which is not JSON's null."""


MISSING = Missing()


def opened(values: Sequence[Any]) -> list[Any]:
    return [element for value in values for element in (value if isinstance(value, list) else [value])]


FORM = r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)(?: ?([Zz]|UTC|[+-]\d\d(?::?\d\d)?))?)?"


def moment_in(value: Any) -> date | datetime | None:
    """Return the day or moment that a text reads as, or that a number is in Unix time."""
    if isinstance(value, Decimal):
        per_second = next((n for n in (1, 1000, 10**6) if 10**9 * n <= value < 10**10 * n), None)
        return per_second and datetime(1970, 1, 1) + timedelta(microseconds=int(value * 10**6 / per_second))
    match = re.fullmatch(FORM, value, re.ASCII) if isinstance(value, str) else None
    if match is None:
        return None
    day, clock, zone = match[1], match[2], (match[3] or "Z").upper().replace("UTC", "Z")
    try:
        return written_moment(f"{day}T{clock}{zone}") if clock else date.fromisoformat(day)
    except ValueError:
        return None


def compares_as_moments(value: Any, operator: Operator, written: Value) -> bool | None:
    """Compare a value with the written one if they are moments and at least one of them is text, else None."""
    number = reads_as(written.text)
    is_time = not written.quoted and operator not in (Operator.EQUAL, Operator.LIST_INCLUDES)
    meant = moment_in(written.text if number is None else number if is_time else None)
    stored = None if isinstance(value, Decimal) and number is not None else moment_in(value)
    if meant is None or stored is None:
        return None
    stored = stored if isinstance(stored, datetime) else datetime.combine(stored, datetime.min.time())
    return moment_compares(stored, operator, meant)


def json_equals(value: Any, text: str) -> bool:
    as_moments = compares_as_moments(value, Operator.EQUAL, Value(text))
    if as_moments is not None:
        return as_moments or value == text
    if isinstance(value, str):
        return value == text
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    return isinstance(value, Decimal) and reads_as(text) == value


def json_compares(value: Any, operator: Operator, written: Value) -> bool:
    compare = COMPARE[operator]
    number = reads_as(written.text)
    as_moments = compares_as_moments(value, operator, written)
    if as_moments is not None:
        return as_moments
    if number is None and moment_in(written.text):
        has_form = isinstance(value, str) and re.fullmatch(FORM, value, re.ASCII) is not None
        return written.quoted and isinstance(value, str) and not has_form and compare(value, written.text)
    if isinstance(value, Decimal):
        return number is not None and compare(value, number)
    if not isinstance(value, str):
        return False
    if number is None or written.quoted:
        return compare(value, written.text)
    if not re.fullmatch(r"[-+]?[0-9]{1,40}(\.[0-9]{1,40})?", value):
        return False
    return compare(Decimal(f"{float(value):.15g}"), number)


def reads_as(text: str) -> Decimal | None:
    return Decimal(text) if re.fullmatch(r"[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?", text, re.ASCII) else None


def json_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return format(value, "f") if isinstance(value, Decimal) else value


def number_in(value: Any) -> Decimal | None:
    if isinstance(value, Decimal):
        return value
    is_number = isinstance(value, str) and re.fullmatch(r"[-+]?[0-9]{1,40}(\.[0-9]{1,40})?", value, re.ASCII)
    return Decimal(value) if is_number else None


def canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return frozenset((name, canonical(inner)) for name, inner in value.items())
    if isinstance(value, list):
        return tuple(canonical(inner) for inner in value)
    return (type(value).__name__, value)


# ── in columns


def column_compares(value: Any, operator: Operator, text: str, type_: str) -> bool:
    compare = COMPARE[operator]
    if type_ == "real":
        return compare(value, ctypes.c_float(float(text)).value)
    if type_ == "double precision":
        return compare(value, float(text))
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int | Decimal):
        return compare(Decimal(value), Decimal(text))
    if isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime.combine(value, datetime.min.time())
        return moment_compares(moment, operator, written_moment(text))
    return compare(column_text(value), text)


def column_text(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def written_moment(text: str) -> date | datetime:
    if text.isdigit():
        return datetime(1970, 1, 1) + timedelta(milliseconds=int(text.ljust(13, "0")[:13]))
    if len(text) == 10:
        return date.fromisoformat(text)
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=None) - (moment.utcoffset() or timedelta())


# ── in time


def moment_compares(moment: datetime, operator: Operator, other: date | datetime) -> bool:
    """A day is whole: nothing in it is before or after it."""
    return COMPARE[operator](moment, other) if isinstance(other, datetime) else COMPARE[operator](moment.date(), other)


def unit_key(moment: datetime, unit: Unit | None) -> tuple[int, ...]:
    if unit is Unit.WEEK:
        return tuple(moment.isocalendar())[:2]
    parts = [Unit.YEAR, Unit.MONTH, Unit.DAY, Unit.HOUR, Unit.MINUTE, Unit.SECOND]
    return tuple(moment.timetuple())[: parts.index(unit) + 1 if unit else 0]


def last_begins(now: datetime, unit: Unit | None, count: int) -> datetime:
    if unit in (Unit.MONTH, Unit.YEAR):
        months = now.year * 12 + now.month - 1 - count * (12 if unit is Unit.YEAR else 1)
        day = now.day
        while True:
            try:
                return datetime(months // 12, months % 12 + 1, day)
            except ValueError:
                day -= 1
    kept = {Unit.SECOND: 7, Unit.MINUTE: 5, Unit.HOUR: 4}.get(unit, 3) if unit else 3
    parts = (now.year, now.month, now.day, now.hour, now.minute, now.second, now.microsecond)[:kept]
    return datetime(*parts) - count * timedelta(**{f"{(unit or Unit.DAY).value}s": 1})


def bucket(moment: datetime, period: Period) -> datetime:
    kept = [Period.DAY, Period.HOUR, Period.MINUTE, Period.SECOND].index(period) + 3
    return datetime(*tuple(moment.timetuple())[:kept])


def aggregated(aggregate: Aggregate, numbers: Sequence[Any]) -> Any:
    if aggregate is Aggregate.SUM:
        with localcontext(prec=100):
            return sum(numbers)
    if aggregate is Aggregate.MAXIMUM:
        return max(numbers)
    if aggregate is Aggregate.AVERAGE:
        return sum(numbers) / len(numbers)
    ordered = sorted(map(float, numbers))
    place = {Aggregate.P50: 0.5, Aggregate.P95: 0.95, Aggregate.P99: 0.99}[aggregate] * (len(ordered) - 1)
    below = ordered[math.floor(place)]
    return below + (ordered[math.ceil(place)] - below) * (place - math.floor(place))
