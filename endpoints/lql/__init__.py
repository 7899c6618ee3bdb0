"""LQL, the query language of the `lql` parameter. Pure: no clock, no database, no Django.

===============  =============================================================================
grammar.lark     how text is cut into clauses
clauses          one clause → one rule
times            the values of time filters
parser           a whole text → Rules, or InvalidLQL
rules            the content of a query, as frozen values
printing         Rules → canonical text
fields           the types that a field of a table can have
casting          a value as written → a value of its field's type
schema           the meaning of a query's paths in a table, and whether its values fit there
intervals        times and shorthands → intervals between two moments, from one clock reading
lowering         Rules → one SELECT over one sandbox table, every value bound
counting         Rules → one SELECT that counts by value, or by time and severity
filters          the conditions of that SELECT, with jsonpaths and bindings
selects, charts  its columns
faults           errors in a part of a query, and how text is quoted
refusals         the form of a refusal
===============  =============================================================================
"""

from __future__ import annotations

from endpoints.lql.parser import parse_lql
from endpoints.lql.rules import (
    Aggregate,
    ChartColumn,
    ChartRule,
    Filter,
    FilterRule,
    FromRule,
    LevelRangeRule,
    Moment,
    Now,
    Operator,
    Origin,
    Period,
    RangeRule,
    Rules,
    SelectRule,
    Shorthand,
    ShorthandKind,
    TimeRangeRule,
    TimeRule,
    TimeShorthandRule,
    Unit,
    Value,
)
from endpoints.lql.writing import print_lql

__all__ = [
    "Aggregate",
    "ChartColumn",
    "ChartRule",
    "Filter",
    "FilterRule",
    "FromRule",
    "LevelRangeRule",
    "Moment",
    "Now",
    "Operator",
    "Origin",
    "Period",
    "RangeRule",
    "Rules",
    "SelectRule",
    "Shorthand",
    "ShorthandKind",
    "TimeRangeRule",
    "TimeRule",
    "TimeShorthandRule",
    "Unit",
    "Value",
    "parse_lql",
    "print_lql",
]
