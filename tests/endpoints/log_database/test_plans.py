"""Plans of PostgreSQL 15 and 18, read as trees: which partitions they touched, and which tables lack a time bound."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from endpoints.log_database.plans import PlanNode, PlanTree, read_plan, tables_without_time_bound
from tests.files import cases

CASES = cases("plans.jsonl")
PARTITIONS = {
    "auth_logs": ("auth_logs_default", "auth_logs_p20250602"),
    "edge_logs": ("edge_logs_default", "edge_logs_p20250602", "edge_logs_p20250603", "edge_logs_p20250604"),
    "unread_logs": ("unread_logs_default",),
}
DAYS = ("20250602", "20250603", "20250604")
# Which days of edge_logs each query touches, and whether it is without a time bound.
EXPECTED: dict[str, tuple[tuple[str, ...], bool]] = {
    "newest_bounded": (("20250603",), False),
    "every_partition": (DAYS, True),
    "pruned_at_start": (("20250604",), False),
    "limit_stops_early": (DAYS, True),
    "two_tables": (("20250602",), False),
    "or_condition": (DAYS, True),
    "over_an_expression": (DAYS, True),
    "reversed": (("20250604",), False),
    "no_table": ((), False),
    "parallel": (DAYS, True),
    "one_partition": (("20250602",), False),
}


def read(case: dict[str, Any]) -> PlanTree:
    return read_plan(json.dumps(case["explained"]), partitions=PARTITIONS)


def nodes(node: PlanNode) -> Iterator[PlanNode]:
    yield node
    for child in node.children:
        yield from nodes(child)


def case(name: str, postgresql: int) -> dict[str, Any]:
    return next(one for one in CASES if (one["name"], one["postgresql"]) == (name, postgresql))


def test_every_query_was_explained_by_both_versions() -> None:
    assert sorted((one["name"], one["postgresql"]) for one in CASES) == sorted(
        (name, version) for name in EXPECTED for version in (15, 18)
    )


@pytest.mark.parametrize("one", CASES, ids=lambda one: f"{one['name']}-{one['postgresql']}")
def test_tells_which_partitions_were_touched(one: dict[str, Any]) -> None:
    tables = {table.table: table for table in read(one).tables}
    days = tuple(day for day in DAYS if "edge_logs" in tables and f"edge_logs_p{day}" in tables["edge_logs"].touched)
    assert days == EXPECTED[one["name"]][0]
    assert "unread_logs" not in tables
    for table in tables.values():
        assert sorted((*table.touched, *table.pruned)) == sorted(PARTITIONS[table.table])


@pytest.mark.parametrize("one", CASES, ids=lambda one: f"{one['name']}-{one['postgresql']}")
def test_tells_which_tables_lack_a_time_bound(one: dict[str, Any]) -> None:
    expected = ("edge_logs",) if EXPECTED[one["name"]][1] else ()
    assert tables_without_time_bound(json.dumps(one["explained"])) == expected


@pytest.mark.parametrize("one", CASES, ids=lambda one: f"{one['name']}-{one['postgresql']}")
def test_times_rows_and_buffers_add_up(one: dict[str, Any]) -> None:
    tree = read(one)
    assert 0 <= tree.root.ms <= tree.execution_ms
    for node in nodes(tree.root):
        assert 0 <= node.own_ms <= node.ms
        assert node.executed == (node.loops > 0)
        assert node.executed or (node.rows_actual, node.ms) == (0, 0)
        assert node.buffers_hit >= max((child.buffers_hit for child in node.children), default=0)


@pytest.mark.parametrize("postgresql", [15, 18])
def test_rows_are_those_of_all_loops_and_workers_run_side_by_side(postgresql: int) -> None:
    tree = read(case("parallel", postgresql))
    (gather,) = [node for node in nodes(tree.root) if node.node.startswith("Gather")]
    scans = [node for node in nodes(tree.root) if node.relation.startswith("edge_logs_p")]
    assert round(sum(node.rows_actual for node in scans)) == 12_901
    assert all(node.ms <= gather.ms for node in nodes(gather))
    assert any(detail.startswith("Workers Launched: ") for detail in gather.details)


@pytest.mark.parametrize("postgresql", [15, 18])
def test_a_scan_that_was_never_executed_has_touched_nothing(postgresql: int) -> None:
    tree = read(case("pruned_at_start", postgresql))
    idle = [node for node in nodes(tree.root) if node.relation == "edge_logs_p20250602"]
    assert idle
    assert not any(node.executed for node in idle)
    assert tree.root.node == "Aggregate"
    assert any(detail.startswith("Recheck Cond: ") for node in nodes(tree.root) for detail in node.details)


def test_partitions_removed_by_the_executor_are_counted() -> None:
    plan = {"Node Type": "Append", "Subplans Removed": 7, "Actual Loops": 1, "Actual Total Time": 1.5}
    tree = read_plan(json.dumps([{"Plan": plan, "Planning Time": 0.1, "Execution Time": 2}]), partitions={})
    assert (tree.root.partitions_pruned, tree.root.ms, tree.planning_ms, tree.execution_ms) == (7, 1.5, 0.1, 2.0)


def scan(condition: str | None, key: str = "Filter", relation: str = "edge_logs_p20250602") -> str:
    plan = {"Node Type": "Seq Scan", "Relation Name": relation} | ({key: condition} if condition else {})
    return json.dumps([{"Plan": {"Node Type": "Append", "Plans": [plan]}}])


@pytest.mark.parametrize(
    "condition",
    [
        '("timestamp" > $1)',
        "((t.project = 'a'::text) AND (t.\"timestamp\" <= COALESCE(($2)::timestamptz, 'infinity'::timestamptz)))",
        "((project ~ 'OR AND ('::text) AND (\"timestamp\" = ANY ('{a,b}'::timestamptz[])))",
        '(now() >= "timestamp")',
        '((InitPlan 1).col1 <= t."timestamp")',
        '("timestamp" > CASE WHEN ((1 = 1) OR (2 = 2)) THEN now() ELSE NULL::timestamptz END)',
    ],
)
@pytest.mark.parametrize("key", ["Filter", "Index Cond", "Recheck Cond"])
def test_a_plain_comparison_is_a_bound(condition: str, key: str) -> None:
    assert tables_without_time_bound(scan(condition, key)) == ()


@pytest.mark.parametrize(
    "condition",
    [
        None,
        "(project = 'timestamp > now()'::text)",
        "((\"timestamp\" > $1) OR (project = 'a'::text))",
        '(($1 IS NULL) OR ("timestamp" > $1))',
        "((project = 'a'::text) AND ((\"timestamp\" > $1) OR ($1 IS NULL)))",
        "((\"timestamp\")::date = '2025-06-02'::date)",
        "(date_trunc('day'::text, \"timestamp\") = $1)",
        "((\"timestamp\" + '01:00:00'::interval) > $1)",
        '($1 < (now() - "timestamp"))',
        '("timestamp" IS NOT NULL)',
        '("timestamp" <> $1)',
        'CASE WHEN ("timestamp" > $1) THEN true ELSE false END',
        '(id = "timestamp_of_it")',
    ],
)
def test_what_prunes_nothing_is_no_bound(condition: str | None) -> None:
    assert tables_without_time_bound(scan(condition)) == ("edge_logs",)


def test_a_join_condition_is_no_bound_and_an_index_below_a_bitmap_is_one() -> None:
    heap = {"Node Type": "Bitmap Heap Scan", "Relation Name": "edge_logs_default"}
    index = {"Node Type": "Bitmap Index Scan", "Index Cond": '("timestamp" > $1)'}
    join = {"Node Type": "Nested Loop", "Join Filter": '(e."timestamp" > a."timestamp")'}
    assert tables_without_time_bound(json.dumps([{"Plan": join | {"Plans": [heap]}}])) == ("edge_logs",)
    assert tables_without_time_bound(json.dumps([{"Plan": join | {"Plans": [heap | {"Plans": [index]}]}}])) == ()


@pytest.mark.parametrize("relation", ["pg_class", "edge_logs", "x_p2025", "x_defaults", ""])
def test_other_relations_need_no_bound(relation: str) -> None:
    assert tables_without_time_bound(scan(None, relation=relation)) == ()


@pytest.mark.parametrize("text", ["[]", "{}", "[{}]", '[{"Plan": {}}]', "null", "[1]", "no json", '[{"Plan": 1}, 2]'])
def test_refuses_what_is_no_executed_plan(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_plan(text, partitions=PARTITIONS)


# --- Clusters ---------------------------------------------------------------------------------------------------------
def of_cluster(condition: str) -> str:
    """A plan of Citus for a query with a CTE that it computes first, over two shards."""
    days = [{"Node Type": "Seq Scan", "Relation Name": f"edge_logs_p{day}_102360"} for day in DAYS[1:]]
    shard = {"Node Type": "Append", "Plans": [one | {"Filter": condition, "Plan Rows": 7} for one in days]}
    default = {"Node Type": "Seq Scan", "Relation Name": "auth_logs_default_102368", "Filter": condition}
    tasks = [{"Node": "host=worker", "Remote Plan": [[{"Plan": shard}]]}, {"Error": "Could not get remote plan."}]
    query = {
        "Subplans": [{"PlannedStmt": [{"Plan": default}]}],
        "Job": {"Task Count": 2, "Tasks Shown": "One of 2", "Tasks": tasks},
    }
    return json.dumps([{"Plan": {"Node Type": "Custom Scan", "Distributed Query": query}}])


def test_plans_of_workers_are_below_the_coordinators_and_call_shards_by_their_partition() -> None:
    tree = read_plan(of_cluster("true"), partitions=PARTITIONS)
    assert tree.root.details == ("Queries to workers: 2; plans shown: One of 2",)
    assert [node.relation for node in nodes(tree.root) if node.relation] == [
        "auth_logs_default", "edge_logs_p20250603", "edge_logs_p20250604",
    ]  # fmt: skip
    assert [(table.table, table.touched) for table in tree.tables] == [
        ("auth_logs", ("auth_logs_default",)),
        ("edge_logs", ("edge_logs_p20250603", "edge_logs_p20250604")),
    ]


def test_a_plan_that_was_not_run_has_no_times_and_no_executed_step() -> None:
    tree = read_plan(of_cluster("true"), partitions=PARTITIONS)
    assert (tree.planning_ms, tree.execution_ms) == (None, None)
    assert not any(node.executed for node in nodes(tree.root))


def test_a_time_bound_is_found_in_the_plans_of_workers() -> None:
    assert tables_without_time_bound(of_cluster("true")) == ("auth_logs", "edge_logs")
    assert tables_without_time_bound(of_cluster("(\"timestamp\" > '2025-06-02')")) == ()
