"""The functions with GoogleSQL's results: what they give, that no value fails them, and how large a result can be."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logsources.allowed_functions import GOOGLESQL_SIGNATURES
from logsources.log_functions import ensure_guard_functions, ensure_log_functions

pytestmark = pytest.mark.sql

VALUES = [
    ('json_text(\'{"a": [1, "b: c, d\\" e"], "f": {}}\')', '{"a":[1,"b: c, d\\" e"],"f":{}}'),
    ("json_text('\"x\"')", '"x"'),
    ("json_text('null')", None),
    ('json_texts(\'[1, {"b": [2, 3]}, null, "x"]\')', ["1", '{"b":[2,3]}', "null", '"x"']),
    ("json_texts('{}')", None),
    ("scalar_texts('[1, null, \"x\", true]')", ["1", None, "x", "true"]),
    ("scalar_texts('[1, [2]]')", None),
    ("array_text('[\"a\", null, \"b\"]', '-')", "a-b"),
    ("array_text('[\"a\", null, \"b\"]', '-', '?')", "a-?-b"),
    ("array_text('[]', '-')", ""),
    ("array_text('\"a\"', '-')", None),
    ("reversed_elements('[1, null, 3]')", [3, None, 1]),
    ("number_series(1, 7, 3)", [1, 4, 7]),
    ("number_series(3, 1, -1)", [3, 2, 1]),
    ("number_series(1, 3, 0)", None),
    ("number_series(1, 1000000, 1)", None),
    ("date_series('2025-01-31', '2025-04-01', '1 month')", ["2025-01-31", "2025-02-28", "2025-03-28"]),
    ("date_series('2025-01-01', '9999-01-01', '1 day')", None),
    ("split_text('abc', '')", ["a", "b", "c"]),
    ("split_text('', ',')", [""]),
    ("text_part('abcdef', -10)", "abcdef"),
    ("text_part('abcdef', -10, 5)", "abcde"),
    ("text_part('abc', 0, 2)", "ab"),
    ("text_part('abc', 99999999999)", ""),
    ("text_part('abc', -99999999999, 99999999999)", "abc"),
    ("text_part('abc', 1, -1)", None),
    ("text_part('abc', NULL)", None),
    ("text_part('abc', NULL, 2)", None),
    ("text_position('banana', '', -1, 1)", 7),
    ("text_position('banana', 'ana', -1, 2)", 2),
    ("text_position('banana', 'an', -3, 1)", 4),
    ("text_position('banana', '', 1, 1)", 1),
    ("text_position('abc', '', 1, 4)", 4),
    ("text_position('abc', '', 1, 5)", 0),
    ("text_position('', '', 1, 2)", 0),
    ("text_position('banana', 'an', 0, 1)", None),
    ("initial_capitals('o''neil a-b', ' -')", "O'neil A-B"),
    ("initial_capitals('error', 'e')", "eRror"),
    ("host_of('HTTP://u:p@a.B:80/x')", "a.B"),
    ("host_of('/path')", None),
    ("pattern_matches('foobarbaz', 'ba(.)')", ["r", "z"]),
    ("pattern_matches('abc', 'x')", []),
    ("rounded(2.675, 2)", 2.67),
    ("rounded(-2.5, 0)", -3.0),
    ("rounded(125, -1)", 130.0),
    ("rounded(125, NULL)", None),
    ("rounded(1.5e300, 2)", 1.5e300),
    ("rounded('NaN', 2)::text", "NaN"),
    ("number_text(2.0::float8)", "2"),
    ("number_text(1e20::float8)", "1e+20"),
    ("number_text('-Infinity'::float8)", "-inf"),
    ("number_text(2.50::numeric)", "2.5"),
    ("number_text(1748852102000001::numeric)", "1748852102000001"),
    ("moment_text('2025-06-02 08:15:02', 'T')", "2025-06-02T08:15:02"),
    ("moment_text('2025-06-02 08:15:02.5', ' ')", "2025-06-02 08:15:02.500"),
    ("time_text('08:15:02.000001')", "08:15:02.000001"),
    ("in_range(timestamptz '9999-12-31 23:59:59.999999Z', true)::text", "9999-12-31 23:59:59.999999+00"),
    ("in_range(timestamptz '10000-01-01Z', false)", None),
    ("in_range(timestamptz 'infinity', false)", None),
    ("in_range(timestamp '0001-01-01', true)::text", "0001-01-01 00:00:00"),
    ("in_range(timestamp '0001-12-31 BC', false)", None),
    ("in_range(timestamp '-infinity', false)", None),
    ("in_range(date '9999-12-31', true)::text", "9999-12-31"),
    ("in_range(date '10000-01-01', false)", None),
    ("zoned_moment('2026-10-25 02:30:00', 'Europe/Berlin')::text", "2026-10-25 00:30:00+00"),
    ("zoned_moment('2026-10-25 03:30:00', 'Europe/Berlin')::text", "2026-10-25 02:30:00+00"),
    ("zoned_moment('infinity', 'Europe/Berlin')::text", "infinity"),
    ("compared('NaN', '=', 'NaN')", False),
    ("compared('NaN', '<>', 'NaN')", True),
    ("compared('NaN', '>', 5)", False),
    ("compared(4, '<=', 'NaN')", False),
    ("compared('NaN', '<>', NULL)", None),
    ("compared('Infinity', '>=', 5)", True),
    ("compared(NULL, '=', 5)", None),
    ("parsed_moment('2/Jun/2025 08 PM', '(\\d+)/([a-z]+)/(\\d+) (\\d+) ([ap]m)', 'dbYIp', 'UTC')::text", None),
    (
        "parsed_moment('2/Jun/2025 08 PM', '(?i)(\\d+)/([a-z]+)/(\\d+) (\\d+) ([ap]m)', 'dbYIp', 'UTC')::text",
        "2025-06-02 20:00:00+00",
    ),
    ("parsed_moment('2025-02-30', '(\\d+)-(\\d+)-(\\d+)', 'Ymd', 'UTC')::text", None),
    ("parsed_moment('99999999999', '(\\d+)', 'Y', 'UTC')::text", None),
    ("parsed_moment('1', '(\\d)', 'YYYY', 'UTC')::text", None),
]


@pytest.mark.parametrize(("expression", "expected"), VALUES, ids=[expression for expression, _ in VALUES])
def test_gives_what_googlesql_gives(log_database, expression, expected):
    log_database.execute("SET TimeZone = 'UTC'")
    assert log_database.execute(f"SELECT log_functions.{expression}").fetchone() == (expected,)


@pytest.mark.parametrize("value", ["timestamptz '10000-01-01Z'", "timestamp '0001-12-31 BC'", "date '10000-01-01'"])
def test_a_moment_out_of_range_fails_only_if_it_may(log_database, value):
    assert log_database.execute(f"SELECT log_functions.in_range({value}, false)").fetchone() == (None,)
    with pytest.raises(psycopg.errors.DatetimeFieldOverflow):
        log_database.execute(f"SELECT log_functions.in_range({value}, true)")


def test_a_check_of_the_range_is_read_into_the_query(log_database):
    log_database.execute("SET enable_seqscan = off")  # a partition that is known to be empty is cheaper to read whole
    plan = log_database.execute(
        "EXPLAIN SELECT id FROM logs.edge_logs WHERE timestamp > log_functions.in_range(now() - interval '1 day', true)"
    ).fetchall()
    assert "Index Cond" in str(plan)
    assert "in_range" not in str(plan).replace("out_of_range", "")


@pytest.mark.parametrize(("name", "types"), GOOGLESQL_SIGNATURES, ids=str)
def test_of_null_is_null(log_database, name, types):
    arguments = ", ".join(f"NULL::{type_}" for type_ in types)
    assert log_database.execute(f"SELECT log_functions.{name}({arguments})").fetchone() == (None,)


ANY_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=40)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=12,
)
ANY_COUNT = st.integers(-(2**63), 2**63 - 1)
ANY_FLOAT = st.floats()
UNBOUNDED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@UNBOUNDED
@given(value=ANY_JSON, text=ANY_TEXT)
def test_no_json_fails(log_database: Any, value: Any, text: str) -> None:
    document = json.dumps(value, allow_nan=False)
    row = log_database.execute(
        "SELECT log_functions.json_text(d), log_functions.json_texts(d), log_functions.scalar_texts(d),"
        " log_functions.array_text(d, %(t)s), log_functions.array_text(d, %(t)s, %(t)s),"
        " log_functions.reversed_elements(d) FROM (SELECT %(d)s::jsonb AS d) AS x",
        {"d": document, "t": text},
    ).fetchone()
    # Without blanks it is still the same document.
    assert row[0] is None if value is None else json.loads(row[0]) == value


@UNBOUNDED
@given(value=ANY_TEXT, other=ANY_TEXT, place=ANY_COUNT, count=ANY_COUNT)
def test_no_text_fails(log_database: Any, value: str, other: str, place: int, count: int) -> None:
    parameters = {"v": value, "o": other, "p": place, "c": count}
    log_database.execute(
        "SELECT log_functions.split_text(%(v)s, %(o)s), log_functions.text_part(%(v)s, %(p)s::bigint),"
        " log_functions.text_part(%(v)s, %(p)s::bigint, %(c)s::bigint), log_functions.host_of(%(v)s),"
        " log_functions.text_position(%(v)s, %(o)s, %(p)s::bigint, %(c)s::bigint),"
        " log_functions.text_position(%(v)s, %(o)s, %(p)s::bigint %% 7, %(c)s::bigint %% 3),"
        " log_functions.initial_capitals(%(v)s, %(o)s)",
        parameters,
    )


@UNBOUNDED
@given(value=ANY_FLOAT, places=ANY_COUNT)
def test_no_number_fails(log_database: Any, value: float, places: int) -> None:
    log_database.execute(
        "SELECT log_functions.rounded(%(v)s::float8, %(p)s::bigint), log_functions.rounded(%(v)s::float8, 2),"
        " log_functions.number_text(%(v)s::float8), log_functions.number_text(%(v)s::float8::text::numeric)",
        {"v": str(value) if value == value else "NaN", "p": places},
    )


def test_a_result_has_a_bound(log_database):
    elements = json.dumps([""] * 20_000)
    for call in ("array_text(%s, repeat('x', 1000))", "array_text(%s, '', repeat('x', 1000))"):
        assert log_database.execute(f"SELECT log_functions.{call}", [elements]).fetchone() == (None,)
    assert log_database.execute("SELECT log_functions.initial_capitals(repeat('x', 70000), '')").fetchone() == (None,)
    text = "SELECT log_functions.split_text(repeat('x', 1000000), repeat('y', 1000))"
    assert log_database.execute(text).fetchone() == (None,)


def test_can_be_made_again(log_database):
    ensure_log_functions(log_database)
    ensure_guard_functions(log_database)
    assert log_database.execute("SELECT log_functions.text_part('abc', 2)").fetchone() == ("bc",)


def test_an_excluding_pattern_is_planned_where_its_operator_is_not_inlined(log_database):
    # nlikesel() fails for an operator without a negator, which a twin is.
    text = "(SELECT string_agg(x, '') FROM unnest(ARRAY[event_message]) AS x)"
    log_database.execute("SET LOCAL search_path = log_functions, pg_catalog")
    for operator in ("NOT LIKE", "NOT ILIKE"):
        log_database.execute(f"EXPLAIN SELECT 1 FROM logs.edge_logs WHERE {text} {operator} 'a%'")
