"""The SQL of a tail's rows: bounds and order by timestamp and id, the place of each row behind its columns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from endpoints.errors import InvalidLQL
from endpoints.lql.lowering import LoweredQuery, LQLTable, Stretch, lower
from endpoints.lql.parser import parse_lql
from endpoints.results.outcomes import Column
from endpoints.sql.sandbox import SandboxTable, check_sandbox_query

NOW = datetime(2024, 5, 15, 12, 30, 45, 500_000, tzinfo=UTC)
COLUMNS = (
    Column("timestamp", "timestamp with time zone"),
    Column("id", "text"),
    Column("event_message", "text"),
    Column("metadata", "jsonb"),
)
LOGS = LQLTable("edge_logs", COLUMNS)
FIRST = Stretch(until=NOW)
NEXT = Stretch(until=NOW, since=(NOW - timedelta(seconds=60), "it's"))
PLACE = '"timestamp" AS "place timestamp", "id" AS "place id"'
ID = "convert_to(t.\"id\"::text, 'UTF8')"


def lowered(lql: str, stretch: Stretch, table: LQLTable = LOGS) -> LoweredQuery:
    query = lower(parse_lql(lql), table, now=NOW, stretch=stretch)
    columns = tuple(column.name for column in table.columns)
    check_sandbox_query(query.sql, tables=[SandboxTable(table.name, columns)], parameters=query.parameters)
    return query


def test_the_newest_rows_come_first_without_a_place() -> None:
    query = lowered("s:event_message", FIRST)
    assert query.sql == (
        f'SELECT "event_message", {PLACE} FROM "edge_logs" AS t WHERE t."timestamp" <= @lql_1'
        f' ORDER BY t."timestamp" DESC, {ID} DESC'
    )
    assert query.arguments == {"lql_1": "2024-05-15T12:30:45.500000Z"}


def test_rows_behind_a_place_come_in_their_order() -> None:
    query = lowered('s:event_message event_message:"x"', NEXT)
    assert query.sql == (
        f'SELECT "event_message", {PLACE} FROM "edge_logs" AS t WHERE "event_message" = @lql_1'
        ' AND t."timestamp" <= @lql_2 AND t."timestamp" >= @lql_3'
        f" AND (t.\"timestamp\" > @lql_3 OR {ID} >= convert_to(@lql_4, 'UTF8'))"
        f' ORDER BY t."timestamp", {ID}'
    )
    assert query.arguments["lql_4"] == "it's"


@pytest.mark.parametrize("lql", ["", "s:*", "s:m.a.b", "s:m.a@timestamp s:event_message@id", "~x -m.a:1", "t:last@1h"])
@pytest.mark.parametrize("stretch", [FIRST, NEXT])
def test_the_checker_passes_every_form(lql: str, stretch: Stretch) -> None:
    assert '"place timestamp"' in lowered(lql, stretch).sql


def test_a_chart_is_refused_at_its_place() -> None:
    with pytest.raises(InvalidLQL, match=r"Line 1, column 7: `tail` lists new rows.*Leave the chart out"):
        lowered("m.a:1 c:count(*)", FIRST)


@pytest.mark.parametrize(
    "columns",
    [
        COLUMNS[:1],
        COLUMNS[1:],
        (Column("timestamp", "timestamp without time zone"), *COLUMNS[1:]),
        (Column("timestamp", "date"), *COLUMNS[1:]),
    ],
)
def test_a_table_without_places_is_refused(columns: tuple[Column, ...]) -> None:
    with pytest.raises(InvalidLQL, match="needs a table with the columns"):
        lowered("", FIRST, LQLTable("other", columns))
