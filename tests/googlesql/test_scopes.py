"""Names are found without a walk over every column of every table: a refusal costs no more than its text."""

from __future__ import annotations

import pytest

from endpoints.dialects import DIALECTS
from endpoints.errors import EndpointError, SandboxViolation
from endpoints.results.outcomes import Column
from googlesql import Refused
from googlesql.field_paths import FieldPath, FieldUse
from googlesql.kinds import Kind
from googlesql.scopes import Columns, Scope, Source
from googlesql.tree import Output
from tests.linear import work_of

BIGQUERY = DIALECTS["bigquery"]
TABLES = {"edge_logs": (Column("id", "text"), Column("metadata", "jsonb"))}
LOGS = {
    "edge_logs": (
        Column("timestamp", "timestamp with time zone"),
        Column("id", "uuid"),
        Column("event_message", "text"),
        Column("metadata", "jsonb"),
    )
}


def ones(number: int) -> str:
    return ",".join(f"1 c{index}" for index in range(number))


def check(text: str) -> None:
    BIGQUERY.check(text, tables=TABLES)


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
    with pytest.raises(Refused, match="too many columns"):
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


# --- Names that are nothing in scope ----------------------------------------------------------------------------------
def refusal_of(text: str) -> SandboxViolation:
    with pytest.raises(SandboxViolation) as raised:
        BIGQUERY.check(text, tables=LOGS)
    return raised.value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("select t.event_massage from edge_logs t", "`t.event_massage` is not a column. Did you mean `event_message`?"),
        ("select event_massage from edge_logs", "is not a column or a table here. Did you mean `event_message`?"),
        ("select id from edge_lgs", "is not a table that this query may read. Did you mean `edge_logs`"),
        ("select timestmp_trunc(timestamp, hour) from edge_logs", "Did you mean `timestamp_trunc`"),
    ],
)
def test_what_is_no_name_at_all_is_refused_with_a_suggestion(text: str, message: str) -> None:
    assert message in refusal_of(text).message


def test_suggests_nothing_where_nothing_is_near() -> None:
    assert "similar" not in refusal_of("select zzz from edge_logs").details[0]


@pytest.mark.parametrize("name", ["level", "it", "event_massage", "timestmp", "requst", "levle"])
def test_a_bare_name_beside_unnested_records_is_a_field_of_theirs(name: str) -> None:
    text = f"select {name} from edge_logs t cross join unnest(metadata) m left join unnest(m.request) request"
    _, fields = BIGQUERY.check(text, tables=LOGS)
    (use,) = fields.anywhere[-1:]
    steps = [(name,), ("request", name)]
    assert fields.by_column == ((use,),)
    assert use == FieldUse(tuple(FieldPath("edge_logs", "metadata", one) for one in steps))


@pytest.mark.parametrize("columns", [6, 1_000])
def test_bare_fields_cost_little_beside_wide_tables(columns: int) -> None:
    wide = ",".join(f"1 as timestamp_{index}" for index in range(columns))
    names = " and ".join(f"tymestump_{index} = 1" for index in range(400))
    text = f"with w as (select {wide}) select 1 from w a, w b, w c, edge_logs, unnest(metadata) m where {names}"

    assert work_of(lambda: BIGQUERY.check(text, tables=LOGS), refusals=(EndpointError,)) < 2_500_000
