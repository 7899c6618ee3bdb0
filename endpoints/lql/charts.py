"""A chart: one aggregate for each time bucket that has rows, oldest first."""

from __future__ import annotations

from typing import Final

from endpoints.lql.bindings import Bindings, quoted_name
from endpoints.lql.fields import Field, FieldType
from endpoints.lql.filters import json_column
from endpoints.lql.jsonpaths import NOT_NULL, NUMBERS, value_path
from endpoints.lql.rules import TIMESTAMP, Aggregate, ChartRule

_FRACTIONS: Final = {Aggregate.P50: "0.5", Aggregate.P95: "0.95", Aggregate.P99: "0.99"}
_COUNTS: Final = (Aggregate.COUNT, Aggregate.COUNT_DISTINCT)
# No LQL path can name a column with a blank, so this one hides no column.
_VALUE: Final = '"chart value"'


def lower_chart(
    chart: ChartRule, charted: Field, timestamp: Field, bindings: Bindings, *, table: str, where: str
) -> str:
    """Return the chart's query over `table`; `where` is its WHERE clause or nothing.

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
        f'SELECT {_bucket(chart, timestamp)} AS "timestamp", {aggregate} AS {quoted_name(chart.aggregate.value)}',
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
