"""The endpoint that an exploration becomes: its LQL as SQL, its range and project as parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from endpoints.defining.drafts import Draft
from endpoints.exploring.exploring import PAGE_ROWS, explored_columns, source_draft, source_table
from endpoints.lql import Filter, Now, Rules, TimeRule, TimeShorthandRule, parse_lql
from endpoints.lql.lowering import LoweredQuery, LQLTable, choose_table, lower
from endpoints.results.outcomes import BoundValue
from endpoints.sql.formatting import NotFormattable, format_sql
from endpoints.sql.parameters import ParameterType

_PLACEHOLDER: Final = re.compile(r"@(lql_[0-9]+)")


def explored_draft(source: str, *, every_project: bool, lql: str) -> Draft:
    """Return the endpoint whose rows are those of the LQL, closed to consumers' queries: its CTE has the source's rows.

    Filters by a time that moves with the clock are left out: the parameters give the range.
    Raises InvalidExploration and InvalidLQL.
    """
    draft = replace(source_draft(source, every_project=every_project), sandboxing=False)
    rules = parse_lql(lql)
    rules = replace(rules, filters=tuple(rule for rule in rules.filters if not moves_with_the_clock(rule)))
    if rules == Rules():
        return draft
    return replace(draft, sql=_stored_sql(source, rules, every_project=every_project))


def moves_with_the_clock(rule: Filter) -> bool:
    """Tell whether the filter means another time at each call, such as ``t:last@1h``."""
    return isinstance(rule, TimeShorthandRule) or (isinstance(rule, TimeRule) and isinstance(rule.moment, Now))


def _stored_sql(source: str, rules: Rules, *, every_project: bool) -> str:
    explored = LQLTable(source, explored_columns(every_project=every_project))
    table = choose_table(rules, [explored], default=source)
    query = _with_literals(lower(rules, table, now=datetime.now(UTC)))
    limit = "" if rules.chart else f"\nlimit {PAGE_ROWS}"
    sql = f"{source_table(source, every_project=every_project)}\n{query}{limit}\n"
    try:
        return format_sql(sql) + "\n"
    except NotFormattable:
        return sql


def _with_literals(lowered: LoweredQuery) -> str:
    """Return the SQL with its values written out: they belong to the endpoint; no consumer sends them."""
    types = {parameter.name: parameter.type for parameter in lowered.parameters}

    def literal(found: re.Match[str]) -> str:
        return _literal(lowered.arguments[found[1]], types[found[1]])

    return _PLACEHOLDER.sub(literal, lowered.sql)


def _literal(value: BoundValue, type_: ParameterType) -> str:
    if isinstance(value, str):
        return _LITERALS.get(type_, _quoted)(value)
    return f"array[{', '.join(map(_quoted, value or ()))}]"


def _quoted(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


_LITERALS: Final[Mapping[ParameterType, Callable[[str], str]]] = {
    ParameterType.INTEGER: lambda text: f"({text})" if text.startswith("-") else text,
    ParameterType.NUMBER: lambda text: f"({text})" if text.startswith("-") else text,
    ParameterType.BOOLEAN: lambda text: text,
    ParameterType.TIMESTAMP: lambda text: f"{_quoted(text)}::timestamptz",
    ParameterType.DATE: lambda text: f"{_quoted(text)}::date",
}
