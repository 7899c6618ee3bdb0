"""Rules → a SELECT that counts the rows that match: by the values of a field, or by time and severity.

    top values of m.level    ->  SELECT value, count(*) … FROM (SELECT "metadata" FROM "edge_logs" AS t WHERE … LIMIT n)
                                 AS r LEFT JOIN LATERAL jsonb_path_query("metadata", @lql_1::jsonpath) AS e(value)
                                 ON true GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT m

Both look at a limited number of rows. Every value is a parameter, as in `lowering`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from endpoints.lql.fields import FieldType
from endpoints.lql.filters import json_column
from endpoints.lql.lowering import LoweredQuery, LQLTable, finish, lower_where, newest_first
from endpoints.lql.refusals import Fault
from endpoints.lql.rules import METADATA, Period, Rules
from endpoints.lql.schema import check_rules, resolve, table_schema, timestamp_field
from endpoints.lql.sql_pieces import SCALARS, Bindings, quoted_name, value_path
from endpoints.sql.parameters import ParameterType

# A row's severity is its level, else that of the status of its HTTP response; the most severe first.
LEVELS_BY_SEVERITY: Final[Mapping[str, tuple[str, ...]]] = {
    "error": ("error", "critical", "alert", "emergency", "fatal", "panic"),
    "warning": ("warning", "warn"),
    "info": ("info", "notice", "log"),
    "debug": ("debug", "trace", "debug1", "debug2", "debug3", "debug4", "debug5"),
}
OTHER: Final = "other"
# Where a row has its level, and where the status of a response: the first that is there counts.
LEVEL_FIELDS: Final = ("level", "parsed.error_severity")
STATUS_FIELDS: Final = ("response.status_code", "status")
_SEVERITIES_BY_STATUS: Final = (
    ("^5[0-9][0-9]$", "error"),
    ("^4[0-9][0-9]$", "warning"),
    ("^[123][0-9][0-9]$", "info"),
)


@dataclass(frozen=True, slots=True)
class TopValues:
    """The `most` most frequent values of a path among the newest `rows` rows, with columns value, rows, counted and
    different: how often it is there, how many values there are, and how many different ones.

    A row without the field has the value NULL; one with several has each of them.
    """

    path: str
    rows: int
    most: int


@dataclass(frozen=True, slots=True)
class Severities:
    """How many rows of each severity each period has, among at most `rows` rows: timestamp, severity and count."""

    period: Period
    rows: int


Counting = TopValues | Severities


def lower_counting(rules: Rules, table: LQLTable, counting: Counting, *, now: datetime) -> LoweredQuery:
    """Return the SQL that counts the rows of this table that pass the filters; columns and chart do not matter.

    Raises InvalidLQL as `lower` does.
    """
    try:
        return _lower(rules, table, counting, now.astimezone(UTC).replace(tzinfo=None))
    except Fault as fault:
        fault.refuse(rules.text)


def _lower(rules: Rules, table: LQLTable, counting: Counting, now: datetime) -> LoweredQuery:
    schema = table_schema(table.columns)
    checked = check_rules(rules, schema)
    bindings = Bindings()
    source = " ".join(filter(None, [f"FROM {quoted_name(table.name)} AS t", lower_where(checked, bindings, now)]))
    if isinstance(counting, Severities):
        moment = quoted_name(timestamp_field(schema, position=0).name)
        sql = _severities(counting, moment, source, bindings)
    else:
        field = resolve(counting.path, schema, position=0)
        rows = f"(SELECT {quoted_name(field.name)} {source} {newest_first(schema)} LIMIT {counting.rows}) AS r"
        value = quoted_name(field.name)
        if field.type is FieldType.JSON:
            path = bindings.jsonpath(f"{value_path(field.inside)}[*] {SCALARS}")
            rows += f" LEFT JOIN LATERAL jsonb_path_query({json_column(field)}, {path}) AS e(found) ON true"
            value = "found"
        columns = f"{value} AS value, count(*) AS rows, sum(count(*)) OVER () AS counted, count(*) OVER () AS different"
        sql = f"SELECT {columns} FROM {rows} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {counting.most}"  # noqa: S608 - quoted
    return finish(sql, checked, bindings)


def _severities(counting: Severities, moment: str, source: str, bindings: Bindings) -> str:
    def first(fields: tuple[str, ...]) -> str:
        paths = [bindings.jsonpath(value_path(tuple(field.split(".")))) for field in fields]
        found = ", ".join(f'jsonb_path_query_first("{METADATA}", {path})' for path in paths)
        return f"lower(coalesce({found}) #>> '{{}}')"

    read = f'SELECT {moment} AS moment, "{METADATA}" {source} LIMIT {counting.rows}'
    level, status = first(LEVEL_FIELDS), first(STATUS_FIELDS)
    texts = f"SELECT moment, {level} AS level, {status} AS status FROM ({read}) AS r"  # noqa: S608 - bound values
    cases = [
        f"WHEN level = ANY ({bindings.bind(levels, ParameterType.TEXT_LIST)}) THEN {bindings.bind(severity)}"
        for severity, levels in LEVELS_BY_SEVERITY.items()
    ]
    cases += [
        f"WHEN level IS NULL AND status ~ {bindings.bind(pattern)} THEN {bindings.bind(severity)}"
        for pattern, severity in _SEVERITIES_BY_STATUS
    ]
    severity = f"CASE {' '.join(cases)} ELSE {bindings.bind(OTHER)} END"
    bucket = f"date_trunc('{counting.period.value}', moment, 'UTC')"
    return (
        f'SELECT {bucket} AS "timestamp", {severity} AS severity, count(*) AS count '  # noqa: S608 - bound values
        f"FROM ({texts}) AS s GROUP BY 1, 2 ORDER BY 1, 2"
    )
