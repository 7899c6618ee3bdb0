"""The twins in log_functions: they answer as PostgreSQL's own do, vanish where nothing is large, and refuse in time."""

from __future__ import annotations

import re
from typing import Any

import psycopg
import pytest

from endpoints.sql.sandbox import check_sandbox_query
from logsources.guard_definitions import DOMAINS
from logsources.guards import (
    GUARD_SQLSTATE,
    LARGEST_HASHED,
    LARGEST_VALUE,
    LARGEST_VALUE_SETTING,
    SMALL_VALUE,
    largest_value,
)
from logsources.log_functions import GUARD_FUNCTIONS, ensure_guard_functions

CHECK_VIOLATION = "23514"
# Each as a consumer writes it; a short pattern goes straight, a long one is measured, NULL is NULL.
# In the place of `$`: a short pattern goes straight, a long one is measured, NULL is NULL.
PATTERNS = ("'b'", "''", "'%b%'", "null", f"'{'b' * 70}'", f"'{'a%' * 40}'")
SAME = [
    "translate('abcabc', $, 'xy')",
    "initcap($)",
    "btrim('abcab', $)",
    "ltrim('abcab', $)",
    "rtrim('abcab', $)",
    "btrim('abcab'::bytea, ($)::bytea)",
    "trim(both $ from 'abcab')",
    "trim(leading $ from 'abcab')",
    "trim(trailing from 'ab  ')",
    "trim($)",
    "trim('abcab', $)",
    "strpos('abcab', $)",
    "position($ in 'abcab')",
    "position(($)::bytea in 'abcab'::bytea)",
    "replace('abcab', $, 'xyz')",
    "split_part('abcab', $, 2)",
    "string_to_array('abcab', $)",
    "string_to_array('abcab', $, 'ab')",
    "array_to_string(array['a', null, 'c'], $)",
    "array_to_string(array[1, null, 3], $, 'x')",
    "'abcab' like $",
    "'abcab' not ilike $",
    "'abcab' like $ escape '#'",
    "'abcab' like any (array[$, 'ab%'])",
    "'abcab'::bytea like ($)::bytea",
    "md5($)",
    "sha256(($)::bytea)",
    "'x' || upper($)",
    "upper($) || 5",
    "true || upper($)",
    "concat('a', $, 5)",
    "format('%5s|%-5s|', 'a', $)",
    "format(upper($) || '%s', 5)",
    "array[1, 2, 3] && array[3, 4]",
    "array[1, 2, 3] @> array[3, 1]",
    "array['a'] <@ array['a', 'b']",
    "int4range(1, 5) @> 3",
    "int4range(1, 5) && int4range(4, 6)",
    "inet '10.0.0.1' << inet '10.0.0.0/8'",
    """'{"a": [1, {"b": 2}]}'::jsonb @> '{"a": [{"b": 2}]}'""",
    """'{"a": 1}'::jsonb <@ '{"a": 1, "b": 2}'::jsonb""",
    """'{"a": 1, "b": 2}'::jsonb - array['a', 'c']""",
    """'{"a": 1, "b": 2}'::jsonb - 'a'""",
    """'{"a": 1}'::jsonb ?| array['a', 'c']""",
    """'{"a": 1}'::jsonb ?& array['a', 'c']""",
    """to_jsonb(1) || to_jsonb('a'::text)""",
    "array[1] || array[2]",
    "array[1] || coalesce(null, 2)",
    "coalesce(null, 1) || array[2, 3]",
    "array_agg(1) || array[2]",
    "string_agg('a', 'b')",
    "jsonb_agg(1)",
    "json_object_agg('a', 1)",
    "array_agg(array[1, 2])",
]
LONG = f"select string_agg('{'a' * 1024}', '') as v from generate_series(1, 500) offset 0"
BUILD = f"with large as materialized (select string_agg('{'a' * 100}', '') as a, "
BUILD += f"string_agg('{'b' * 100}', '') as b from generate_series(1, 20000)) "
REFUSED = [
    ("length(translate(a, b, ''))", GUARD_SQLSTATE),
    ("length(btrim(a, b))", GUARD_SQLSTATE),
    ("length(trim(leading b from a))", GUARD_SQLSTATE),
    ("strpos(a, b)", GUARD_SQLSTATE),
    ("position(b in a)", GUARD_SQLSTATE),
    ("length(replace(a, b, 'x'))", GUARD_SQLSTATE),
    ("length(replace(a, 'a', left(b, 100)))", GUARD_SQLSTATE),
    ("length(split_part(a, b, 2))", GUARD_SQLSTATE),
    ("cardinality(string_to_array(a, b))", GUARD_SQLSTATE),
    ("a like b", GUARD_SQLSTATE),
    ("a not ilike b", GUARD_SQLSTATE),
    ("a like any (array[b])", GUARD_SQLSTATE),
    ("length(a || a || a)", CHECK_VIOLATION),
    ("length(concat(a, a, a))", CHECK_VIOLATION),
    ("length(format('%s%s%s', a, a, a))", CHECK_VIOLATION),
    ("format('%' || left('50000', 5) || 's', '')", CHECK_VIOLATION),
    ("sha256(convert_to(a, 'UTF8'))", CHECK_VIOLATION),
    ("md5(a)", CHECK_VIOLATION),
    ("string_to_array(a, null) && string_to_array(b, null)", GUARD_SQLSTATE),
    ("string_to_array(a, null) @> string_to_array(b, null)", GUARD_SQLSTATE),
    ("string_to_array(a, null) <@ string_to_array(b, null)", GUARD_SQLSTATE),
    ("to_jsonb(string_to_array(a, null)) - string_to_array(b, null)", GUARD_SQLSTATE),
    ("to_jsonb(string_to_array(a, null)) ?| string_to_array(b, null)", GUARD_SQLSTATE),
    ("to_jsonb(string_to_array(a, null)) @> to_jsonb(string_to_array(b, null))", GUARD_SQLSTATE),
    ("length(array_to_string(string_to_array(a, null), left(b, 1000)))", GUARD_SQLSTATE),
]


@pytest.fixture
def reader(superuser: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    """A connection that is sandbox_reader with the search path of sandbox queries."""
    superuser.execute("SET search_path = log_functions, pg_catalog, pg_temp")
    superuser.execute("SET statement_timeout = '5s'")
    superuser.execute("SET role = sandbox_reader")
    return superuser


def run(connection: psycopg.Connection[Any], sql: str) -> Any:
    row = connection.execute(check_sandbox_query(sql, tables=()).sql.encode()).fetchone()
    assert row is not None
    return row


def outcome(connection: psycopg.Connection[Any], sql: str) -> Any:
    try:
        cursor = connection.execute(sql.encode())
    except psycopg.Error as error:
        return error.sqlstate
    columns = [(column.name, column.type_code) for column in cursor.description or ()]
    return columns, cursor.fetchall()


@pytest.mark.parametrize(
    "call",
    ["initcap(v)", "translate(v, 'a', 'b')", "btrim(v, 'a')", "ltrim(v, 'a')", "rtrim(v, 'a')", "strpos(v, 'a')"],
)
def test_a_slow_function_looks_at_the_clock_before_it_takes_a_value_of_a_row(
    reader: psycopg.Connection[Any], call: str
) -> None:
    assert "log_functions.largest_value()" in DOMAINS["searched_text"][1]  # in PL/pgSQL, which looks at it
    checked = check_sandbox_query(f"select {call} from (select upper('a') as v offset 0) as t", tables=()).sql
    assert "::searched_text" in str(reader.execute(f"EXPLAIN (VERBOSE) {checked}".encode()).fetchall())


@pytest.mark.parametrize("expression", SAME)
def test_answers_as_postgresql_itself(reader: psycopg.Connection[Any], expression: str) -> None:
    texts = [f"select {expression.replace('$', one)}" for one in PATTERNS]
    twins = [outcome(reader, check_sandbox_query(sql, tables=()).sql) for sql in texts]
    reader.execute("SET search_path = pg_catalog")
    assert twins == [outcome(reader, sql) for sql in texts]


@pytest.mark.parametrize(("expression", "sqlstate"), REFUSED)
def test_refuses_operands_that_are_too_large_together(
    reader: psycopg.Connection[Any], expression: str, sqlstate: str
) -> None:
    with pytest.raises(psycopg.Error) as caught:
        run(reader, f"{BUILD} select {expression} from large")
    assert caught.value.sqlstate == sqlstate


@pytest.mark.parametrize(
    "condition",
    [
        "m like 'GET%'",
        "m ilike '%get%' and m not like '%x_'",
        "strpos(m, 'x') > 0 and position('x' in m) > 0",
        "btrim(m, ' ') = translate(m, 'abc', '') and replace(m, 'a', 'b') <> split_part(m, '/', 2)",
        "m || 'x' = 'x' and j @> '{\"a\": 1}'",
    ],
)
def test_nothing_is_measured_for_a_short_literal(reader: psycopg.Connection[Any], condition: str) -> None:
    sql = "with t as materialized (select null::text as m, null::jsonb as j) select 1 from t where "
    checked = check_sandbox_query(f"{sql} {condition}", tables=())
    plan = "\n".join(row[0] for row in reader.execute(f"EXPLAIN VERBOSE {checked.sql}".encode()).fetchall())
    assert "log_functions" not in re.sub(r"log_functions\.searched_\w+|log_functions\.built_\w+", "", plan)


def test_reads_the_pattern_of_like_as_before(superuser: psycopg.Connection[Any]) -> None:
    """The planner sees PostgreSQL's own operator, so an index of prefixes serves."""
    with superuser.transaction(force_rollback=True):
        superuser.execute("SET LOCAL search_path = log_functions, pg_catalog, pg_temp")
        superuser.execute("SET LOCAL enable_seqscan = off")
        superuser.execute("CREATE TABLE pg_temp.paths (path text)")
        superuser.execute("CREATE INDEX ON pg_temp.paths (path text_pattern_ops)")
        plan = "\n".join(
            row[0] for row in superuser.execute("EXPLAIN SELECT 1 FROM pg_temp.paths WHERE path LIKE '/rest%'")
        )
    assert "Index Cond" in plan


@pytest.mark.parametrize(
    ("function", "size"), [("upper(v) || 'x' || upper('')", LARGEST_VALUE), ("md5(v)", LARGEST_HASHED)]
)
def test_takes_values_up_to_the_limit(reader: psycopg.Connection[Any], function: str, size: int) -> None:
    built = f"select string_agg('{'a' * 1024}', '') as v from generate_series(1, {size // 1024} - 1)"
    assert run(reader, f"select length({function}) from ({built}) as q")[0] > 30


@pytest.mark.parametrize(
    "expression",
    [
        "v || 'x'",
        "format('%s', v)",
        "concat(v)",
        "replace(v, 'b', 'c')",
        "encode(convert_to(v, 'UTF8'), 'escape')",
        "regexp_replace(v, 'b', 'c')",
        "to_jsonb(v)",
        "jsonb_build_array(v)",
        "json_build_object('k', v)",
        "array_append(string_to_array(v, null), '')",
        "jsonb_agg(v)",
    ],
)
def test_a_long_query_builds_smaller_values(reader: psycopg.Connection[Any], expression: str) -> None:
    query = f"select num_nulls({expression}) from ({LONG}) as q"
    assert run(reader, query) is not None
    reader.execute(f"SET {LARGEST_VALUE_SETTING} = '{SMALL_VALUE}'")
    with pytest.raises(psycopg.Error) as caught:
        run(reader, query)
    assert caught.value.sqlstate in (GUARD_SQLSTATE, CHECK_VIOLATION)


def test_without_a_setting_the_limit_is_the_largest(reader: psycopg.Connection[Any]) -> None:
    reader.execute(f"SET {LARGEST_VALUE_SETTING} = ''")  # as PostgreSQL leaves it behind a transaction that set it
    assert run(reader, f"select length(v || 'x') from ({LONG}) as q") == (500 * 1024 + 1,)


@pytest.mark.parametrize(
    ("characters", "size"), [(1, LARGEST_VALUE), (500, LARGEST_VALUE), (10_000, 250_000), (10**6, SMALL_VALUE)]
)
def test_the_longer_a_query_the_smaller_what_it_may_build(characters: int, size: int) -> None:
    assert largest_value("x" * characters) == size


def test_no_domain_has_the_name_of_a_function() -> None:
    assert not DOMAINS.keys() & {function.name for function in GUARD_FUNCTIONS}


def test_can_be_made_again(log_database: psycopg.Connection[Any]) -> None:
    ensure_guard_functions(log_database)
    assert log_database.execute("SELECT log_functions.strpos('ab', 'b')").fetchone() == (2,)
