"""LQL, the query language of the `lql` parameter. Pure: no clock, no database, no Django.

=============  =======================================================================================
grammar.lark   how text is cut into clauses
clauses        one clause → one rule
times          the values of time filters
parser         a whole text → Rules, or InvalidLQL
rules          what a query says, as frozen values
printing       Rules → canonical text
schema         whether the rules fit the types of a table
casting        a value's text → a value of a type
lowering       Rules → one SELECT over one sandbox table
faults         what is wrong with a part, and how it is quoted
refusals       how a refusal is told
=============  =======================================================================================
"""

from __future__ import annotations

from endpoints.lql.parser import parse_lql
from endpoints.lql.printing import print_lql
from endpoints.lql.rules import (
    Aggregate,
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

__all__ = [
    "Aggregate",
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
