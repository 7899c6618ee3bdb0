"""No accepted text makes PostgreSQL build more than it can stop in time, however productions are nested.

The pairs here are those that grew without a bound: `python -m tests.fuzz.expansions` tries all, and takes long. A
busy machine has five times as long here; a pair that is not bounded takes gigabytes.
"""

from __future__ import annotations

import os
from typing import Any

import psycopg
import pytest

from endpoints.dialects import DIALECTS
from endpoints.errors import SandboxViolation
from endpoints.sql.sandbox import check_sandbox_query
from tests.fuzz.expansions import (
    BIGQUERY_TABLES,
    ENDS_WITHIN_SECONDS,
    LARGEST_GROWTH_MIB,
    TABLES,
    Case,
    cases,
    measured,
    rows,
)

pytestmark = pytest.mark.sql

WITHIN_SECONDS = 5 * ENDS_WITHIN_SECONDS
CHOSEN = (
    "deep: between / between", "deep: between / in columns", "deep: between symmetric / bound of symmetric",
    "deep: between chained / row in rows", "deep: in a query / between", "deep: concatenation of other / between",
    "deep: star of row / in columns", "deep: try_float / between", "wide: between / between symmetric",
    "wide: try_float / in columns", "wide: multiplied / try_float", "deep: exists / between",
    "query: pulled up / pulled up", "query: pulled up / union", "query: condition / union", "query: union / between",
    "query: whole row / pulled up", "query: full join / natural join",
    "query: full join / position of", "query: with copied / pulled up",
    "query: lateral / row", "query: correlated / pulled up",
    "query: intersect / in a query", "query: cases / try_float",
    "condition: between / in columns", "condition: case / between", "condition: between / like",
    "lql: -m.level", "lql: m.a{n}:>{n}",
    "bigquery: pulled up / with", "bigquery: cases / union", "bigquery: between / in",
)  # fmt: skip
BETWEENS = "length(event_message)"
for _ in range(19):
    BETWEENS = f"({BETWEENS} between 0 and 1)::int"
CHAIN = "with c0 as (select length(event_message) as x from edge_logs)" + "".join(
    f", c{number} as (select x + x + x + x as x from c{number - 1})" for number in range(1, 12)
)
CASES = "with c0 as (select length(event_message) as a, id from edge_logs)" + "".join(
    f", c{number} as (select case when a > 3 then a - 1 when a > 2 then a else a + 1 end as a, id from c{number - 1})"
    for number in range(1, 8)
)
UNIONS = "select x from (select 1 as y union all select length(event_message) + 1 from edge_logs) as q (x)"
for _ in range(8):
    UNIONS = f"select x + x + x + x as x from ({UNIONS}) as q"


@pytest.mark.parametrize("chosen", CHOSEN)
def test_the_largest_accepted_nest_ends_in_time_and_memory(superuser: psycopg.Connection[Any], chosen: str) -> None:
    nests = list(cases(only=chosen))
    assert nests
    with rows(superuser):
        results = [_measured(superuser, case) for case in nests]
    assert [one for one in results if one.seconds > WITHIN_SECONDS or one.mib > LARGEST_GROWTH_MIB] == []


def _measured(superuser: psycopg.Connection[Any], case: Case) -> Any:
    return measured(os.environ["LOGS_SUPERUSER_URL"], case, dbname=superuser.info.dbname)


@pytest.mark.parametrize("sql", [CHAIN + " select x from c11", CASES + " select * from c7", UNIONS])
def test_columns_that_are_expressions_are_computed_once(superuser: psycopg.Connection[Any], sql: str) -> None:
    checked = check_sandbox_query(sql, tables=TABLES)
    assert "OFFSET 0 )" in checked.sql
    with rows(superuser):
        result = _measured(superuser, Case("", checked.statement({}, max_rows=10)))
    assert result.mib < 32


def test_gets_no_barrier_while_it_is_small() -> None:
    sql = (
        "with c as (select length(event_message) as x from edge_logs), d as (select x + x as y from c) select y from d"
    )
    assert "OFFSET" not in check_sandbox_query(sql, tables=TABLES).sql


@pytest.mark.parametrize(
    ("sql", "closed"),
    [
        # A limit is a barrier already; so is MATERIALIZED, and a common table that is named twice.
        (CHAIN.replace(" from edge_logs)", " from edge_logs limit 5)") + " select x from c11", "LIMIT 5 )"),
        (CHAIN.replace("c0 as (", "c0 as materialized (") + " select x from c11", '"edge_logs" )'),
        (CHAIN + " select a.x from c11 as a, c0 as b", '"edge_logs" )'),
        (
            CHAIN.replace("), c", " order by format('%s', 1)), c") + " select x from c11",
            ") ) OFFSET 0 )",
        ),
    ],
)
def test_barrier_stands_at_the_end_of_the_query_in_brackets(sql: str, closed: str) -> None:
    emitted = check_sandbox_query(sql, tables=TABLES).sql
    assert f"{closed} ," in emitted
    assert 1 <= emitted.count("OFFSET 0 )") <= 3


def test_common_table_is_never_copied_for_each_name() -> None:
    sql = "with c as not materialized (select id from edge_logs) select 1 from c, c as d"
    assert '"c" AS ( SELECT' in check_sandbox_query(sql, tables=TABLES).sql


@pytest.mark.parametrize(
    "sql",
    [
        f"select {BETWEENS} from edge_logs limit 1",
        f"select id from edge_logs order by {BETWEENS}",
        f"select id from edge_logs where {BETWEENS} > 0",
    ],
)
def test_refuses_what_copies_itself_too_often_with_its_place(sql: str) -> None:
    with pytest.raises(SandboxViolation, match="parts") as refusal:
        check_sandbox_query(sql, tables=TABLES)
    place = refusal.value.details[0]
    assert (place["line"], place["construct"]) == (1, "(")
    assert sql[place["column"] - 1 :].startswith("((")


def test_refuses_the_same_in_the_bigquery_dialect() -> None:
    text = "length(event_message)"
    for _ in range(19):
        text = f"if({text} between 0 and 1, 1, 2)"
    with pytest.raises(SandboxViolation, match="parts"):
        DIALECTS["bigquery"].check(f"select {text} as x from edge_logs", tables=BIGQUERY_TABLES)


@pytest.mark.parametrize(
    "condition",
    [
        "length(event_message) between 1 and 2 and " * 60 + "true",
        "(length(event_message) between 1 and 2) or " * 60 + "true",
        "event_message in (" + "'a', " * 400 + "'b')",
        "length(event_message) between symmetric 1 and 2 and " * 40 + "true",
    ],
)
def test_accepts_long_lists_of_conditions(condition: str) -> None:
    assert check_sandbox_query(f"select id from edge_logs where {condition}", tables=TABLES)
