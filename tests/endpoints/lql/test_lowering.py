"""Which table a query reads, how its SQL looks, what is refused, and that the largest queries pass the checker."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import cycle, islice
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.errors import InvalidLQL
from endpoints.lql.lowering import LIMITS, LoweredQuery, LQLTable, choose_table, lower
from endpoints.lql.parser import parse_lql
from endpoints.results.outcomes import Column
from endpoints.sql.parameters import ParameterType, find_parameters
from endpoints.sql.sandbox import CheckedQuery, SandboxTable, check_sandbox_query
from tests.endpoints.lql.live_table import LiveTable

pytestmark = pytest.mark.sql

NOW = datetime(2024, 5, 15, 12, 30, 45, 500_000, tzinfo=UTC)
LOGS = LQLTable(
    "edge_logs",
    (
        Column("timestamp", "timestamp with time zone"),
        Column("id", "text"),
        Column("event_message", "text"),
        Column("metadata", "jsonb"),
        Column("total", "integer"),
    ),
)
OTHERS = (LQLTable("auth_logs", LOGS.columns), LQLTable("database_logs", LOGS.columns))
ALL_COLUMNS = '"timestamp", "id", "event_message", "metadata", "total"'


def lowered(lql: str, table: LQLTable = LOGS) -> LoweredQuery:
    return lower(parse_lql(lql), table, now=NOW)


def checked(query: LoweredQuery, table: LQLTable = LOGS) -> CheckedQuery:
    columns = tuple(column.name for column in table.columns)
    return check_sandbox_query(
        query.sql, tables=[SandboxTable(table.name, columns)], parameters=query.parameters, limits=LIMITS
    )


# ── order


@pytest.mark.parametrize(
    ("id_type", "order"),
    [
        ("text", ' ORDER BY t."timestamp" DESC, t."id" DESC'),
        ("bigint", ' ORDER BY t."timestamp" DESC, t."id" DESC'),
        ("uuid", ' ORDER BY t."timestamp" DESC, t."id" DESC'),
        ("json", ' ORDER BY t."timestamp" DESC'),
        ("point", ' ORDER BY t."timestamp" DESC'),
        ("", ' ORDER BY t."timestamp" DESC'),
    ],
)
def test_orders_rows_of_one_moment_by_an_id_that_has_an_order(id_type: str, order: str) -> None:
    columns = (Column("timestamp", "timestamp with time zone"), *([Column("id", id_type)] if id_type else []))
    assert lowered("", LQLTable("edge_logs", columns)).sql.endswith(f"AS t{order}")


# ── tables


@pytest.mark.parametrize(
    ("lql", "tables", "default", "name"),
    [
        ("f:auth_logs", (LOGS, *OTHERS), "edge_logs", "auth_logs"),
        ("m.a:1", (LOGS, *OTHERS), "edge_logs", "edge_logs"),
        ("m.a:1", (LOGS,), "", "edge_logs"),
        ("f:edge_logs", (LOGS,), "", "edge_logs"),
        ("", (LOGS,), "auth_logs", "edge_logs"),
    ],
)
def test_reads_the_table_named_or_the_only_one_or_the_default(
    lql: str, tables: tuple[LQLTable, ...], default: str, name: str
) -> None:
    assert choose_table(parse_lql(lql), tables, default=default).name == name


@pytest.mark.parametrize(
    ("lql", "message"),
    [
        ("m.a:1 f:auth_log", "Line 1, column 7: there is no table `auth_log`. Expected"),
        ("f:auth_log", "Did you mean `f:auth_logs`?"),
        ("f:secrets", "there is no table `secrets`. Expected `f:edge_logs`, `f:auth_logs` or `f:database_logs`."),
        ("m.a:1", "the query does not say which table it reads. Expected `f:edge_logs`, `f:auth_logs` or"),
    ],
)
def test_refuses_a_table_that_cannot_be_chosen_and_lists_the_tables(lql: str, message: str) -> None:
    with pytest.raises(InvalidLQL) as refusal:
        choose_table(parse_lql(lql), (LOGS, *OTHERS), default="")
    assert message in refusal.value.message


def test_a_default_that_is_gone_is_no_table() -> None:
    with pytest.raises(InvalidLQL, match="does not say which table"):
        choose_table(parse_lql(""), OTHERS, default="edge_logs")


# ── the SQL


@pytest.mark.parametrize(
    ("lql", "sql"),
    [
        ("", f'SELECT {ALL_COLUMNS} FROM "edge_logs" AS t ORDER BY t."timestamp" DESC, t."id" DESC'),
        (
            "id:abc -total:>5",
            f'SELECT {ALL_COLUMNS} FROM "edge_logs" AS t WHERE "id" = @lql_1 AND ("total" > @lql_2) IS NOT TRUE'
            ' ORDER BY t."timestamp" DESC, t."id" DESC',
        ),
        (
            "m.level:error t:2024-05-14 s:id s:m.user.id@user",
            'SELECT "1" AS "id", CASE WHEN "2" -> 1 IS NULL THEN "2" -> 0 ELSE "2" END AS "user"'
            ' FROM (SELECT "id" AS "1", jsonb_path_query_array("metadata", (SELECT @lql_5::jsonpath)) AS "2"'
            ' FROM (SELECT "id", "metadata" FROM "edge_logs" AS t'
            ' WHERE jsonb_path_exists("metadata", (SELECT @lql_1::jsonpath), (SELECT @lql_2::jsonb))'
            ' AND "timestamp" >= @lql_3 AND "timestamp" <= @lql_4 ORDER BY t."timestamp" DESC, t."id" DESC) AS r) AS s',
        ),
        (
            "50% -~x c:count(*)",
            'SELECT date_trunc(\'minute\', "timestamp", \'UTC\') AS "timestamp", count(*) AS "count"'
            ' FROM "edge_logs" AS t WHERE strpos("event_message", @lql_1) > 0'
            ' AND ("event_message" ~ @lql_2) IS NOT TRUE'
            " AND GREATEST('' ~ @lql_2) IS NOT NULL GROUP BY 1 ORDER BY 1",
        ),
    ],
)
def test_writes_this_sql(lql: str, sql: str) -> None:
    query = lowered(lql)
    assert query.sql == sql
    assert checked(query).relations == {"edge_logs"}


def test_a_time_is_a_parameter_of_its_own_type() -> None:
    query = lowered("t:2024-05-14 total:7 total:7.5 total:99999999999999999999")
    types = [(parameter.type, query.arguments[parameter.name]) for parameter in query.parameters]
    assert types == [
        (ParameterType.TIMESTAMP, "2024-05-14T00:00:00.000000Z"),
        (ParameterType.TIMESTAMP, "2024-05-14T23:59:59.999999Z"),
        (ParameterType.INTEGER, "7"),
        (ParameterType.NUMBER, "7.5"),
        (ParameterType.NUMBER, "99999999999999999999"),
    ]


def test_every_relative_time_counts_from_the_given_reading_of_the_clock() -> None:
    query = lowered("t:last@1h t:<=now")
    assert list(query.arguments.values()) == ["2024-05-15T11:00:00.000000Z", "2024-05-15T12:30:45.000000Z"]


def test_equal_values_share_a_parameter() -> None:
    assert dict(lowered("m.a:x m.a:x -m.a:x").arguments) == {
        "lql_1": '$."a" ? (@ == $v && @.type() != "array")',
        "lql_2": '{"v": ["x"]}',
    }


HOSTILE = st.text(max_size=40) | st.sampled_from(
    ("'; DROP TABLE x --", '") ? (@ == 1', "$v", "@lql_1", "\\", "\\'", '"', "/*", "$$", "{}", "1e5", "é\u2028", "%s")
)


@given(HOSTILE.filter(lambda text: not re.search("[\0\ud800-\udfff]", text)))
def test_no_value_ever_stands_in_the_sql(text: str) -> None:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    template = 'm.a:"{0}" m.b.c:>"{0}" m.d:~"{0}" m.e:@>~"{0}" id:"{0}" -id:>"{0}" "{0}" ~"{0}"'
    query = lowered(template.format(quoted))
    assert re.sub(r"@lql_\d+", "@", query.sql) == re.sub(r"@lql_\d+", "@", lowered(template.format("zzz")).sql)
    assert set(find_parameters(query.sql)) == set(query.arguments)
    checked(query)


ODD = {
    "timestamp": "date",
    "id": "text",
    "document": "json",
    "owners": "uuid[]",
    "metadata.level": "text",
    "place": "point",
    "days": "date[]",
    "code": "character(5)",
}


@pytest.mark.parametrize(
    ("lql", "ids"),
    [
        ("t:2024-05-14", ["a"]),
        ("t:>2024-05-14", ["b"]),
        ("t:>=2024-05-14T00:00:01", ["b"]),
        ("t:today", ["b"]),
        ("t:last@2d", ["a", "b"]),
        ("document.n:>1", ["b"]),
        ('document.n:~"^1$"', ["a"]),
        ("-document.n:NULL", ["a", "b"]),
        ("owners:@>00000000-0000-0000-0000-000000000001", ["a"]),
        ("owners:~7$", ["b"]),
        ("m.level:info..error", ["a"]),
        ("place:~^.1", ["a"]),
        ('place:"(2,3)"', ["b"]),
        ("days:2024-05-14", ["a"]),
        ("code:x", ["a"]),
    ],
)
def test_columns_of_other_types(live_table: LiveTable, lql: str, ids: list[str]) -> None:
    assert [row[1] for row in odd_rows(live_table, lql)] == list(reversed(ids))


@pytest.mark.parametrize(
    ("lql", "values"),
    [
        ("c:countd(place)", [1, 1]),
        ("c:count(owners)", [1, 1]),
        ("c:sum(document.n)", [1, 2]),
        ("c:countd(document.n)", [1, 1]),
        ("c:count(*)", [1, 1]),
    ],
)
def test_charts_of_other_types(live_table: LiveTable, lql: str, values: list[int]) -> None:
    found = odd_rows(live_table, f"{lql} c:group_by(t::day)")
    assert found == [(datetime(2024, 5, 14 + day, tzinfo=UTC), value) for day, value in enumerate(values)]


def odd_rows(live_table: LiveTable, lql: str) -> list[tuple[Any, ...]]:
    columns = ", ".join(f'"{name}" {type_}' for name, type_ in ODD.items())
    table = LQLTable("odd", tuple(Column(name, type_) for name, type_ in ODD.items()))
    query = lowered(lql, table)
    statement = checked(query, table).statement(query.arguments, max_rows=10)
    with live_table.connection.transaction(force_rollback=True), psycopg.RawCursor(live_table.connection) as cursor:
        cursor.execute(f"CREATE TEMP TABLE odd ({columns})")
        owner = "00000000-0000-0000-0000-00000000000"
        rows = (
            ("2024-05-14", "a", '{"n": 1}', f"{{{owner}1}}", "error", "(1,2)", "{2024-05-14}", "x"),
            ("2024-05-15", "b", '[{"n": "2"}]', f"{{{owner}7,NULL}}", "Error", "(2,3)", "{2024-05-15}", None),
        )
        for row in rows:
            cursor.execute("INSERT INTO odd VALUES ($1, $2, $3, $4, $5, $6, $7, $8)", row)
        return cursor.execute(statement.sql, statement.arguments).fetchall()


# ── refusals


@pytest.mark.parametrize(
    ("lql", "message"),
    [
        ("s:a s:m.b@a", "Line 1, column 5: two columns are called `a`. Give one of them another name with an alias"),
        ("s:id@x s:id@y s:total@x", "two columns are called `x`"),
        (f"s:m.{'a' * 60}", "is over 63 bytes. Give it a shorter name with an alias"),
        ("s:id.x", "`id` is not JSON but text"),
        ("m.a:1\n t:last@9999y", "Line 2, column 2: the interval begins before the year 1"),
        ("total:x", "Line 1, column 1: expected number for `total`, got 'x'"),
        ("c:count(*) s:id", "Line 1, column 12: a chart has the columns of its buckets, so `s:` chooses nothing"),
        ("s:m.a@b\n c:avg(m.b)", "Line 1, column 1: a chart has the columns of its buckets"),
        ("c:group_by(t::day) id:a s:*", "Leave out the selection to count rows, or the chart to list them."),
    ],
)
def test_refuses_with_the_place(lql: str, message: str) -> None:
    with pytest.raises(InvalidLQL) as refusal:
        lowered(lql)
    assert message in refusal.value.message


def test_a_select_written_twice_counts_once() -> None:
    assert lowered("s:id s:id s:id@id").sql.startswith('SELECT "id" FROM')
    assert lowered("s:id s:id@other").sql.startswith('SELECT "id", "id" AS "other" FROM')


def test_a_name_of_63_bytes_is_a_name() -> None:
    query = lowered(f"s:m.{'a' * 54} s:m.{'b' * 60}@short")
    assert f'"metadata.{"a" * 54}"' in checked(query).sql


@pytest.mark.parametrize("lql", ["t:today", "c:count(*)", "foo", "m.a:1", "s:a"])
def test_a_table_without_the_column_is_refused_not_searched_for_it(lql: str) -> None:
    table = LQLTable("counts", (Column("day", "date"), Column("total", "integer")))
    with pytest.raises(InvalidLQL) as refusal:
        lowered(lql, table)
    assert refusal.value.details[0]["expected"] == ["`day`", "`total`"]


def test_a_table_without_timestamp_has_no_order() -> None:
    table = LQLTable("counts", (Column("day", "date"), Column("total", "integer")))
    assert lowered("total:1", table).sql == 'SELECT "day", "total" FROM "counts" AS t WHERE "total" = @lql_1'


def test_regular_expressions_are_told_with_their_places() -> None:
    query = lowered('~a m.x:~"b" -m.y:@>~c m.z:"~d" ~a')
    assert query.regular_expressions == (("a", 0), ("b", 3), ("c", 13), ("a", 31))


@pytest.mark.parametrize("lql", ["~(", 'm.x:~"[a"', "-m.x:@>~*a", "tags:~a{2,1}", "~ok ~(", "m.a:1 ~( m.b:2"])
def test_an_invalid_pattern_fails_over_an_empty_table(live_table: LiveTable, lql: str) -> None:
    live_table.fill([])
    with pytest.raises(psycopg.errors.InvalidRegularExpression):
        live_table.fetch(parse_lql(lql))


@pytest.mark.parametrize("lql", ["~a", 'm.x:~"b"', "tags:~a ~b ~c"])
def test_a_valid_pattern_leaves_nothing_in_the_plan(live_table: LiveTable, lql: str) -> None:
    query = lower(parse_lql(lql), live_table.table, now=NOW)
    statement = checked(query, live_table.table).statement(query.arguments, max_rows=10)
    with psycopg.RawCursor(live_table.connection) as cursor:
        cursor.execute("EXPLAIN " + statement.sql, statement.arguments, prepare=False)
        assert not [row for row in cursor if "GREATEST" in row[0]]


# ── size

CLAUSES = (
    "-m.request.headers.{n}:~x{n}",
    "-m.request.headers.a{n}:>{n}",
    "m.response.status_code:{n}..1000",
    "-m.a{n}:@>~y{n}",
    "t:2024-05-14",
    "word{n}",
    "-~word{n}",
    "-id:>a{n}",
    "m.a{n}:NULL",
    "-m.level:debug..error",
    "-total:{n}..2000",
    "m.a{n}:1715680800{n:03}",
)
# Each is read by two calls, and takes the room of three of the others.
MOMENTS = (
    "-m.a{n}:2024-05-14T00:00:00..2024-05-15T00:00:00.{n:06}",
    'm.a{n}:>"2024-05-14 10:00:00.{n:06}"',
    "m.a{n}:>1715680800{n:03}",
)


@pytest.mark.parametrize("clause", [*CLAUSES, "mixed"])
def test_a_hundred_clauses_pass_the_checker(clause: str) -> None:
    clauses = list(islice(cycle(CLAUSES), 100)) if clause == "mixed" else [clause] * 100
    query = lowered(" ".join(clause.format(n=n) for n, clause in enumerate(clauses)))
    assert len(checked(query).parameter_names) == len(query.arguments)


@pytest.mark.parametrize("clause", MOMENTS)
def test_thirty_clauses_with_moments_pass_the_checker_beside_forty_others(clause: str) -> None:
    clauses = [*[clause] * 30, *islice(cycle(CLAUSES), 40)]
    query = lowered(" ".join(clause.format(n=n) for n, clause in enumerate(clauses)))
    assert len(checked(query).parameter_names) == len(query.arguments)


@pytest.mark.parametrize("clause", [*CLAUSES, "mixed"])
def test_fifty_selects_and_fifty_filters_pass_the_checker(clause: str) -> None:
    clauses = list(islice(cycle(CLAUSES), 50)) if clause == "mixed" else [clause] * 50
    selects = [f"s:m.{'a' * 48}.b{n:03}" for n in range(50)]
    query = lowered(" ".join([*selects, *(clause.format(n=n) for n, clause in enumerate(clauses))]))
    assert len(checked(query).parameter_names) == len(query.arguments)


# ── names in quotes


def test_a_column_is_called_after_the_names_of_its_path() -> None:
    query = lowered('s:m."x-real-ip" s:m."log level"."a.b" s:m."é"@e')
    for name in ("metadata.x-real-ip", "metadata.log level.a.b", "e"):
        assert f'AS "{name}"' in query.sql
    assert {'$."x-real-ip"', '$."log level"."a.b"', '$."\\u00e9"'} == set(query.arguments.values())
    checked(query)


@pytest.mark.parametrize(
    ("lql", "message"),
    [
        ('s:m."é"', "Line 1, column 1: a column's name is printable ASCII"),
        (r's:id s:m."a\"b"', "Line 1, column 6: a column's name is printable ASCII"),
        (r's:m."a\\b"', "a column's name is printable ASCII"),
        ('s:m."a.b" s:m.a.b', "two columns are called `metadata.a.b`"),
    ],
)
def test_a_name_that_no_column_can_have_needs_an_alias(lql: str, message: str) -> None:
    with pytest.raises(InvalidLQL) as refusal:
        lowered(lql)
    assert message in refusal.value.message
    assert "alias" in refusal.value.message
