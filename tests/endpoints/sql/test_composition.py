from __future__ import annotations

from decimal import Decimal

import pglast
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.results.outcomes import BoundValue, Statement
from endpoints.sql.composition import (
    CompositionError,
    compile_query,
    limit_rows,
    original_offset,
    replace_parameters,
)
from endpoints.sql.parameters import DeclaredParameter, ParameterType, coerce_arguments

T = ParameterType
PARAMETERS = (
    DeclaredParameter("project", required=True),
    DeclaredParameter("start", T.TIMESTAMP),
    DeclaredParameter("n", T.INTEGER),
    DeclaredParameter("tags", T.TEXT_LIST),
)
SENDABLE_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1)


@pytest.mark.parametrize(
    ("sql", "bound", "values"),
    [
        ("select 1", "select 1", ()),
        ("select @project", "select ($1::text)", ("abc",)),
        ("select @n, @project, @n", "select ($1::bigint), ($2::text), ($1::bigint)", ("5", "abc")),
        ("select a from t where b>@start", "select a from t where b>($1::timestamptz)", (None,)),
        ("select @start::date", "select ($1::timestamptz)::date", (None,)),
        ("select @tags[1]", "select ($1::text[])[1]", (["x", "y"],)),
        ("select a = any(@tags)", "select a = any(($1::text[]))", (["x", "y"],)),
        ("select '@project' -- @n", "select '@project'", ()),
        ("select @unknown", "select ($1::text)", (None,)),
        ("select a <@b, @-5, @ @n", "select a <@b, @-5, @ ($1::bigint)", ("5",)),
    ],
)
def test_replaces_names_by_numbered_placeholders(sql: str, bound: str, values: tuple[BoundValue, ...]) -> None:
    arguments: dict[str, BoundValue] = {
        "project": "abc",
        "start": None,
        "n": "5",
        "tags": ["x", "y"],
        "unknown": None,
    }
    statement = compile_query(sql, PARAMETERS, max_rows=10).statement(arguments)
    assert statement == Statement(limit_rows(bound, max_rows=10), values)
    pglast.parse_sql(statement.sql)


@pytest.mark.parametrize("type_", list(ParameterType))
def test_casts_to_the_declared_type(type_: ParameterType) -> None:
    query = compile_query("select @p", [DeclaredParameter("p", type_)], max_rows=10)
    assert query.sql == limit_rows(f"select ($1::{type_.postgresql_type})", max_rows=10)


def test_needs_an_argument_for_every_placeholder() -> None:
    with pytest.raises(KeyError, match="project"):
        compile_query("select @project", PARAMETERS, max_rows=10).statement({})


@pytest.mark.parametrize(
    "sql", ["select 1", "select 1;", " \n select 1 ; -- done\n/* really */ ", "/* why */ select 1", "-- why\nselect 1"]
)
def test_wraps_one_query_and_asks_for_a_spare_row(sql: str) -> None:
    assert compile_query(sql, (), max_rows=100).sql == "SELECT * FROM (\nselect 1\n) AS result LIMIT 101"


@pytest.mark.parametrize(
    "sql",
    [
        "select 1 -- x\n, 2 -- y",
        'select \';\' as a, $$;$$ as b, ";" from t as t(";")',
        "with a as (select 1 as x) select * from a order by x limit 5",
        "(select 1) union all (select 2)",
        "values (1), (2)",
        "select (array[1,2])[1:2], (array[1])[1]",
        "select ')' as a /* ) */",
        "table t",
        "select $q$ ) ; $1 $q$ as a",
    ],
)
def test_composed_queries_are_one_select_for_postgresql(sql: str) -> None:
    (raw,) = pglast.parse_sql(compile_query(sql, (), max_rows=0).sql)
    assert type(raw.stmt).__name__ == "SelectStmt"
    assert len(raw.stmt.fromClause) == 1


@pytest.mark.parametrize(
    ("sql", "line", "column", "reason"),
    [
        ("select 1; select 2", 1, 9, "second statement"),
        ("select 1;;", 1, 9, "second statement"),
        ("select 1;\n-- a\n; -- b", 1, 9, "second statement"),
        ("select (1; 2)", 1, 10, "second statement"),
        ("select 1) as a, (select 2", 1, 9, "closes nothing"),
        ("select 1) as result; drop table t; select (1", 1, 9, "closes nothing"),
        ("select (\n[1)]", 2, 3, "closes nothing"),
        ("select (1", 1, 8, "never closed"),
        ("select a[1", 1, 9, "never closed"),
        ("select\n  $1", 2, 3, "not a numbered parameter"),
        ("", 1, 1, "no query"),
        (" ; ", 1, 1, "no query"),
        ("-- nothing", 1, 1, "no query"),
        ("delete from t", 1, 1, "begins with SELECT"),
        ("\n explain select 1", 2, 2, "begins with SELECT"),
        ("t join u on true", 1, 1, "begins with SELECT"),
        ("@project", 1, 1, "begins with SELECT"),
        ('"select" 1', 1, 1, "begins with SELECT"),
        ("ſelect 1", 1, 1, "begins with SELECT"),
        ("select\r\n'a", 2, 1, "string is never closed"),
        ("select x@project", 1, 9, "space or an operator before @project"),
        ('select "x"@project', 1, 11, "space or an operator before @project"),
    ],
)
def test_refuses_what_is_not_one_query(sql: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(CompositionError, match=reason) as refusal:
        compile_query(sql, PARAMETERS, max_rows=10)
    assert (refusal.value.line, refusal.value.column) == (line, column)
    assert refusal.value.message in str(refusal.value)


def test_compiles_a_query_once() -> None:
    sql = "select @n as compiled_once"
    assert compile_query(sql, list(PARAMETERS), max_rows=10) is compile_query(sql, PARAMETERS, max_rows=10)
    assert compile_query(sql, PARAMETERS, max_rows=11) is not compile_query(sql, PARAMETERS, max_rows=10)
    assert compile_query(sql, (), max_rows=10).sql != compile_query(sql, PARAMETERS, max_rows=10).sql


def test_replaces_names_by_any_sql() -> None:
    sql = replace_parameters("select @a, '@b', @c;", lambda name: f"(select argument('{name}'))::text")
    assert sql == "select (select argument('a'))::text, '@b', (select argument('c'))::text"


@pytest.mark.parametrize(
    ("sql", "found", "original"),
    [
        ("select nope", "nope", "nope"),
        (" -- why\n select @n, @start, nope;", "nope", "nope"),
        ("select @n, @project, @n + @n, nope", "nope", "nope"),
        ("select é, @project, nope", "nope", "nope"),
        ("select @project, 1", "$1", "@project"),
        ("select 1, @tags", "::text[]", "@tags"),
        ("select 1 as a ; ", " AS result", " ; "),
        ("  select 1", "SELECT * FROM", "select 1"),
    ],
)
def test_leads_error_positions_back_to_the_stored_text(sql: str, found: str, original: str) -> None:
    offset = compile_query(sql, PARAMETERS, max_rows=10).sql.index(found)
    assert original_offset(sql, PARAMETERS, offset) == sql.index(original)


@settings(deadline=None, max_examples=200)
@given(project=SENDABLE_TEXT, number=st.integers(-(2**63), 2**63 - 1), tags=st.lists(SENDABLE_TEXT))
def test_values_never_enter_the_sql(project: str, number: int, tags: list[str]) -> None:
    sql = "select @project, @n, @tags, @start"
    arguments = coerce_arguments(PARAMETERS, {"project": project, "n": Decimal(number), "tags": list(tags)})
    statement = compile_query(sql, PARAMETERS, max_rows=10).statement(arguments)
    assert statement.sql == (
        "SELECT * FROM (\nselect ($1::text), ($2::bigint), ($3::text[]), ($4::timestamptz)\n) AS result LIMIT 11"
    )
    assert statement.arguments == (project, str(number), tags or None, None)
