"""Rules → LQL text in its canonical form, with the same meaning: ``parse_lql(print_lql(rules)) == rules``.

The order is table, selections, filters, chart. Bare values stay bare and quoted values stay quoted, because the
difference has a meaning. Times are printed in UTC without a zone, time ranges with braces where the ends differ.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Final

from endpoints.lql.refusals import quoted
from endpoints.lql.rules import (
    MESSAGE,
    METADATA,
    TIMESTAMP,
    ChartRule,
    Filter,
    FilterRule,
    LevelRangeRule,
    Moment,
    Now,
    Operator,
    RangeRule,
    Rules,
    SelectRule,
    Shorthand,
    TimeRangeRule,
    TimeRule,
    Value,
)

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
