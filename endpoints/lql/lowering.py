"""Rules → one SELECT over one sandbox table, with parameters for all values; the sandbox's checker treats it as usual.

    m.level:error t:today  ->  SELECT "id", … FROM "edge_logs" AS t
                               WHERE jsonb_path_exists("metadata", @lql_1::jsonpath, @lql_2::jsonb)
                               AND "timestamp" >= @lql_3 AND "timestamp" <= @lql_4
                               ORDER BY t."timestamp" DESC

`schema` gives the paths their meaning; `filters`, `selects` and `charts` write the parts of the query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from endpoints.lql.bindings import Bindings, quoted_name
from endpoints.lql.charts import lower_chart
from endpoints.lql.faults import Fault
from endpoints.lql.filters import lower_filter, patterns
from endpoints.lql.refusals import refusal
from endpoints.lql.rules import TIMESTAMP, Rules
from endpoints.lql.schema import CheckedRules, check_rules, table_schema, timestamp_field
from endpoints.lql.selects import lower_selects, outputs
from endpoints.results.outcomes import BoundValue, Column
from endpoints.sql.parameters import DeclaredParameter
from endpoints.sql.sandbox.violations import similar_names


@dataclass(frozen=True, slots=True)
class LQLTable:
    """A sandbox table and its columns."""

    name: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class LoweredQuery:
    """A sandbox query over one table.

    `sql` names its values ``@lql_<n>``; `parameters` declares them and `arguments` has them in canonical form.
    `regular_expressions` are the patterns in it, each with the position of its rule in the LQL text, so that a refusal
    can name a pattern that PostgreSQL cannot read; PostgreSQL fails on such a pattern even over an empty table.
    """

    sql: str
    parameters: tuple[DeclaredParameter, ...]
    arguments: Mapping[str, BoundValue]
    regular_expressions: tuple[tuple[str, int], ...]


def choose_table(rules: Rules, tables: Sequence[LQLTable], *, default: str) -> LQLTable:
    """Return the table that ``f:name`` names; without ``f:``, the only table or the one called `default`.

    Raises InvalidLQL, which lists the tables.
    """
    by_name = {table.name: table for table in tables}
    listed = [f"`f:{name}`" for name in by_name]
    if rules.table is not None:
        name = rules.table.table
        if name not in by_name:
            similar = similar_names(name, by_name)
            hint = f"Did you mean {' or '.join(f'`f:{near}`' for near in similar)}?" if similar else ""
            reason = f"there is no table `{name}`"
            raise refusal(rules.text, rules.table.position, reason, found=name, expected=listed, hint=hint)
        return by_name[name]
    if len(tables) == 1:
        return tables[0]
    if default not in by_name:
        raise refusal(rules.text, 0, "the query does not say which table it reads", expected=listed)
    return by_name[default]


def lower(rules: Rules, table: LQLTable, *, now: datetime) -> LoweredQuery:
    """Return the SQL of the rules over this table; every relative time counts from `now`, an aware datetime.

    Raises InvalidLQL if the table lacks a path, a value does not fit its column, columns cannot be named or a time
    does not exist.
    """
    try:
        return _lower(rules, table, now.astimezone(UTC).replace(tzinfo=None))
    except Fault as fault:
        fault.refuse(rules.text)


def _lower(rules: Rules, table: LQLTable, now: datetime) -> LoweredQuery:
    schema = table_schema(table.columns)
    checked = check_rules(rules, schema)
    bindings = Bindings()
    where = _where(checked, bindings, now)
    name = quoted_name(table.name)
    if rules.chart is not None and checked.charted is not None:
        timestamp = timestamp_field(schema, position=rules.chart.position)
        sql = lower_chart(rules.chart, checked.charted, timestamp, bindings, table=name, where=where)
    else:
        # Named with its table; otherwise an alias `timestamp` would decide the order.
        order = f'ORDER BY t."{TIMESTAMP}" DESC' if TIMESTAMP in schema else ""
        source = " ".join(filter(None, [f"FROM {name} AS t", where, order]))
        sql = lower_selects(outputs(rules.selects, schema, table.columns), source, bindings)
    return LoweredQuery(
        sql=sql,
        parameters=bindings.parameters,
        arguments=bindings.arguments,
        regular_expressions=tuple(found for filter_ in checked.filters for found in patterns(filter_)),
    )


def _where(checked: CheckedRules, bindings: Bindings, now: datetime) -> str:
    conditions = [lower_filter(filter_, bindings, now=now) for filter_ in checked.filters]
    expressions = {pattern for filter_ in checked.filters for pattern, _ in patterns(filter_)}
    if expressions:
        # Computed when the statement is planned: an invalid pattern fails even if no row is ever compared.
        tried = ", ".join(f"'' ~ {bindings.bind(pattern)}" for pattern in sorted(expressions))
        conditions.append(f"GREATEST({tried}) IS NOT NULL")
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""
