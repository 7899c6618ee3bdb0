"""Changes to the text of a query: a chart removed or added, columns added, a filter for one value.

The rest of the text keeps its place, so that the places in a refusal stay right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from endpoints.errors import InvalidLQL
from endpoints.lql.parser import parse_lql
from endpoints.lql.printing import print_lql
from endpoints.lql.rules import METADATA, Aggregate, ChartRule, Filter, FilterRule, Operator, Period, Rules, Value

FILTERABLE_KEY: Final = re.compile(r"[A-Za-z0-9_]+")  # a segment of a path in the grammar
MAX_KEYS: Final = 20

_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")  # JSON's, as far as the grammar reads it
_PLAIN_TEXT: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_NOT_TEXT: Final = frozenset(("NULL", "true", "false"))
# Quoted text is skipped as a whole: a word in it is not a clause.
_QUOTED: Final = r'"[^"\\]*+(?:\\[\s\S][^"\\]*+)*+"|:\([^)]*+\)'
_CHART_CLAUSES: Final = re.compile(_QUOTED + r"|(?<!\S)(?P<clause>(?:chart|c):[A-Za-z0-9_]+\(\S*)")
_PERIOD_CLAUSES: Final = re.compile(_QUOTED + r"|(?<!\S)(?P<clause>(?:chart|c):group_by\(\S*)")


class NotFilterable(ValueError):
    """It is not possible to write an LQL filter for this path or value; the message says why."""


def rows_query(lql: str, *, needed: Sequence[str]) -> str:
    """Return the query without its chart and with the `needed` columns among its columns. Raises InvalidLQL."""
    rules = parse_lql(lql)
    text = _without_chart(lql, rules)
    if not rules.selects:
        return f"{text} s:*"
    return " ".join([text, *(f"s:{column}" for column in needed)])


def chart_query(lql: str, *, period: Period) -> tuple[str, Aggregate]:
    """Return the query as a chart with buckets of this width, and the chart's aggregate: count if the query has none.

    Raises InvalidLQL.
    """
    rules = parse_lql(lql)
    chart = replace(rules.chart or ChartRule(), period=period)
    period_clause = f"c:group_by(t::{period.value})"
    added = period_clause if rules.chart else f"c:count(*) {period_clause}"
    text = f"{_PERIOD_CLAUSES.sub(_blank, lql)} {added}"
    expected = replace(rules, chart=chart)
    return text if _says(text, expected) else print_lql(expected), chart.aggregate


def add_filter(lql: str, keys: Sequence[str], value: object, *, negated: bool = False) -> str:
    """Return the query with a filter for a value found under these keys of a row.

    Numbers are given as `WrittenNumber`. An existing filter is not added again; its opposite is removed.
    Raises NotFilterable, and InvalidLQL for a query that cannot be read.
    """
    rules = parse_lql(lql)
    added = FilterRule(_path(keys), Operator.EQUAL, _value(value), negated=negated)
    if added in rules.filters:
        return lql
    opposite = replace(added, negated=not negated)
    if opposite in rules.filters:
        kept: tuple[Filter, ...] = tuple(rule for rule in rules.filters if rule != opposite)
        lql = print_lql(replace(rules, filters=kept))
    return " ".join(filter(None, [lql.strip(), print_lql(Rules(filters=(added,)))]))


def _path(keys: Sequence[str]) -> str:
    if not 1 <= len(keys) <= MAX_KEYS or keys == [METADATA]:
        raise NotFilterable("There is no value here to filter by.")
    for key in keys:
        if not FILTERABLE_KEY.fullmatch(key):
            raise NotFilterable(f"LQL cannot name the field {key}: its names have letters, digits and _.")
    return ".".join(keys)


def _value(value: object) -> Value | None:
    match value:
        case None:
            return None
        case bool():
            return Value("true" if value else "false")
        case str():
            plain = _PLAIN_TEXT.fullmatch(value) is not None and value not in _NOT_TEXT
            return Value(value, quoted=not plain)
        case WrittenNumber():
            return Value(value.text)
        case _:
            raise NotFilterable("Only a text, a number, true, false or null can be filtered by.")


class WrittenNumber:
    """A number as JSON wrote it, with every digit. Raises NotFilterable for any other text."""

    def __init__(self, text: str) -> None:
        if not _NUMBER.fullmatch(text):
            raise NotFilterable("This is not a number that LQL can compare with.")
        self.text = text


def _without_chart(lql: str, rules: Rules) -> str:
    """Return the text with blanks in place of its chart."""
    if rules.chart is None:
        return lql
    blanked = _CHART_CLAUSES.sub(_blank, lql)
    expected = replace(rules, chart=None)
    # If blanks would change the other clauses, use the canonical form: same meaning, other places.
    return blanked if _says(blanked, expected) else print_lql(expected)


def _blank(found: re.Match[str]) -> str:
    return " " * len(found["clause"]) if found["clause"] else found[0]


def _says(lql: str, rules: Rules) -> bool:
    try:
        return parse_lql(lql) == rules
    except InvalidLQL:
        return False
