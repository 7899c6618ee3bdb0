"""What a consumer is told: the construct, the reason, the place, the tables, and near names."""

from __future__ import annotations

import pytest

from endpoints.errors import SandboxViolation
from endpoints.sql.parameters import DeclaredParameter
from endpoints.sql.sandbox import SandboxTable, check_sandbox_query

TABLES = (
    SandboxTable("edge_logs", ("id", "timestamp", "event_message", "metadata")),
    SandboxTable("auth_logs", ("id", "timestamp", "event_message", "metadata")),
)
PARAMETERS = (DeclaredParameter("project"), DeclaredParameter("since"))


def refusal(sql):
    with pytest.raises(SandboxViolation) as raised:
        check_sandbox_query(sql, tables=TABLES, parameters=PARAMETERS)
    return raised.value


@pytest.mark.parametrize(
    ("sql", "construct", "line", "column"),
    [
        ("select * from auth_user", "auth_user", 1, 15),
        ("select *\nfrom public.edge_logs", "public", 2, 6),
        ("select pg_sleep(1)", "pg_sleep", 1, 8),
        ("select 1,\r\n  pg_catalog.version()", "version", 2, 14),
        ("select 'x'::regclass", "regclass", 1, 13),
        ("select cast(1 as public.t)", "public", 1, 18),
        ("select current_user", "current_user", 1, 8),
        ("select 1 operator(pg_catalog.+) 2", "operator", 1, 10),
        ("select 1 =# 2", "=#", 1, 10),
        ("select 1; select 2", ";", 1, 9),
        ("select 1 into t", "into", 1, 10),
        ("select * from edge_logs for update", "for", 1, 25),
        ("select * from edge_logs tablesample system (1)", "tablesample", 1, 25),
        ('select event_message collate "C" from edge_logs', "collate", 1, 22),
        ("table edge_logs", "table", 1, 1),
        ("select * from (values (1)) v", "values", 1, 16),
        ("with recursive t as (select 1) select * from t", "recursive", 1, 6),
        ("select e.pg_typeof from edge_logs e", "e.pg_typeof", 1, 10),
        ("select (e).id from edge_logs e", "id", 1, 12),
        ("select q.id from edge_logs e", "q", 1, 8),
        ("select a.b.c from edge_logs a", "b", 1, 10),
        ("select @nobody", "@nobody", 1, 8),
        ("select $1", "$1", 1, 8),
        ("select $$x$$", "$$x$$", 1, 8),
        ("select e'x'", "e'x'", 1, 8),
        ("select 0x1F", "0x1F", 1, 8),
        ("select 'ä', größe from edge_logs", "größe", 1, 13),
        ('select "größe" from edge_logs', '"größe"', 1, 8),
        ("select '\x07'", "U+0007", 1, 9),
        ("select 'x", "'", 1, 8),
        ("select (1", "(", 1, 8),
        ("select 1)", ")", 1, 9),
        ("select case when true then 1", "the end of the query", 1, 29),
        ("", "the query", 1, 1),
        ("-- nothing", "the query", 1, 11),
        ("select generate_series.n from upper('x') u", "upper", 1, 31),
        ("select * from edge_logs natural e", "e", 1, 33),
        ("select * from (edge_logs e cross join auth_logs a) j", "j", 1, 52),
        ("select * from jsonb_to_recordset('[]') r", "the end of the query", 1, 41),
        ("with a as (select 1), a as (select 2) select * from a", "a", 1, 23),
        ("select extract(color from timestamp) from edge_logs", "color", 1, 16),
        ("select id from edge_logs order by id using <", "using", 1, 38),
    ],
)
def test_names_the_construct_and_its_place(sql, construct, line, column):
    error = refusal(sql)
    (detail,) = error.details
    assert (detail["construct"], detail["line"], detail["column"]) == (construct, line, column)
    assert detail["tables"] == ["edge_logs", "auth_logs"]
    assert str(detail["reason"]) in error.message
    assert f"Line {line}, column {column}: " in error.message


@pytest.mark.parametrize(
    ("sql", "similar"),
    [
        ("select * from edge_log", ["edge_logs"]),
        ("with requests as (select 1) select * from request", ["requests"]),
        ("select date_trnc('day', timestamp) from edge_logs", ["date_trunc"]),
        ("select e.timestmp from edge_logs e", ["timestamp"]),
        ("select 1::intger", ["integer", "interval"]),
        ("select @projekt", ["project"]),
    ],
)
def test_suggests_near_names(sql, similar):
    error = refusal(sql)
    found = error.details[0]["similar"]
    assert found[: len(similar)] == similar
    assert f"Did you mean `{similar[0]}`" in error.message


def test_suggests_nothing_where_nothing_is_near():
    assert "similar" not in refusal("select * from zzz").details[0]


def test_shortens_what_is_quoted_back():
    detail = refusal(f"select $tag${'x' * 500}$tag$").details[0]
    assert len(detail["construct"]) == 64


@pytest.mark.parametrize(
    ("name", "is_allowed"),
    [("pg_cron_logs", True), ("pg_class", False), ("pg_stat_activity", False), ("pg_logs_", False)],
)
def test_a_table_whose_name_could_be_a_catalogs_is_refused_even_if_it_is_listed(name, is_allowed):
    tables = [SandboxTable(name, ("id",))]
    if is_allowed:
        assert check_sandbox_query(f"select id from {name}", tables=tables, parameters=()).relations == {name}
    else:
        with pytest.raises(SandboxViolation):
            check_sandbox_query(f"select id from {name}", tables=tables, parameters=())
