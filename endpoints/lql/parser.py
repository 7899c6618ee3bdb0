"""LQL text → rules. The grammar, `grammar.lark`, cuts the text; `clauses` turns the parts into rules."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from lark import Lark, UnexpectedToken

from endpoints.lql.clauses import (
    CHART_FORMS,
    REGEXP_FORMS,
    SELECT_FORMS,
    TABLE_FORMS,
    VALUE_FORMS,
    ChartClause,
    Clause,
    ClauseReader,
)
from endpoints.lql.refusals import Fault, named
from endpoints.lql.rules import ChartRule, FromRule, Rules, SelectRule
from endpoints.lql.times import TIME_FORMS

MAX_SELECTS: Final = 50

READS_AS_SQL: Final = re.compile(r"\s*(?:select|with)\s.*\sfrom\s", re.IGNORECASE | re.DOTALL)
UNSENDABLE: Final = re.compile("[\x00\ud800-\udfff]")
# For each terminal that may follow at the end of a clause: what to expect there. Messages name the first that may.
_WANTED: Final = {
    "TABLE": TABLE_FORMS,
    "AGGREGATE": CHART_FORMS,
    "SELECTED": SELECT_FORMS,
    "TIME": TIME_FORMS,
    "RANGE": VALUE_FORMS,
    "REGEXP": REGEXP_FORMS,
    "WORD": REGEXP_FORMS,
}


def parse_lql(text: str) -> Rules:
    """Return the rules of the query; blank text has none.

    Raises InvalidLQL with line, column, what was found and what was expected. Nothing is ever left out.
    """
    try:
        return _rules(_clauses(text), text)
    except Fault as fault:
        if READS_AS_SQL.match(text):
            fault.hint = "This reads as SQL, which is sent as sql."
        fault.refuse(text)


def _clauses(text: str) -> list[Clause]:
    unsendable = UNSENDABLE.search(text)
    if unsendable:
        reason = f"the character U+{ord(unsendable.group()):04X} cannot be used in a query"
        raise Fault(unsendable.start(), reason)
    try:
        return _parser().parse(text)  # type: ignore[return-value]  # the reader's result, not a tree
    except UnexpectedToken as unexpected:
        # Any text has a terminal, if only INVALID: so this is white space, or the end, directly after a beginning.
        position = unexpected.token.start_pos
        if position is None or unexpected.token.type == "$END":
            position = len(text)
        raise _missing(text, position, unexpected.accepts) from None


@cache
def _parser() -> Lark:
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="contextual", transformer=ClauseReader())


def _missing(text: str, position: int, wanted: Container[str]) -> Fault:
    """Return the fault of a clause that ends too early, at `position`."""
    beginning = text[:position].split()[-1]
    found = "the end of the query" if position == len(text) else "white space"
    if beginning == "-":
        expected = ("a filter directly after it",)
        return Fault(
            position - 1, "nothing follows the dash", found="-", expected=expected, hint='For the text, write "-".'
        )
    forms = next(forms for terminal, forms in _WANTED.items() if terminal in wanted)
    return Fault(position, f"there is nothing directly after {named(beginning)}", found=found, expected=forms)


def _rules(clauses: list[Clause], text: str) -> Rules:
    tables = [clause for clause in clauses if isinstance(clause, FromRule)]
    selects = [clause for clause in clauses if isinstance(clause, SelectRule)]
    charts = [clause for clause in clauses if isinstance(clause, ChartClause)]
    if len(tables) > 1:
        raise Fault(tables[1].position, "a query reads from one table, and this is the second `f:`")
    if len(selects) > MAX_SELECTS:
        raise Fault(selects[MAX_SELECTS].position, f"a query may select at most {MAX_SELECTS} columns")
    filters = [clause for clause in clauses if not isinstance(clause, FromRule | SelectRule | ChartClause)]
    table = tables[0] if tables else None
    return Rules(table, _chart(charts), tuple(selects), tuple(filters), text)


def _chart(clauses: list[ChartClause]) -> ChartRule | None:
    if not clauses:
        return None
    aggregates = [clause for clause in clauses if clause.aggregate]
    periods = [clause for clause in clauses if clause.period]
    if len(aggregates) > 1:
        raise Fault(aggregates[1].position, "a query has one chart, and this is its second aggregate")
    if len(periods) > 1:
        raise Fault(periods[1].position, "a query has one chart, and this is its second `group_by`")
    chart = ChartRule(position=clauses[0].position)
    for clause in clauses:
        if clause.aggregate:
            chart = replace(chart, aggregate=clause.aggregate, path=clause.path)
        if clause.period:
            chart = replace(chart, period=clause.period)
    return chart
