"""Writes LQL: rules as text in its canonical form, and changes to the text of a query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Final

from endpoints.errors import InvalidLQL
from endpoints.lql.clauses import MAX_CLAUSES
from endpoints.lql.parser import MAX_SELECTS, UNSENDABLE, parse_lql
from endpoints.lql.refusals import quoted
from endpoints.lql.rules import (
    MESSAGE,
    METADATA,
    STRING,
    TIMESTAMP,
    Aggregate,
    ChartRule,
    Filter,
    FilterRule,
    LevelRangeRule,
    Moment,
    Now,
    Operator,
    Period,
    RangeRule,
    Rules,
    SelectRule,
    Shorthand,
    TimeRangeRule,
    TimeRule,
    Value,
    path_of,
)

# --- Printing ---------------------------------------------------------------------------------------------------------
# Rules → LQL text in its canonical form, with the same meaning: ``parse_lql(print_lql(rules)) == rules``.
#
# The order is table, selections, filters, chart. Bare values stay bare and quoted values stay quoted, because the
# difference has a meaning. Times are printed in UTC without a zone, time ranges with braces where the ends differ.
SIGNS: Final = {
    Operator.EQUAL: ":",
    Operator.GREATER: ":>",
    Operator.GREATER_OR_EQUAL: ":>=",
    Operator.LESS: ":<",
    Operator.LESS_OR_EQUAL: ":<=",
    Operator.REGEXP: ":~",
    Operator.LIST_INCLUDES: ":@>",
    Operator.LIST_INCLUDES_REGEXP: ":@>~",
}


def print_lql(rules: Rules) -> str:
    """Return the canonical text of the rules; for rules from `parse_lql` it reads back as equal rules."""
    clauses = [f"f:{rules.table.table}"] if rules.table else []
    clauses += [_select(rule) for rule in rules.selects]
    clauses += [("-" if rule.negated else "") + _filter(rule) for rule in rules.filters]
    if rules.chart:
        clauses.append(_chart(rules.chart))
    return " ".join(clauses)


def _path(path: str) -> str:
    if path == TIMESTAMP:
        return "t"
    return "m." + path.removeprefix(f"{METADATA}.") if path.startswith(f"{METADATA}.") else path


def _select(rule: SelectRule) -> str:
    return f"s:{_path(rule.path)}" + (f"@{rule.alias}" if rule.alias else "")


def _chart(rule: ChartRule) -> str:
    path = "*" if rule.path == TIMESTAMP else _path(rule.path)
    return f"c:{rule.aggregate.value}({path}) c:group_by(t::{rule.period.value})"


def _filter(rule: Filter) -> str:
    match rule:
        case FilterRule(path, Operator.STRING_CONTAINS, value):
            return _value(value)
        case FilterRule(path, Operator.REGEXP, value) if path == MESSAGE:
            return "~" + _value(value)
        case FilterRule(path, operator, value):
            return _path(path) + SIGNS[operator] + _value(value)
        case RangeRule(path, lower, upper):
            return f"{_path(path)}:{lower.text}..{upper.text}"
        case LevelRangeRule(first, last):
            return f"m.level:{first}..{last}"
        case TimeRule(operator, moment):
            return f"t{SIGNS[operator]}{_moment(moment)}"
        case TimeRangeRule(lower_end, upper_end):
            return f"t:{_interval(lower_end, upper_end)}"
        case _:
            return f"t:{_shorthand(rule.shorthand)}"


def _value(value: Value | None) -> str:
    if value is None:
        return "NULL"
    return quoted(value.text) if value.quoted else value.text


def _shorthand(shorthand: Shorthand) -> str:
    if shorthand.unit is None:
        return shorthand.kind.value
    return f"{shorthand.kind.value}@{shorthand.count or ''}{shorthand.unit.value}"


def _moment(moment: Moment) -> str:
    if isinstance(moment, Now):
        return "now"
    # date.isoformat writes the year with four digits; datetime's writes the fraction with six or none
    return moment.isoformat()


def _interval(lower: date | datetime, upper: date | datetime) -> str:
    """Return ``2019-{01..02}-01``; equal ends give ``A..A``, because with braces they would be one moment."""
    if lower == upper:
        return f"{_moment(lower)}..{_moment(upper)}"
    day = f"{_braces(lower.year, upper.year, 4)}-{_braces(lower.month, upper.month)}-{_braces(lower.day, upper.day)}"
    if not isinstance(lower, datetime) or not isinstance(upper, datetime):
        return day
    clock = (
        f"{_braces(lower.hour, upper.hour)}:{_braces(lower.minute, upper.minute)}:{_braces(lower.second, upper.second)}"
    )
    return f"{day}T{clock}{_fraction(lower.microsecond, upper.microsecond)}"


def _braces(lower: int, upper: int, width: int = 2) -> str:
    if lower == upper:
        return f"{lower:0{width}}"
    return f"{{{lower:0{width}}..{upper:0{width}}}}"


def _fraction(lower: int, upper: int) -> str:
    if lower == upper:
        return f".{lower:06}" if lower else ""
    digits = (f"{lower:06}", f"{upper:06}")
    width = max(len(side.rstrip("0")) for side in digits)  # zeros common to both ends are dropped
    return f".{{{digits[0][:width]}..{digits[1][:width]}}}"


# --- Editing ----------------------------------------------------------------------------------------------------------
_COLUMN: Final = re.compile(r"[A-Za-z0-9_]+")
MAX_KEYS: Final = 20

_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")  # JSON's, as far as the grammar reads it
_PLAIN_TEXT: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_NOT_TEXT: Final = frozenset(("NULL", "true", "false"))
# Quoted text is skipped as a whole: a word in it is not a clause.
_QUOTED: Final = STRING + r"|:\([^)]*+\)"
_CHART_CLAUSES: Final = re.compile(_QUOTED + rf"|(?<!\S)(?P<clause>(?:chart|c):[A-Za-z0-9_]+\((?:{STRING}|[^\s\"])*)")
_PERIOD_CLAUSES: Final = re.compile(_QUOTED + r"|(?<!\S)(?P<clause>(?:chart|c):group_by\(\S*)")


class NotFilterable(ValueError):
    """It is not possible to write an LQL filter for this path or value; the message says why."""


def rows_query(lql: str, *, needed: Sequence[str], wished: Sequence[str] = ()) -> str:
    """Return the query without its chart and with the `needed` columns among its columns. Raises InvalidLQL.

    The `wished` ones, such as `metadata.level@level`, are added where a query may have so many columns.
    """
    rules = parse_lql(lql)
    text = _without_chart(lql, rules)
    if not rules.selects:
        return f"{text} s:*"
    columns = [*needed, *wished]
    if len(rules.selects) + len(columns) > MAX_SELECTS or len(tuple(rules)) + len(columns) > MAX_CLAUSES:
        columns = list(needed)
    return " ".join([text, *(f"s:{column}" for column in columns)])


def chart_query(lql: str, *, period: Period) -> tuple[str, Aggregate]:
    """Return the query as a chart with buckets of this width, and the chart's aggregate: count if the query has none.

    Its selections are left out, because a chart has columns of its own. Raises InvalidLQL.
    """
    rules = parse_lql(lql)
    chart = replace(rules.chart or ChartRule(), period=period)
    period_clause = f"c:group_by(t::{period.value})"
    added = period_clause if rules.chart else f"c:count(*) {period_clause}"
    text = f"{_PERIOD_CLAUSES.sub(_blank, lql)} {added}"
    expected = replace(rules, chart=chart, selects=())
    return text if _says(text, expected) else print_lql(expected), chart.aggregate


def add_filter(lql: str, keys: Sequence[str], value: object, *, negated: bool = False) -> str:
    """Return the query with a filter for a value found under these keys of a row.

    Numbers are given as `WrittenNumber`. An existing filter is not added again; its opposite is removed.
    Raises NotFilterable, and InvalidLQL for a query that cannot be read.
    """
    rules = parse_lql(lql)
    added = FilterRule(_path_of_keys(keys), Operator.EQUAL, _value_of_json(value), negated=negated)
    if added in rules.filters:
        return lql
    opposite = replace(added, negated=not negated)
    if opposite in rules.filters:
        kept: tuple[Filter, ...] = tuple(rule for rule in rules.filters if rule != opposite)
        lql = print_lql(replace(rules, filters=kept))
    return " ".join(filter(None, [lql.strip(), print_lql(Rules(filters=(added,)))]))


def _path_of_keys(keys: Sequence[str]) -> str:
    if not 1 <= len(keys) <= MAX_KEYS or keys == [METADATA]:
        raise NotFilterable("There is no value here to filter by.")
    if not _COLUMN.fullmatch(keys[0]) or not all(keys) or UNSENDABLE.search("".join(keys)):
        raise NotFilterable(
            "LQL cannot name this field: a name is empty, or a column's has not only letters, digits and _."
        )
    return path_of(keys)


def _value_of_json(value: object) -> Value | None:
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
