"""The query of one page: what gives way to it, what stays, and that its condition means "after" in PostgreSQL."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from endpoints.sql.composition import CompositionError
from endpoints.sql.page_orders import PageKey, parse_page_order
from endpoints.sql.page_queries import PageQueryError, compile_page, lift_order_and_limit, own_limit
from endpoints.sql.parameters import DeclaredParameter, ParameterType

pytestmark = pytest.mark.sql


@pytest.mark.parametrize(
    ("sql", "with_list", "body"),
    [
        ("select a from t", "", "select a from t"),
        ("select a from t order by a limit 100", "", "select a from t"),
        ("select a from t limit 10", "", "select a from t"),
        ("select a from t limit all;", "", "select a from t"),
        ("SELECT a FROM t ORDER BY a, b DESC -- newest\n LIMIT 5 ;", "", "SELECT a FROM t"),
        ("with t as (select 1 limit 2) select * from t order by 1", "with t as (select 1 limit 2) ", "select * from t"),
        ("with t (a) as not materialized (select 1), u as (select 2) (select * from t) limit 1",
         "with t (a) as not materialized (select 1), u as (select 2) ", "(select * from t)"),
        ("with recursive t as (values (1)) table t", "with recursive t as (values (1)) ", "table t"),
        ("select max(a order by a) from t group by b order by b", "", "select max(a order by a) from t group by b"),
        ("select x as order, y as limit from t", "", "select x as order, y as limit from t"),
        ("select t.limit, \"order\" by_it from t limit 3", "", "select t.limit, \"order\" by_it from t"),
        ("select 'limit 3' from t", "", "select 'limit 3' from t"),
        ("select a from t union select b from u order by 1 limit 3", "", "select a from t union select b from u"),
        ("select distinct on (a) a from t order by a, b limit 3", "", "select distinct on (a) a from t order by a, b"),
        ("select distinct a from t order by a", "", "select distinct a from t"),
    ],
)  # fmt: skip
def test_the_outermost_order_and_limit_give_way(sql: str, with_list: str, body: str) -> None:
    lifted = lift_order_and_limit(sql)
    assert (lifted.with_list, lifted.body) == (with_list, body)


@pytest.mark.parametrize(
    ("sql", "at"),
    [
        ("select a from t order by a offset 5", "offset"),
        ("select a from t limit 5 offset 5", "limit"),
        ("select a from t limit @rows", "limit"),
        ("select a from t limit 2 + 3", "limit"),
        ("select a from t order by a fetch first 3 rows with ties", "fetch"),
        ("select a from t for update", "for"),
    ],
)
def test_what_pages_cannot_keep_is_refused_at_its_place(sql: str, at: str) -> None:
    with pytest.raises(PageQueryError, match="LIMIT and a number") as refusal:
        lift_order_and_limit(sql)
    assert refusal.value.position == sql.index(at)


def test_a_text_that_is_not_one_query_is_refused_as_everywhere() -> None:
    with pytest.raises(CompositionError):
        lift_order_and_limit("select 1; select 2")
    with pytest.raises(PageQueryError, match="inside its WITH list"):
        lift_order_and_limit("with t as (select 1)")


def test_arguments_values_and_limit_are_bound_and_never_part_of_the_text() -> None:
    sql = "with t as (select @b::int as x) select @a as a, id from t where id > @b order by id limit 5"
    parameters = [DeclaredParameter("a"), DeclaredParameter("b", ParameterType.INTEGER)]
    keys = parse_page_order('a desc, "I""d"')
    hostile = "x' OR true --"
    query = compile_page(sql, parameters, keys, (hostile, "7"))
    statement = query.statement({"a": "one", "b": "2"}, (hostile, "7"), limit=11)
    assert statement.arguments == ("2", "one", hostile, "7", "11")
    assert hostile not in statement.sql
    assert 'ORDER BY result."a" DESC NULLS FIRST, result."I""d" ASC NULLS LAST LIMIT $5' in statement.sql
    assert statement.sql.startswith("with t as (select ($1::bigint)::int as x)")


def test_pages_of_one_shape_have_one_text() -> None:
    keys = parse_page_order("a, b")
    one, other = (compile_page("select 1 as a, 2 as b", (), keys, after) for after in (("1", "2"), ("3", "4")))
    assert one is other
    assert compile_page("select 1 as a, 2 as b", (), keys, ("1", None)).sql != one.sql


# --- Meaning ----------------------------------------------------------------------------------------------------------
keys_of_two = st.tuples(
    *(st.builds(PageKey, st.just(name), descending=st.booleans(), nulls_first=st.booleans()) for name in ("a", "b"))
)
values = st.none() | st.integers(0, 3)


def sorted_as(keys: tuple[PageKey, ...], rows: set[tuple[int | None, ...]]) -> list[tuple[int | None, ...]]:
    def compare(one: tuple[int | None, ...], other: tuple[int | None, ...]) -> int:
        for key, left, right in zip(keys, one, other, strict=True):
            if left == right:
                continue
            if left is None or right is None:
                return -1 if (left is None) is key.nulls_first else 1
            return -1 if (left < right) is not key.descending else 1
        return 0

    return sorted(rows, key=cmp_to_key(compare))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.sets(st.tuples(values, values), min_size=1, max_size=14), keys=keys_of_two, data=st.data())
def test_after_a_row_come_exactly_the_rows_behind_it(
    log_database: psycopg.Connection[Any], rows: set[tuple[int | None, ...]], keys: tuple[PageKey, ...], data: Any
) -> None:
    ordered = sorted_as(keys, rows)
    index = data.draw(st.integers(-1, len(ordered) - 1))
    after = None if index < 0 else tuple(None if value is None else str(value) for value in ordered[index])
    literals = ", ".join(
        f"({', '.join('NULL' if v is None else str(v) for v in row)})" for row in sorted(rows, key=str)
    )
    query = compile_page(f"SELECT a::int, b::int FROM (VALUES {literals}) AS v (a, b) LIMIT 1", (), keys, after)
    statement = query.statement({}, after, limit=5)
    with psycopg.RawCursor(log_database) as cursor:
        found = cursor.execute(statement.sql, statement.arguments).fetchall()
    assert [row[:2] for row in found] == ordered[index + 1 : index + 6]
    assert all(row[2:] == tuple(None if value is None else str(value) for value in row[:2]) for row in found)


def test_rows_without_a_value_are_in_no_page_of_a_column_declared_not_null(
    log_database: psycopg.Connection[Any],
) -> None:
    keys = parse_page_order("a not null")
    sql = "SELECT a FROM (VALUES (1), (NULL), (2), (3)) AS v (a)"
    for after, expected in ((None, [1, 2, 3]), (("1",), [2, 3]), (("3",), [])):
        statement = compile_page(sql, (), keys, after).statement({}, after, limit=5)
        with psycopg.RawCursor(log_database) as cursor:
            assert [row[0] for row in cursor.execute(statement.sql, statement.arguments)] == expected


# --- The query's own limit --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select a from t", None),
        ("select a from t limit 100", 100),
        ("SELECT a FROM t ORDER BY a LIMIT 5 OFFSET 2;", 5),
        ("select a from t offset 2 rows limit 5 -- newest\n", 5),
        ("select a from t limit (7)", 7),
        ("select a from t limit 7::int", 7),
        ("select a from t limit @n", "n"),
        ("select a from t limit ( @n::bigint )", "n"),
        ("select a from t offset @n limit @m for share", "m"),
        ("select a from t fetch first 5 rows only", 5),
        ("select a from t offset 1 fetch next 5 rows only", 5),
        ("with t as (select 1 limit 2) select * from t", None),
        ("with t as (select 1 limit 2) select * from t limit 3", 3),
        ("with t (a) as (select 1) (select * from t limit 9) limit 1", 1),
        ("(select 1 limit 2) union all (select 2 limit 3)", None),
        ("select 1 union all select 2 limit 4", 4),
        ("select (select 1 limit 1) from t", None),
        ("select x as limit from t", None),
        ("select t.limit from t", None),
        ("select 'limit 3' from t", None),
        ("select a from t limit all", None),
        ("select a from t limit null", None),
        ("select a from t limit 2 + 3", None),
        ("select a from t limit least(@n, 100)", None),
        ("select a from t limit 1.5", None),
        ("select a from t limit 1e2", None),
        ("select a from t limit @n::numeric", None),
        ("select a from t fetch first row only", None),
        ("values (1), (2) limit 1", 1),
        ("table t limit 8", 8),
    ],
)
def test_the_outermost_limit_is_known_if_it_is_a_number_or_a_parameter(sql: str, expected: int | str | None) -> None:
    assert own_limit(sql) == expected
