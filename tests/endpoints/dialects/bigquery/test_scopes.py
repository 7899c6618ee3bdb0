"""Names are found without a walk over every column of every table: a refusal costs no more than its text."""

from __future__ import annotations

import pytest

from endpoints.dialects.bigquery import check_bigquery, forget_translations, log_table
from endpoints.dialects.bigquery.kinds import Kind
from endpoints.dialects.bigquery.refusals import Refusal
from endpoints.dialects.bigquery.scopes import Columns, Scope, Source
from endpoints.dialects.bigquery.tree import Output
from endpoints.errors import EndpointError, SandboxViolation
from endpoints.results.outcomes import Column
from tests.linear import work_of

TABLES = [log_table("edge_logs", (Column("id", "text"), Column("metadata", "jsonb")))]


def ones(number: int) -> str:
    return ",".join(f"1 c{index}" for index in range(number))


def check(text: str) -> None:
    forget_translations()
    check_bigquery(text, tables=TABLES)


def scope_of(columns: int) -> Scope:
    """A scope with one table of so many columns, which is a FROM item as well."""
    table = Columns.of(tuple(Output(f"c{index}", Kind.INTEGER) for index in range(columns)))
    return Scope(tables={"w": ("w", table)}, sources=[Source("w", "w", table)])


@pytest.mark.parametrize("name", ["c0", "C7", "unknown"])
def test_a_column_is_looked_up_not_searched(name: str) -> None:
    narrow, wide = scope_of(8), scope_of(800)
    assert work_of(lambda: wide.sources[0].column(name)) == work_of(lambda: narrow.sources[0].column(name))


def test_a_free_alias_is_found_without_a_walk_over_the_columns() -> None:
    narrow, wide = scope_of(8), scope_of(800)
    assert work_of(lambda: wide.free_alias("w")) == work_of(lambda: narrow.free_alias("w"))
    assert wide.free_alias("c7") == "c7_2"


def test_of_two_columns_of_one_name_the_first_is_meant() -> None:
    columns = Columns.of((Output("a", Kind.INTEGER), Output("A", Kind.TEXT)))
    column = Source("w", "w", columns).column("a")
    assert column is not None
    assert column.kind is Kind.INTEGER


def test_names_that_are_taken_are_not_tried_without_end() -> None:
    names = ["x", *(f"x_{index}" for index in range(2, 300))]
    scope = Scope(tables={"w": ("w", Columns.of(tuple(Output(name, Kind.TEXT) for name in names)))})
    with pytest.raises(Refusal, match="too many columns"):
        _ = [scope.free_alias("x") for _ in range(100)]


@pytest.mark.parametrize(
    "from_clause",
    [
        "v a, v b, v c, v d, v e, v f, v g, v h cross join unnest(a.c1) m",
        "v a, (select * from v) b, (select * from (select * from v)) c",
        "v",
    ],
)
@pytest.mark.parametrize("tables", [4, 20])
def test_wide_tables_are_refused_before_they_cost_much(from_clause: str, tables: int) -> None:
    """4 kB stand for 7,000 columns, which 300 conditions name: looked through, 40 million calls."""
    joined = ", ".join(f"w w{index}" for index in range(tables))
    where = " and ".join(["zz = 1"] * 300)
    text = f"with w as (select {ones(350)}), v as (select * from {joined}) select 1 from {from_clause} where {where}"
    assert work_of(lambda: check(text), refusals=(EndpointError,)) < 3_000_000


def test_a_star_stands_for_as_many_columns_as_a_result_has() -> None:
    joined = ", ".join(f"w w{index}" for index in range(9))
    text = f"with w as (select {ones(200)}) select * from {joined}"
    with pytest.raises(SandboxViolation, match=r"`\*` means more than 1664 columns"):
        check(text)
