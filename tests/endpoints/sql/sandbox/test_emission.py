"""What runs: written anew from the checked tokens, names quoted and pinned, literals re-quoted, positions kept."""

from __future__ import annotations

import pytest

from endpoints.sql.parameters import DeclaredParameter, ParameterType
from endpoints.sql.sandbox import SandboxTable, check_sandbox_query

TABLES = (
    SandboxTable("edge_logs", ("id", "timestamp", "event_message", "metadata")),
    SandboxTable("auth_logs", ("id", "timestamp", "event_message", "metadata")),
)
PARAMETERS = (
    DeclaredParameter("project"),
    DeclaredParameter("since", ParameterType.TIMESTAMP),
    DeclaredParameter("names", ParameterType.TEXT_LIST),
)


def check(sql):
    return check_sandbox_query(sql, tables=TABLES, parameters=PARAMETERS)


@pytest.mark.parametrize(
    ("sql", "emitted"),
    [
        ("SELECT Id FROM Edge_Logs", 'SELECT "id" FROM "edge_logs"'),
        ('select "Mixed Case" from edge_logs', 'SELECT "Mixed Case" FROM "edge_logs"'),
        ("select id as select from edge_logs", 'SELECT "id" AS "select" FROM "edge_logs"'),
        ("select id x, e.id from edge_logs e", 'SELECT "id" AS "x" , "e" . "id" FROM "edge_logs" AS "e"'),
        ("select count(*)--x", 'SELECT pg_catalog."count" ( * )'),
        ("select left('a', 1)", "SELECT pg_catalog.\"left\" ( 'a' , 1 )"),
        ("select 'C:\\x\\'", "SELECT E'C:\\\\x\\\\'"),
        ("select 'it''s ✓'", "SELECT 'it''s ✓'"),
        ("select 1::int[]", 'SELECT 1 :: pg_catalog."int4" [ ]'),
        ("select '1'::decimal(10,2)", "SELECT '1' :: pg_catalog.\"numeric\" ( 10 , 2 )"),
        ("select 'a'::character varying(3)", "SELECT 'a' :: pg_catalog.\"varchar\" ( 3 )"),
        ("select date '2025-01-01'", "SELECT pg_catalog.\"date\" '2025-01-01'"),
        (
            "select timestamp(0) with time zone 'now', double precision '1'",
            "SELECT TIMESTAMP ( 0 ) WITH TIME ZONE 'now' , DOUBLE PRECISION '1'",
        ),
        ("select interval '1-2' year to month", "SELECT INTERVAL '1-2' YEAR TO MONTH"),
        ("select extract(HOUR from now())", "SELECT EXTRACT ( 'hour' FROM pg_catalog.\"now\" ( ) )"),
        ("select substring('a', 1)", "SELECT pg_catalog.\"substring\" ( 'a' , 1 )"),
        ("select substring('a' from 1)", "SELECT SUBSTRING ( 'a' FROM 1 )"),
        ("select substring('a' similar 'b' escape 'c')", "SELECT SUBSTRING ( 'a' SIMILAR 'b' ESCAPE 'c' )"),
        ("select make_interval(days => 3)", 'SELECT pg_catalog."make_interval" ( "days" => 3 )'),
        ("select a[1:2] from (select array[1] a) s", 'SELECT "a" [ 1 : 2 ] FROM ( SELECT ARRAY [ 1 ] AS "a" ) AS "s"'),
        (
            "select * from unnest(array[1], array[2]) as t(a, b)",
            'SELECT * FROM ROWS FROM ( pg_catalog."unnest" ( ARRAY [ 1 ] ) , pg_catalog."unnest" ( ARRAY [ 2 ] ) )'
            ' AS "t" ( "a" , "b" )',
        ),
        ("select 1 - -1 , 2*-3", "SELECT 1 - - 1 , 2 * - 3"),
        ("select 1;", "SELECT 1"),
        ("select 1 where 1 is not distinct from 2", "SELECT 1 WHERE 1 IS NOT DISTINCT FROM 2"),
        ("select id from edge_logs where id in ((select id from auth_logs limit 1), null)",
         'SELECT "id" FROM "edge_logs" WHERE "id" IN ( ( SELECT "id" FROM "auth_logs" LIMIT 1 ) , NULL )'),
        ("select 1 where 1 in ((select 1) union (select 2))",
         "SELECT 1 WHERE 1 IN ( ( SELECT 1 ) UNION ( SELECT 2 ) )"),
    ],
)  # fmt: skip
def test_writes_the_query_anew(sql, emitted):
    assert check(sql).sql == emitted


def test_numbers_parameters_and_casts_them():
    checked = check("select @project, @since from edge_logs where id = any(@names) and event_message <> @project")
    assert checked.sql == (
        'SELECT ($1::text) , ($2::timestamptz) FROM "edge_logs" '
        'WHERE "id" = ANY ( ($3::text[]) ) AND "event_message" <> ($1::text)'
    )
    assert checked.parameter_names == ("project", "since", "names")


def test_binds_arguments_in_the_order_of_their_numbers():
    statement = check("select @since, @project").statement({"project": "a", "since": None, "names": []}, max_rows=10)
    assert statement.arguments == (None, "a")
    assert statement.sql == "SELECT * FROM (\nSELECT ($1::timestamptz) , ($2::text)\n) AS result LIMIT 11"


def test_tells_which_tables_and_functions_are_used():
    checked = check("with c as (select count(*) from edge_logs) select c.count at time zone 'UTC' from c")
    assert checked.relations == {"edge_logs"}
    assert checked.functions == {"count", "timezone"}


def test_reads_the_sandbox_table_in_a_common_table_of_its_name():
    checked = check("with edge_logs as (select * from edge_logs) select id from edge_logs")
    assert checked.relations == {"edge_logs"}


@pytest.mark.parametrize("word", ["timestamp", "pg_catalog", '"event_message"', "now", "@project", "'x'", "edge_logs"])
def test_maps_positions_of_the_statement_to_the_consumers_text(word):
    sql = (
        "-- a comment\nselect timestamp, now() , @project,\n  'x' from  Edge_Logs e /* x */ where e.Event_Message = '1'"
    )
    checked = check(sql)
    statement = checked.statement({"project": "p"}, max_rows=5).sql
    emitted = {"timestamp": '"timestamp"', "edge_logs": '"edge_logs"', "@project": "$1", "now": '"now"'}.get(word, word)
    original = {"pg_catalog": "now", "edge_logs": "Edge_Logs", '"event_message"': "Event_Message"}.get(word, word)
    assert checked.original_offset(statement.index(emitted)) == sql.index(original)


def test_maps_every_offset_somewhere_into_the_text():
    sql = "select 1 from edge_logs"
    checked = check(sql)
    statement = checked.statement({}, max_rows=5).sql
    offsets = [checked.original_offset(offset) for offset in range(-1, len(statement) + 5)]
    assert offsets == sorted(offsets)
    assert set(offsets) == {0, 7, 9, 14}
