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

pytestmark = pytest.mark.sql

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
    "1.5 * 2 + 7 / 2.5 - 7 % 2.5 + 2.5 ^ 3 - 2 ^ 10 + 2 * 3 / 2",
    "1 / 3.0 * 1e20 / 7",
    "('NaN'::numeric * 2 + 'Infinity'::numeric / 3)::text",
    "('Infinity'::numeric % 3 + exp('-Infinity'::numeric))::text",
    "mod(7.5, 2) + mod(7, 2) + div(7.5, 2) + gcd(12, 18) + lcm(4, 6.0) + sqrt(2) + sqrt(2.0)",
    "exp(1.5) + ln(2.5) + log(2.5) + log(2, 64.0) + log10(5) + power(2, 3.5) + pow(2, 0.5) + exp(1)",
    "power(1.0001, 3650) + power(123456789.123456, 3) + power(0.5, 2000.5) + ln(1e50) + exp(-1000.5) + exp(300.5)",
    "power(0.0, 3) + power(-2.5, 3) + power(2.0, -3)",
    "stddev(2.5) + variance(1) + stddev_pop(distinct 2) + var_samp(2.5::float8)",
    "var_pop(2) over ()",
    "to_char(now() - now(), 'HH24:MI') || to_char(1234.5, $)",
    "to_number('1234', coalesce(null, '9999'))",
    "to_timestamp(0)",
    "upper('a')::text || 5::text || now()::date::text || cast(upper('b') as varchar(3))",
    "upper('abc')::char(2)",
    "upper('abc')::varchar",
    "(array[upper('a'), 'b'])::text",
    "(array[1, 2 + 3])::text[]",
    "cast(array[1.5, 2 + 3] as text[])",
    "row(1, upper($))::text",
    "(select array[upper('a'), 'b'])",
    "(select array[row(1, upper('a')), row(2, 'b')])",
    "array(select upper('a'))",
    "(select (1, upper('a')))",
    "(select (1, 2.5) = (1, abs(2.5)))",
    "(select (1, lower('A')) in ((1, 'a'), (2, 'b')))",
    "(select q from (select 1 as a, upper('b') as b) as q)",
    "(select row_to_json(q) from (select 1 as a, upper('b') as b) as q)",
    "array_to_json(array[1, 2 + 3])",
    "overlay(upper('abcd') placing 'xy' from 2 for 1)",
    "convert_from(convert_to(upper('a'), 'UTF8'), 'UTF8')",
    "jsonb_object(array['a', upper('b')])",
]
# Of the right size, and too large: with what is read from stored documents too.
NUMBERS = f"""with n as materialized (select repeated::numeric as large, left(repeated, 900)::numeric as fits,
    ('1.' || left(repeated, 450))::numeric as fraction from (select string_agg('{"7" * 100}', '') as repeated
    from generate_series(1, 655)) as t offset 0) select num_nulls($) from n"""
ARITHMETIC = {
    "large * large": CHECK_VIOLATION,
    "large * 2": CHECK_VIOLATION,
    "large / 7": CHECK_VIOLATION,
    "7 / large": CHECK_VIOLATION,
    "large % 7": CHECK_VIOLATION,
    "7 % large": CHECK_VIOLATION,
    "to_jsonb(large)::numeric * 2": CHECK_VIOLATION,
    "mod(large, 7)": CHECK_VIOLATION,
    "div(large, 7)": CHECK_VIOLATION,
    "gcd(large, 7)": CHECK_VIOLATION,
    "lcm(fits, fits + 1)": None,
    "lcm(large, 7)": CHECK_VIOLATION,
    "sqrt(large)": CHECK_VIOLATION,
    "large ^ 2": GUARD_SQLSTATE,
    "2.5 ^ large": GUARD_SQLSTATE,
    "power(10.5, 100000)": GUARD_SQLSTATE,
    "pow(10.5, 100000.5)": GUARD_SQLSTATE,
    "exp(5000.5)": GUARD_SQLSTATE,
    "exp(fraction)": GUARD_SQLSTATE,
    "ln(large)": GUARD_SQLSTATE,
    "log(large)": GUARD_SQLSTATE,
    "log(2, large)": GUARD_SQLSTATE,
    "log10(large)": GUARD_SQLSTATE,
    "stddev(large)": CHECK_VIOLATION,
    "var_pop(distinct large)": CHECK_VIOLATION,
    "variance(large) over ()": CHECK_VIOLATION,
    "1e131000 * 10": CHECK_VIOLATION,
    "'1e131000' / 2.5": CHECK_VIOLATION,
    "to_char(1.5, large::text)": CHECK_VIOLATION,
    "to_number('1', large::text)": CHECK_VIOLATION,
    "to_date('1', large::text)": CHECK_VIOLATION,
    "to_timestamp('1', large::text)": CHECK_VIOLATION,
    "number_series(1, 1, fraction)": None,
    # Sums have as many digits as their parts, and take a time that is linear.
    "large + large - 1": None,
    "fits * 7 / fits % 3": None,
    "fits * 3 / 7": None,
    "fraction * 7 / fraction": None,
    "sum(large)": None,
    "avg(fits)": None,
    "fits < large": None,
    "round(fits, -5)": None,
}
# Each level of such subqueries makes more of `x`: 14 of them make megabytes of a few hundred bytes; 31 fit in a query.
SEED = f"upper('{'a' * 200}')"
GROWING = {
    "text of a row": ("upper('\"\"')", "row(x, x)::text"),
    "text of a row without ROW": (SEED, "(x, x)::text"),
    "cast of a row": (SEED, "cast((x, x) as text)"),
    "varchar of a row": (SEED, "row(x, x)::varchar"),
    "character varying of a row": (SEED, "row(x, x)::character varying(10000000)"),
    "char of a row": (SEED, "row(x, x)::bpchar"),
    "text of an array": (SEED, "(array[x, x])::text"),
    "text of a whole row": (SEED, "q::text"),
    "text of bytes": (SEED, "convert_to(x, 'UTF8')::text"),
    "row": (SEED, "row(x, x)"),
    "row without ROW": (SEED, "(x, x)"),
    "row in CASE": (SEED, "case when true then row(x, x) end"),
    "row in COALESCE": (SEED, "coalesce(null, (x, x))"),
    "row in a subquery": (SEED, "(select (x, x))"),
    "row of rows": (SEED, "array[row(x, x), row(x, x)]"),
    "whole row": (SEED, "q"),
    "array of arrays": (f"array[{SEED}]", f"array[{', '.join('x' * 40)}]"),
    "row_to_json": (SEED, "row_to_json(row(x, x))"),
    "array_to_json": (f"to_json({SEED})", "array_to_json(array[x, x])"),
    "to_jsonb": (SEED, "to_jsonb(row(x, x))"),
    "jsonb_build_array": (SEED, "jsonb_build_array(x, x)"),
    "jsonb_object": (SEED, "jsonb_object(array['a', x, 'b', x])::text"),
    "jsonpath": (f"to_jsonb({SEED})", "jsonb_path_query_array(jsonb_build_array(x), '$[0, 0]')"),
    "overlay": (SEED, "overlay(x placing x from 1 for 0)"),
    "overlay of bytes": (f"convert_to({SEED}, 'UTF8')", "overlay(x placing x from 1 for 0)"),
    "encodings": (f"convert_to('{'é' * 40}', 'UTF8')", "convert_to(convert_from(x, 'LATIN1'), 'UTF8')"),
    "hexadecimal": (SEED, "encode(convert_to(x, 'UTF8'), 'hex')"),
    "concatenation": (SEED, "x || x"),
    "array_to_string": (SEED, "array_to_string(array[x, x], '')"),
    "quotes": (f"upper('{'``' * 40}')".replace("`", "'"), "quote_literal(x)"),
    "regular expression": (SEED, "regexp_replace(x, 'A', 'AA', 'g')"),
    "groups": (SEED, "(regexp_match(x, '(((.*)))'))::text"),
}
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


def ending(connection: psycopg.Connection[Any], sql: str) -> str | None:
    try:
        run(connection, sql)
    except psycopg.Error as error:
        return error.sqlstate
    return None


@pytest.mark.parametrize(("expression", "sqlstate"), ARITHMETIC.items())
def test_bounds_arithmetic_of_numerics(reader: psycopg.Connection[Any], expression: str, sqlstate: str | None) -> None:
    assert ending(reader, NUMBERS.replace("$", expression)) == sqlstate


def test_squares_within_one_another_end(reader: psycopg.Connection[Any]) -> None:
    sql = "select 1.5 as x"
    for _ in range(20):
        sql = f"select x * x as x from ({sql} offset 0) as q"
    assert ending(reader, sql) == CHECK_VIOLATION


@pytest.mark.parametrize(("seed", "step"), GROWING.values(), ids=GROWING.keys())
def test_no_value_grows_beyond_the_bound(reader: psycopg.Connection[Any], seed: str, step: str) -> None:
    sql = f"select {seed} as x, 1 as y"
    for _ in range(14):
        sql = f"select {step} as x, q.x as y from ({sql} offset 0) as q"
    reader.execute(f"SET {LARGEST_VALUE_SETTING} = '{SMALL_VALUE}'")
    assert ending(reader, f"select num_nulls(x) from ({sql} offset 0) as q") in (GUARD_SQLSTATE, CHECK_VIOLATION)


@pytest.mark.parametrize(
    "column",
    ["array[m, m]", "row(m, 1)", "(m, 1)", "array(select m)", "t", "m::text", "overlay('xy' placing m from 1)"],
)
@pytest.mark.parametrize(
    "query",
    [
        "select {} as x, count(*) from t group by {} order by {}",
        "select x from (select {} as x, count(*) from t group by {} order by {}) as q",
        "with q as (select distinct {} as x from t order by {}) select x, x = x from q",
        "select x from (select {} as x from t union select {} from t order by 1) as q",
        "select x from (select max(1) over (partition by {} order by {}) as x, {} as y from t) as q",
    ],
)
def test_a_column_can_be_grouped_and_sorted_by(reader: psycopg.Connection[Any], query: str, column: str) -> None:
    sql = "with t as (select unnest(array['a', 'b']) as m)"
    checked = check_sandbox_query(f"{sql}, u as ({query.replace('{}', column)}) select 1 from u", tables=())
    assert len(reader.execute(checked.sql.encode()).fetchall()) == 2
    of_subquery = query.replace("from t", "from (select unnest(array['a', 'b']) as m) as t")
    whole = check_sandbox_query(of_subquery.replace("{}", column), tables=())
    assert len(reader.execute(whole.sql.encode()).fetchall()) == 2


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
