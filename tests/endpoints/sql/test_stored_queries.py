"""A stored query is taken apart into its CTEs as PostgreSQL reads them, or refused with the place."""

from __future__ import annotations

import pytest

from endpoints.sql.composition import CompositionError
from endpoints.sql.stored_queries import StoredTable, StoredTablesError, stored_tables
from tests.files import FIXTURES


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("select 1", []),
        ("values (1)", []),
        ("(with a as (select 1) select * from a)", []),
        ("select * from (with a as (select 1) select * from a) as b", []),
        ("with a as (select 1) select * from a", [("a", (), "select 1")]),
        ("WITH a AS MATERIALIZED (SELECT 1) TABLE a;", [("a", (), "SELECT 1")]),
        ("with a as not materialized (values (1)) select 2", [("a", (), "values (1)")]),
        ('with a (x, "Y") as (select 1, 2) select * from a', [("a", ("x", "Y"), "select 1, 2")]),
        ('with A as (select 1), "B ""c" as (table a) select 1', [("a", (), "select 1"), ('B "c', (), "table a")]),
        ("with ÉA as (select 1) select 1", [("Éa", (), "select 1")]),
        ("with a as ((select 1) union (select 2)) select 1", [("a", (), "(select 1) union (select 2)")]),
        (
            "with a as (select ')' as \"(\", @p, $$)$$ /* ) */) select 1",
            [("a", (), "select ')' as \"(\", @p, $$)$$ /* ) */")],
        ),
        (
            "with a as (with b as (select 1) select * from b) select 1",
            [("a", (), "with b as (select 1) select * from b")],
        ),
        ("-- x\nwith /* y */ a as ( select array[1][1] -- z\n ) select 1", [("a", (), " select array[1][1] -- z\n ")]),
        ("with pg_cron_logs as (select 1) select 1", [("pg_cron_logs", (), "select 1")]),
        ("with materialized as (select 1) select 1", [("materialized", (), "select 1")]),
    ],
)
def test_takes_a_query_apart(sql, tables) -> None:
    assert [(table.name, table.columns, table.sql) for table in stored_tables(sql)] == tables


def test_tells_where_each_name_stands() -> None:
    sql = "with a as (select 1),\n  b as (select 2) select 1"
    assert [sql[table.position] for table in stored_tables(sql)] == ["a", "b"]


@pytest.mark.parametrize(
    ("sql", "message", "at"),
    [
        ("with recursive a as (select 1) select 1", "WITH RECURSIVE", "recursive"),
        ("with pg_class as (select 1) select 1", "may not begin with `pg_`", "pg_class"),
        ("with pg_logs_of as (select 1) select 1", "may not begin with `pg_`", "pg_logs_of"),
        ('with "pg_x" as (select 1) select 1', "may not begin with `pg_`", '"pg_x"'),
        ("with a as (select 1), A as (select 2) select 1", "is defined twice", "A as"),
        ("with a as (delete from t returning *) select 1", "must be a SELECT", "delete"),
        ("with a as (insert into t values (1) returning *) select 1", "must be a SELECT", "insert"),
        (f"with {'x' * 64} as (select 1) select 1", "longer than 63 bytes", "xxxx"),
        (f"with {'é' * 32} as (select 1) select 1", "longer than 63 bytes", "é"),
        ("with a select 1", "`AS` is expected", "select"),
        ("with a as select 1", "`(` is expected", "select"),
        ("with a as not (select 1) select 1", "`MATERIALIZED` is expected", "(select"),
        ("with a (x y) as (select 1) select 1", "a list of column names", "y)"),
        ('with U&"a" as (select 1) select 1', "a plain or quoted name", "U&"),
        ("with a as (select 1)", "ends inside its WITH list", None),
        ("with", "ends inside its WITH list", None),
    ],
)
def test_refuses(sql, message, at) -> None:
    with pytest.raises(StoredTablesError) as refusal:
        stored_tables(sql)
    assert message in refusal.value.message
    assert refusal.value.position == (len(sql) if at is None else sql.index(at))


@pytest.mark.parametrize("sql", ["", "with a as (select 1) select 1; select 2", "with a as (select 1 select 1"])
def test_refuses_what_is_not_one_query(sql) -> None:
    with pytest.raises(CompositionError):
        stored_tables(sql)


def test_finds_the_shipped_sandbox_tables() -> None:
    def names(file: str) -> list[str]:
        return [table.name for table in stored_tables((FIXTURES / file).read_text())]

    assert names("usage.api-counts.sql") == ["dates", "chart_counts"]
    assert names("logs.all.sql") == [
        "edge_logs", "database_logs", "function_edge_logs", "function_logs", "auth_logs", "realtime_logs",
        "storage_logs", "rest_logs", "pooler_logs",
    ]  # fmt: skip


def test_is_a_plain_value() -> None:
    assert stored_tables("with a as (select 1) select 1") == (StoredTable("a", (), "select 1", 5),)
