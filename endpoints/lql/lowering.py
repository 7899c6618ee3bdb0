"""Rules → one SELECT over one sandbox table, with parameters for all values; the sandbox's checker treats it as usual.

    m.level:error t:today  ->  SELECT "id", … FROM "edge_logs" AS t
                               WHERE jsonb_path_exists("metadata", @lql_1::jsonpath, @lql_2::jsonb)
                               AND "timestamp" >= @lql_3 AND "timestamp" <= @lql_4
                               ORDER BY t."timestamp" DESC, t."id" DESC

`schema` gives the paths their meaning; `filters`, `selects` and `charts` write the parts of the query.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from endpoints.lql.fields import Field, FieldType
from endpoints.lql.filters import json_column, lower_filter, patterns
from endpoints.lql.refusals import Fault, named, refusal
from endpoints.lql.rules import TIMESTAMP, Aggregate, ChartColumn, ChartRule, Rules, SelectRule, keys_of
from endpoints.lql.schema import CheckedRules, Schema, check_rules, resolve, table_schema, timestamp_field
from endpoints.lql.sql_pieces import NOT_NULL, NUMBERS, Bindings, quoted_name, value_path
from endpoints.results.outcomes import BoundValue, Column
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from endpoints.sql.sandbox.tokens import SandboxLimits
from endpoints.sql.sandbox.vocabulary import similar_names

# --- Charts -----------------------------------------------------------------------------------------------------------
# A chart: one aggregate for each time bucket that has rows, oldest first.
_FRACTIONS: Final = {Aggregate.P50: "0.5", Aggregate.P95: "0.95", Aggregate.P99: "0.99"}
_COUNTS: Final = (Aggregate.COUNT, Aggregate.COUNT_DISTINCT)
# No LQL path can name a column with a blank, so this one hides no column.
_VALUE: Final = '"chart value"'


def lower_chart(
    chart: ChartRule, charted: Field, timestamp: Field, bindings: Bindings, *, table: str, where: str, column: str
) -> str:
    """Return the chart's query over `table`, its values in `column`; `where` is its WHERE clause or nothing.

    Inside JSON every value counts, even several of one row; numeric aggregates use values that are numbers or read as
    one. A bucket whose rows have no value shows 0 for a count, otherwise NULL.
    """
    source = f"FROM {table} AS t"
    if charted.type is FieldType.JSON:
        kept = NOT_NULL if chart.aggregate in _COUNTS else NUMBERS
        path = bindings.jsonpath(f"{value_path(charted.inside)} {kept}")
        values = f"jsonb_path_query({json_column(charted)}, {path})"
        source = f"{source} LEFT JOIN LATERAL {values} AS e({_VALUE}) ON true"
    aggregate = _aggregate(chart, charted)
    clauses = [
        f'SELECT {_bucket(chart, timestamp)} AS "timestamp", {aggregate} AS {quoted_name(column)}',
        source,
        where,
        "GROUP BY 1 ORDER BY 1",
    ]
    return " ".join(filter(None, clauses))


def _bucket(chart: ChartRule, timestamp: Field) -> str:
    """Return the start of a row's bucket in UTC."""
    moment = quoted_name(timestamp.name)
    if timestamp.stored_as == "date":
        moment = f"{moment}::timestamp"
    if timestamp.stored_as != "timestamp with time zone":
        moment = f"({moment} AT TIME ZONE 'UTC')"
    return f"date_trunc('{chart.period.value}', {moment}, 'UTC')"


def _aggregate(chart: ChartRule, charted: Field) -> str:
    aggregate = chart.aggregate
    if aggregate is Aggregate.COUNT and chart.path == TIMESTAMP:
        return "count(*)"
    is_json = charted.type is FieldType.JSON
    value = _VALUE if is_json else quoted_name(charted.name)
    if charted.type is FieldType.OTHER:
        value = f"{value}::text"  # not every type can compare its values
    if aggregate is Aggregate.COUNT:
        return f"count({value})"
    if aggregate is Aggregate.COUNT_DISTINCT:
        return f"count(DISTINCT {value})"
    if is_json:
        value = f"({value} #>> '{{}}')::numeric"
    if aggregate in _FRACTIONS:
        return f"percentile_cont({_FRACTIONS[aggregate]}) WITHIN GROUP (ORDER BY {value}::double precision)"
    if aggregate is Aggregate.AVERAGE and charted.stored_as not in ("real", "double precision"):
        return f"trim_scale(avg({value}))"  # 12.5, not 12.5000000000000000
    return f"{aggregate.value}({value})"


# --- Selects ----------------------------------------------------------------------------------------------------------
# The columns of a query without a chart: all columns of the table, or one for each select rule.
MAX_NAME_BYTES: Final = 63  # PostgreSQL's NAMEDATALEN - 1; a longer column name would be cut
_COLUMN_NAME: Final = re.compile(r"[ !#-\[\]-~]+")  # what the sandbox's checker reads as a name

Output = tuple[str, Field]


def outputs(selects: Sequence[SelectRule], schema: Schema, columns: Sequence[Column]) -> list[Output]:
    """Return each column's name and field; without selects or with a wildcard, the table's own columns.

    A select written twice counts once. Raises Fault for a path without a meaning, for two columns with the same name
    and for a name that PostgreSQL would cut.
    """
    if not selects or any(select.is_wildcard for select in selects):
        return [(column.name, schema[column.name]) for column in columns]
    paths: dict[str, str] = {}
    found: list[Output] = []
    for select in selects:
        name = select.alias or ".".join(keys_of(select.path))
        if not _COLUMN_NAME.fullmatch(name):
            reason = f"a column's name is printable ASCII without quotes and backslashes, and not {named(name)}"
            hint = "Give it another name with an alias, such as `s:m.status@status`."
            raise Fault(select.position, reason, found=name, hint=hint)
        if len(name.encode()) > MAX_NAME_BYTES:
            hint = "Give it a shorter name with an alias, such as `s:m.status@status`."
            raise Fault(select.position, f"the column name {named(name)} is over {MAX_NAME_BYTES} bytes", hint=hint)
        if paths.setdefault(name, select.path) != select.path:
            hint = "Give one of them another name with an alias, such as `s:m.status@status`."
            raise Fault(select.position, f"two columns are called {named(name)}", found=name, hint=hint)
        output = (name, resolve(select.path, schema, position=select.position))
        if output not in found:
            found.append(output)
    return found


def lower_selects(chosen: Sequence[Output], source: str, bindings: Bindings) -> str:
    """Return the query of these columns over `source`, which is FROM and everything after it.

    Values inside JSON take two SELECTs around the one that filters and sorts. The middle one names the values found at
    each path; the outer one shows NULL for no value, the value itself for one, and an array for several. This happens
    after the sort, because PostgreSQL considers such a call cheap and would otherwise do it for every row before LIMIT:
    fifty of them took 5.5 s over 200,000 rows.
    """
    if not any(field.inside for _, field in chosen):
        columns = [_labelled(quoted_name(field.name), name) for name, field in chosen]
        return f"SELECT {', '.join(columns)} {source}"
    found, shown = [], []
    for number, (name, field) in enumerate(chosen, start=1):
        value = quoted_name(str(number))
        if field.inside:
            path = bindings.jsonpath(value_path(field.inside))
            found.append(f"jsonb_path_query_array({json_column(field)}, {path}) AS {value}")
            shown.append(f"CASE WHEN {value} -> 1 IS NULL THEN {value} -> 0 ELSE {value} END AS {quoted_name(name)}")
        else:
            found.append(f"{quoted_name(field.name)} AS {value}")
            shown.append(f"{value} AS {quoted_name(name)}")
    read = ", ".join(dict.fromkeys(quoted_name(field.name) for _, field in chosen))
    rows = f"SELECT {read} {source}"
    values = f"SELECT {', '.join(found)} FROM ({rows}) AS r"  # noqa: S608 - quoted names
    return f"SELECT {', '.join(shown)} FROM ({values}) AS s"  # noqa: S608 - quoted names


def _labelled(column: str, name: str) -> str:
    label = quoted_name(name)
    return column if column == label else f"{column} AS {label}"


# --- Lowering ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class LQLTable:
    """A sandbox table and its columns."""

    name: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Stretch:
    """The rows of a tail: up to the moment `until`, in the order of their places, a place being timestamp and id.

    With `since` those at this place or behind it, the first ones first; without it the last ones first. Two more
    columns, behind all others, are each row's place.
    """

    until: datetime
    since: tuple[datetime, str] | None = None


PLACE_COLUMNS: Final = 2
ID: Final = "id"
# Of the checker for lowered SQL: a hundred clauses need more words than a consumer's own SQL may have.
LIMITS: Final = SandboxLimits(bytes=24 * 1024, tokens=4_000)
_ORDERED_IDS: Final = ("text", "character varying", "uuid", "smallint", "integer", "bigint", "numeric")


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


def lower(
    rules: Rules,
    table: LQLTable,
    *,
    now: datetime,
    chart_column: ChartColumn = ChartColumn.AGGREGATE,
    stretch: Stretch | None = None,
) -> LoweredQuery:
    """Return the SQL of the rules over this table; every relative time counts from `now`, an aware datetime.

    Raises InvalidLQL if the table lacks a path, a value does not fit its column, columns cannot be named or a time
    does not exist; for a `stretch` also if the rules are a chart, or the table's rows have no place.
    """
    try:
        return _lower(rules, table, now.astimezone(UTC).replace(tzinfo=None), chart_column, stretch)
    except Fault as fault:
        fault.refuse(rules.text)


def _lower(
    rules: Rules, table: LQLTable, now: datetime, chart_column: ChartColumn, stretch: Stretch | None
) -> LoweredQuery:
    schema = table_schema(table.columns)
    checked = check_rules(rules, schema)
    bindings = Bindings()
    where = lower_where(checked, bindings, now)
    name = quoted_name(table.name)
    if stretch is not None:
        source = f"FROM {name} AS t {_of_stretch(stretch, rules, table, where, bindings)}"
        places = [(f"place {column}", resolve(column, schema, position=0)) for column in (TIMESTAMP, ID)]
        chosen = [*outputs(rules.selects, schema, table.columns), *places]
        return finish(lower_selects(chosen, source, bindings), checked, bindings)
    if rules.chart is not None and checked.charted is not None:
        if rules.selects:
            reason = "a chart has the columns of its buckets, so `s:` chooses nothing beside `c:`"
            hint = "Leave out the selection to count rows, or the chart to list them."
            raise Fault(rules.selects[0].position, reason, found="s:", hint=hint)
        timestamp = timestamp_field(schema, position=rules.chart.position)
        column = chart_column.name_for(rules.chart.aggregate)
        sql = lower_chart(rules.chart, checked.charted, timestamp, bindings, table=name, where=where, column=column)
    else:
        source = " ".join(filter(None, [f"FROM {name} AS t", where, newest_first(schema)]))
        sql = lower_selects(outputs(rules.selects, schema, table.columns), source, bindings)
    return finish(sql, checked, bindings)


def newest_first(schema: Schema) -> str:
    """Return the ORDER BY of a table's rows, of one moment the last loaded first; nothing if they have no time."""
    if TIMESTAMP not in schema:
        return ""
    # Named with its table; otherwise an alias `timestamp` would decide the order.
    order = f'ORDER BY t."{TIMESTAMP}" DESC'
    has_order = ID in schema and schema[ID].stored_as in _ORDERED_IDS  # other types may have none
    return f'{order}, t."{ID}" DESC' if has_order else order


def have_places(columns: Iterable[Column]) -> bool:
    """Tell whether rows with these columns have a place, so that they can be tailed."""
    types = {column.name: column.type for column in columns}
    return types.get(TIMESTAMP) == "timestamp with time zone" and ID in types


def _of_stretch(stretch: Stretch, rules: Rules, table: LQLTable, where: str, bindings: Bindings) -> str:
    """Return the WHERE and ORDER BY of the rows of a stretch."""
    if rules.chart is not None:
        raise Fault(rules.chart.position, "`tail` lists new rows, and a chart counts them", hint="Leave the chart out.")
    if not have_places(table.columns):
        position = rules.table.position if rules.table is not None else 0
        reason = f"`tail` needs a table with the columns `{TIMESTAMP}`, a timestamptz, and `{ID}`"
        raise Fault(position, f"{reason}, which `{table.name}` is not")
    # With the table: a column of the result may have the same name.
    # Ids in the order of their code points, as whoever keeps a place compares them.
    moment, row_id = f't."{TIMESTAMP}"', f"convert_to(t.\"{ID}\"::text, 'UTF8')"
    conditions = [where.removeprefix("WHERE ")] if where else []
    conditions.append(f"{moment} <= {_bound_moment(stretch.until, bindings)}")
    if stretch.since is None:
        order = f"ORDER BY {moment} DESC, {row_id} DESC"
    else:
        since, since_id = _bound_moment(stretch.since[0], bindings), bindings.bind(stretch.since[1])
        # A comparison of both at once would read every partition.
        conditions += [f"{moment} >= {since}", f"({moment} > {since} OR {row_id} >= convert_to({since_id}, 'UTF8'))"]
        order = f"ORDER BY {moment}, {row_id}"
    return f"WHERE {' AND '.join(conditions)} {order}"


def _bound_moment(moment: datetime, bindings: Bindings) -> str:
    text = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return bindings.bind(text, ParameterType.TIMESTAMP)


def finish(sql: str, checked: CheckedRules, bindings: Bindings) -> LoweredQuery:
    """Return the query with everything that its SQL names."""
    return LoweredQuery(
        sql=sql,
        parameters=bindings.parameters,
        arguments=bindings.arguments,
        regular_expressions=tuple(found for filter_ in checked.filters for found in patterns(filter_)),
    )


def lower_where(checked: CheckedRules, bindings: Bindings, now: datetime) -> str:
    """Return the WHERE clause of the filters, or nothing; `now` is a moment in UTC without a zone."""
    conditions = [lower_filter(filter_, bindings, now=now) for filter_ in checked.filters]
    expressions = {pattern for filter_ in checked.filters for pattern, _ in patterns(filter_)}
    if expressions:
        # Computed when the statement is planned: an invalid pattern fails even if no row is ever compared.
        tried = ", ".join(f"'' ~ {bindings.bind(pattern)}" for pattern in sorted(expressions))
        conditions.append(f"GREATEST({tried}) IS NOT NULL")
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""
