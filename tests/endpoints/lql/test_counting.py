"""Counting queries: one SELECT that the sandbox's checker takes, with a LIMIT, and no value of the text in its SQL."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from endpoints.errors import InvalidLQL
from endpoints.lql import Period, parse_lql
from endpoints.lql.counting import LEVELS_BY_SEVERITY, Counting, Severities, TopValues, lower_counting
from endpoints.lql.lowering import LQLTable
from endpoints.results.outcomes import Column
from endpoints.sql.sandbox import SandboxTable, check_sandbox_query

TABLE = LQLTable(
    "edge_logs",
    (
        Column("timestamp", "timestamp with time zone"),
        Column("id", "text"),
        Column("event_message", "text"),
        Column("labels", "json"),
        Column("metadata", "jsonb"),
    ),
)
NOW = datetime(2026, 1, 31, tzinfo=UTC)
COUNTINGS = [TopValues("metadata.level", 7, 3), TopValues("id", 7, 3), TopValues("labels.a", 7, 3)]


def lowered(lql: str, counting: Counting) -> tuple[str, list[object]]:
    query = lower_counting(parse_lql(lql), TABLE, counting, now=NOW)
    tables = [SandboxTable(TABLE.name, tuple(column.name for column in TABLE.columns))]
    check_sandbox_query(query.sql, tables=tables, parameters=query.parameters)
    return query.sql, list(query.arguments.values())


@pytest.mark.parametrize("counting", [*COUNTINGS, Severities(Period.HOUR, 7)])
def test_values_of_the_text_are_bound_and_rows_limited(counting: Counting) -> None:
    sql, arguments = lowered('m.a:"x\'; drop" -secret ~"p.q" t:today c:max(m.n) s:id', counting)
    assert "drop" not in sql
    assert "secret" not in sql
    assert "p.q" in arguments
    assert "LIMIT 7" in sql


def test_a_field_inside_json_is_read_behind_the_limit() -> None:
    sql, arguments = lowered("", TopValues("metadata.a.b", 7, 3))
    assert sql.index("LIMIT 7") < sql.index("jsonb_path_query(")
    assert sql.endswith("LIMIT 3")
    assert '"a"."b"[*]' in str(arguments[0])


def test_a_path_of_another_column_is_one_inside_metadata() -> None:
    assert '"project"' in str(lowered("", TopValues("project", 7, 3))[1])
    with pytest.raises(InvalidLQL):
        lowered("", TopValues("id.a", 7, 3))
    with pytest.raises(InvalidLQL):
        lowered("id.a:1", Severities(Period.DAY, 7))


def test_every_level_has_one_severity_in_small_letters() -> None:
    levels = [level for of_severity in LEVELS_BY_SEVERITY.values() for level in of_severity]
    assert len(set(levels)) == len(levels)
    assert levels == [level.lower() for level in levels]
