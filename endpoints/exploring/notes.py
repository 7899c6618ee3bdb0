"""What an LQL query probably does not mean: notes beside its rows, about the text and about a sample of the rows.

The sample is taken like every query of the exploration, so it tells nobody of rows that they may not see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson
import structlog

from endpoints.calling.catalogue import likely_paths
from endpoints.defining.drafts import DraftFailed
from endpoints.errors import EndpointError
from endpoints.exploring.exploring import Exploration, check_range, run_exploration, search_starts
from endpoints.lql import (
    Aggregate,
    FilterRule,
    Operator,
    Period,
    Rules,
    SelectRule,
    Value,
    parse_lql,
    print_lql,
)
from endpoints.lql.filters import moment_bounds
from endpoints.lql.mistakes import filter_notes, word_notes
from endpoints.lql.refusals import quoted, shortened
from endpoints.lql.rules import MESSAGE, METADATA, ORDER_OPERATORS, TIMESTAMP, ChartRule, RangeRule, path_of

MAX_NOTES: Final = 6
SAMPLED_ROWS: Final = 200
SAMPLE_SECONDS: Final = 2
MAX_DEPTH: Final = 20
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_COLUMNS: Final = frozenset(("timestamp", "project", "id", MESSAGE))
_COUNTS: Final = frozenset((Aggregate.COUNT, Aggregate.COUNT_DISTINCT))

logger = structlog.get_logger(__name__)

# For each path, with dots, the kinds of its values: text, digits (a text that reads as a number), number, boolean,
# object.
Kinds = Mapping[str, frozenset[str]]


def explore_notes(exploration: Exploration, *, run_id: str) -> tuple[str, ...]:
    """Return a sentence for each part of the query that probably means something else, at most MAX_NOTES.

    Raises InvalidExploration and InvalidLQL; a sample that fails or takes too long tells nothing.
    """
    period = check_range(exploration)
    rules = parse_lql(exploration.lql)
    notes = list(text_notes(rules, period))
    if any(True for _ in _used_paths(rules)):
        rows = _sample(exploration, run_id)
        if rows:
            notes += field_notes(rules, kinds_of(rows), len(rows))
    return tuple(dict.fromkeys(notes))[:MAX_NOTES]


# --- The text ---------------------------------------------------------------------------------------------------------
def text_notes(rules: Rules, period: Period) -> Iterator[str]:
    """Yield what the text alone shows; `period` is that of the bars."""
    yield from word_notes(rules)
    yield from filter_notes(rules)
    chart = rules.chart
    if chart is None:
        return
    if "group_by(" in rules.text and chart.period is not period:
        yield (
            f"The bars are per {period.value}, as the time range asks: c:group_by(t::{chart.period.value}) counts only"
            " where the query is called or saved as an endpoint."
        )
    if chart.path == TIMESTAMP and chart.aggregate not in _COUNTS:
        yield f"c:{chart.aggregate.value}(timestamp) is a moment, which has no bar: name a field with numbers."


# --- The rows ---------------------------------------------------------------------------------------------------------
def field_notes(rules: Rules, kinds: Kinds, rows: int) -> Iterator[str]:
    """Yield what a sample of so many rows shows: fields that none has, and comparisons that never match."""
    sample = f"the newest {rows} rows of this range" if rows > 1 else "the only row of this range"
    absent = [path for path in dict.fromkeys(_used_paths(rules)) if path not in kinds]
    for path in absent:
        near = likely_paths(path, [one for one, found in kinds.items() if found != {"object"}])
        advice = f" Did you mean m.{near[0]}?" if near else ""
        yield f"m.{shortened(path)}: none of {sample} has this field.{advice}"
    for rule in rules.filters:
        path = _inside(getattr(rule, "path", ""))
        found = kinds.get(path, frozenset())
        if isinstance(rule, FilterRule | RangeRule) and found:
            yield from _about_comparison(rule, path, found)
    chart = rules.chart
    if chart is not None and chart.aggregate not in _COUNTS:
        found = kinds.get(_inside(chart.path), frozenset())
        if found and found.isdisjoint(("number", "digits")):
            yield f"c:{chart.aggregate.value}(m.{_inside(chart.path)}): none of {sample} has a number there."


def _about_comparison(rule: FilterRule | RangeRule, path: str, found: frozenset[str]) -> Iterator[str]:
    if found == {"object"}:
        if not isinstance(rule, FilterRule) or rule.value is not None:
            yield f"m.{path} has fields of its own: name one of them, because an object never equals a value."
        return
    if moment_bounds(rule) is not None:
        return  # text and numbers can both be moments
    if isinstance(rule, RangeRule):
        is_number = _NUMBER.fullmatch(rule.lower.text) is not None
    elif rule.value is None or rule.operator not in (Operator.EQUAL, *ORDER_OPERATORS):
        return
    elif rule.value.quoted:
        if rule.operator in ORDER_OPERATORS and found == {"number"} and _NUMBER.fullmatch(rule.value.text):
            better = replace(rule, value=Value(rule.value.text), negated=False)
            yield (
                f"m.{path} is a number, and in quotes {quoted(rule.value.text)} is a text, which is never"
                f" more or less than a number. Write {print_lql(Rules(filters=(better,)))}."
            )
        return
    else:
        is_number = _NUMBER.fullmatch(rule.value.text) is not None
    written = print_lql(Rules(filters=(replace(rule, negated=False),)))
    if is_number and found <= {"text", "object"}:
        yield f"{written}: m.{path} is a text that is no number in the sampled rows, so this never matches."
    if not is_number and found == {"number"}:
        yield f"{written}: m.{path} is a number in the sampled rows, so it never equals a text."


def _used_paths(rules: Rules) -> Iterator[str]:
    """Yield the paths inside metadata that the rules name, without `metadata`."""
    for rule in rules:
        if isinstance(rule, FilterRule | RangeRule | SelectRule | ChartRule):
            path = _inside(rule.path)
            if path:
                yield path


def _inside(path: str) -> str:
    """Return a path's part inside metadata, "" for a column."""
    if path in ("", "*", METADATA) or path.partition(".")[0] in _COLUMNS:
        return ""
    return path.removeprefix(f"{METADATA}.")


def kinds_of(rows: Sequence[Mapping[str, Any]]) -> Kinds:
    """Return the kinds of the values at each path inside the metadata of these rows."""
    kinds: dict[str, set[str]] = {}

    def walk(value: Any, path: str, depth: int) -> None:
        if isinstance(value, list):
            for element in value:
                walk(element, path, depth)
        elif isinstance(value, dict) and depth < MAX_DEPTH:
            if path:
                kinds.setdefault(path, set()).add("object")
            for key, part in value.items():
                name = path_of([key])
                walk(part, f"{path}.{name}" if path else name, depth + 1)
        elif path:
            kinds.setdefault(path, set()).update(_kind(value))

    for row in rows:
        walk(row.get(METADATA), "", 0)
    return {path: frozenset(found) for path, found in kinds.items()}


def _kind(value: object) -> tuple[str, ...]:
    match value:
        case None:
            return ()
        case bool():
            return ("boolean",)
        case str():
            return ("digits" if _NUMBER.fullmatch(value) else "text",)
        case _:
            return ("number",)


def _sample(exploration: Exploration, run_id: str) -> list[dict[str, Any]]:
    """Return the newest rows of the range, whatever the query looks for; none if that takes too long."""
    rows: list[dict[str, Any]] = []
    try:
        for start in search_starts(exploration):
            part = replace(exploration, start=start)
            run = run_exploration(part, "s:metadata", max_rows=SAMPLED_ROWS, run_id=run_id, seconds=SAMPLE_SECONDS)
            rows = orjson.loads(run.body)["result"]
            if run.truncated:
                break
    except (EndpointError, DraftFailed) as error:
        logger.info("exploration_not_sampled", reason=type(error).__name__)
    return rows
