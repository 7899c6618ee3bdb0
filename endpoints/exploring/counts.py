"""Counts of an exploration's rows: the most frequent values of a field, and severities over time.

Each is one query over a limited number of rows, under the exploration's role, project and redaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from endpoints.defining.drafts import DraftRun
from endpoints.errors import InvalidLQL
from endpoints.exploring.exploring import (
    MAX_BARS,
    MAX_DAYS,
    Digits,
    Exploration,
    InvalidExploration,
    check_range,
    fill_bars,
    read_exactly,
    run_exploration,
    search_starts,
)
from endpoints.lql import SelectRule, parse_lql
from endpoints.lql.counting import LEVELS_BY_SEVERITY, OTHER, Severities, TopValues
from endpoints.lql.rules import Aggregate, Period
from endpoints.lql.writing import rows_query

COUNTED_ROWS: Final = 50_000  # newest rows whose values are counted
MOST_VALUES: Final = 20
COUNTING_SECONDS: Final = 10
MAX_SEVERITY_ROWS: Final = 200_000  # every row's metadata is read: some three seconds
MAX_PATH_CHARACTERS: Final = 500
SEVERITIES: Final = (*LEVELS_BY_SEVERITY, OTHER)


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A value as a filter takes it: `kind` is text, number, boolean or null; a number has every digit."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class FieldCounts:
    """The most frequent values of a field with their numbers of rows, the most frequent first.

    `counted` is the number of all values and `different` that of different ones; with `is_part` they are those of the
    newest COUNTED_ROWS rows only.
    """

    values: tuple[tuple[FieldValue, int], ...]
    counted: int
    different: int
    is_part: bool
    run: DraftRun


@dataclass(frozen=True, slots=True)
class SeverityBars:
    """For each severity the number of rows of each bar of the range's histogram; None if there are too many rows."""

    period: Period
    counts: Mapping[str, Sequence[int]] | None
    run: DraftRun


def explore_top_values(exploration: Exploration, path: str, *, run_id: str) -> FieldCounts:
    """Count the values of a field, such as ``metadata.level``, among the newest rows that match.

    Values are redacted as those of rows are, and equal ones are then one. Raises as `explore_rows` does.
    """
    counting = TopValues(_read_path(path), rows=COUNTED_ROWS, most=MOST_VALUES)
    check_range(exploration)
    lql = rows_query(exploration.lql, needed=())
    for start in search_starts(exploration):
        run = run_exploration(
            replace(exploration, start=start),
            lql,
            max_rows=MOST_VALUES,
            run_id=run_id,
            counting=counting,
            seconds=COUNTING_SECONDS,
        )
        found = read_exactly(run)
        if found and int(found[0]["counted"]) >= COUNTED_ROWS:
            break
    counts: Counter[FieldValue] = Counter()
    for one in found:
        counts[_field_value(one["value"])] += int(one["rows"])
    counted = int(found[0]["counted"]) if found else 0
    different = int(found[0]["different"]) if found else 0
    return FieldCounts(tuple(counts.most_common()), counted, different, counted >= COUNTED_ROWS, run)


def _read_path(written: str) -> str:
    try:
        (rule,) = parse_lql(f"s:{written}")
    except (InvalidLQL, ValueError):
        rule = None
    if len(written) > MAX_PATH_CHARACTERS or not isinstance(rule, SelectRule) or rule.alias or rule.is_wildcard:
        form = 'a name with more than letters, digits and _ is in double quotes, such as m."x-real-ip"'
        raise InvalidExploration("path", f"LQL cannot name this field: {form}.")
    return rule.path


def _field_value(value: object) -> FieldValue:
    match value:
        case None:
            return FieldValue("null", "NULL")
        case bool():
            return FieldValue("boolean", "true" if value else "false")
        case Digits():
            return FieldValue("number", str(value))
        case _:
            return FieldValue("text", str(value))


def explore_severities(exploration: Exploration, *, run_id: str) -> SeverityBars:
    """Count the rows of each severity in each bar of the histogram, if they are few enough. Raises as explore_rows."""
    period = check_range(exploration)
    counting = Severities(period, rows=MAX_SEVERITY_ROWS + 1)
    most = max(MAX_BARS, MAX_DAYS) + 2
    run = run_exploration(
        exploration,
        rows_query(exploration.lql, needed=()),
        max_rows=most * len(SEVERITIES),
        run_id=run_id,
        counting=counting,
        seconds=COUNTING_SECONDS,
    )
    values: dict[str, dict[datetime, str]] = {severity: {} for severity in SEVERITIES}
    for one in read_exactly(run):
        values[one["severity"]][datetime.fromisoformat(one["timestamp"]).astimezone(UTC)] = one["count"]
    if sum(int(count) for of_severity in values.values() for count in of_severity.values()) > MAX_SEVERITY_ROWS:
        return SeverityBars(period, None, run)
    counts = {severity: _bars(exploration, period, values[severity]) for severity in SEVERITIES}
    return SeverityBars(period, counts, run)


def _bars(exploration: Exploration, period: Period, values: Mapping[datetime, str]) -> list[int]:
    histogram = fill_bars(
        values, start=exploration.start, end=exploration.end, period=period, aggregate=Aggregate.COUNT
    )
    return [int(bar.value or 0) for bar in histogram.bars]
