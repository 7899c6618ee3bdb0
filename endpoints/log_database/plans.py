"""PostgreSQL's plans as trees, from EXPLAIN (FORMAT JSON) of PostgreSQL 15 to 18, with the partitions they touch.

    read_plan(b'[{"Plan": {"Node Type": "Append", …}, "Execution Time": 0.4}]', partitions={…})  ->  PlanTree
    tables_without_time_bound(…)  ->  ("edge_logs",)  if no scan condition compares `timestamp`

The keys are those of the PostgreSQL manual, "Using EXPLAIN". Times of a node include all its loops; below a Gather
the loops run side by side, so their sum is divided by the number of processes.

On a cluster the statement is not run for its plan. Below Citus's own step are the plans of the workers, of one shard
when the others have the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from endpoints.sql.lexemes import Kind, Lexeme, LexicalError, lex

# The table of a day, or the default one: edge_logs_p20250602, edge_logs_default. No log source has such a name.
_PARTITION: Final = re.compile(r"(?P<table>[a-z][a-z0-9_]*?)(?:_p[0-9]{8}|_default)", re.ASCII)
_SHARD: Final = re.compile(r"(?P<partition>.*(?:_p[0-9]{8}|_default))_[0-9]+", re.ASCII)  # edge_logs_default_102360
_DETAILS: Final = (
    "Join Type", "Strategy", "CTE Name", "Subplan Name", "Function Name", "Index Cond", "Recheck Cond", "TID Cond",
    "Filter", "Hash Cond", "Merge Cond", "Join Filter", "One-Time Filter", "Order By", "Sort Key", "Presorted Key",
    "Group Key", "Sort Method", "Workers Launched", "Heap Fetches",
)  # fmt: skip
_SCAN_CONDITIONS: Final = ("Index Cond", "Recheck Cond", "Filter")
_COMPARISONS: Final = frozenset({"<", "<=", "=", ">=", ">"})
_TIMESTAMP: Final = frozenset({'"timestamp"', "timestamp"})

Plan = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PlanNode:
    """One step of a plan. Rows are the sum of all loops; milliseconds and buffers include the children's."""

    node: str
    relation: str
    alias: str
    index: str
    details: tuple[str, ...]
    rows_estimated: float
    rows_actual: float
    rows_removed: float
    loops: int
    ms: float
    own_ms: float
    buffers_hit: int
    buffers_read: int
    partitions_pruned: int
    children: tuple[PlanNode, ...]

    @property
    def executed(self) -> bool:
        """Whether PostgreSQL ran this step at all."""
        return self.loops > 0


@dataclass(frozen=True, slots=True)
class TouchedPartitions:
    """The partitions of a log table that a statement reads, and those that it can skip."""

    table: str
    touched: tuple[str, ...]
    pruned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanTree:
    """A statement's plan as it was executed; without times if it was only planned."""

    root: PlanNode
    planning_ms: float | None
    execution_ms: float | None
    tables: tuple[TouchedPartitions, ...]


def read_plan(explained: str | bytes, *, partitions: Mapping[str, Sequence[str]]) -> PlanTree:
    """Return the plan that EXPLAIN (FORMAT JSON) wrote, with or without ANALYZE and BUFFERS.

    `partitions` are those of each log table. A plan without ANALYZE touches all that it does not prune.

    Raises ValueError for text that is not such an explanation.
    """
    try:
        (explanation,) = json.loads(explained)
        root = _node(explanation["Plan"], processes=1)
        times = [explanation.get(key) for key in ("Planning Time", "Execution Time")]
        planning_ms, execution_ms = (None if time is None else float(time) for time in times)
        tables = tuple(_touched(root, partitions, is_executed=execution_ms is not None))
        return PlanTree(root=root, planning_ms=planning_ms, execution_ms=execution_ms, tables=tables)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("not an explanation of EXPLAIN (FORMAT JSON)") from error


def tables_without_time_bound(explained: str | bytes) -> tuple[str, ...]:
    """Return the log tables that a plan reads at least once without comparing their timestamp with anything.

    Only a plain comparison counts, because only it prunes partitions in every plan: not one inside OR or CASE, and not
    one of an expression over the timestamp, such as date_trunc(). The plan need not have been executed.
    """
    (explanation,) = json.loads(explained)
    found = (_table_read_without_bound(plan) for plan in _plans(explanation["Plan"]))
    return tuple(sorted({table for table in found if table}))


def _node(plan: Plan, *, processes: int) -> PlanNode:
    loops = int(plan.get("Actual Loops", 0))
    workers = processes + int(plan.get("Workers Launched", 0))
    children = tuple(_node(child, processes=workers) for child in _below(plan))
    ms = float(plan.get("Actual Total Time", 0)) * loops / processes
    return PlanNode(
        node=str(plan["Node Type"]),
        relation=_relation(plan),
        alias=str(plan.get("Alias", "")),
        index=str(plan.get("Index Name", "")),
        details=tuple(_details(plan)),
        rows_estimated=float(plan.get("Plan Rows", 0)),
        rows_actual=float(plan.get("Actual Rows", 0)) * loops,
        rows_removed=sum(float(value) for key, value in plan.items() if key.startswith("Rows Removed by")) * loops,
        loops=loops,
        ms=ms,
        own_ms=max(0.0, ms - sum(child.ms for child in children)),
        buffers_hit=int(plan.get("Shared Hit Blocks", 0)),
        buffers_read=int(plan.get("Shared Read Blocks", 0)),
        partitions_pruned=int(plan.get("Subplans Removed", 0)),
        children=children,
    )


def _details(plan: Plan) -> Iterator[str]:
    for key in _DETAILS:
        value = plan.get(key)
        if value is None or value == [] or (key, value) in (("Join Type", "Inner"), ("Strategy", "Plain")):
            continue
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        yield f"{key}: {text}"
    job = plan.get("Distributed Query", {}).get("Job", {})
    if "Task Count" in job:
        yield f"Queries to workers: {job['Task Count']}; plans shown: {job.get('Tasks Shown', 'none')}"


def _relation(plan: Plan) -> str:
    name = str(plan.get("Relation Name", ""))
    shard = _SHARD.fullmatch(name)
    return shard["partition"] if shard else name


def _below(plan: Plan) -> Iterator[Plan]:
    """Yield the plans one step below, those of workers too."""
    yield from plan.get("Plans", ())
    yield from _plans_within(plan.get("Distributed Query", ()))


def _plans_within(part: Any) -> Iterator[Plan]:
    # {"Subplans": [{"PlannedStmt": [{"Plan": …}]}], "Job": {"Tasks": [{"Remote Plan": [[{"Plan": …}]]}]}}
    if isinstance(part, list):
        for one in part:
            yield from _plans_within(one)
    elif isinstance(part, dict):
        if "Plan" in part:
            yield part["Plan"]
        else:
            yield from _plans_within(list(part.values()))


def _touched(
    root: PlanNode, partitions: Mapping[str, Sequence[str]], *, is_executed: bool
) -> Iterator[TouchedPartitions]:
    nodes = list(_nodes(root))
    read = {node.relation for node in nodes if node.relation and (node.executed or not is_executed)}
    named = {node.relation for node in nodes}
    # If all partitions of a table were pruned while planning, the table is not in the plan, and nothing can be said.
    for table, all_of_it in sorted(partitions.items()):
        if not named.intersection(all_of_it):
            continue
        yield TouchedPartitions(
            table=table,
            touched=tuple(sorted(read.intersection(all_of_it))),
            pruned=tuple(sorted(set(all_of_it) - read)),
        )


def _nodes(node: PlanNode) -> Iterator[PlanNode]:
    yield node
    for child in node.children:
        yield from _nodes(child)


def _plans(plan: Plan) -> Iterator[Plan]:
    yield plan
    for child in _below(plan):
        yield from _plans(child)


def _table_read_without_bound(plan: Plan) -> str:
    partition = _PARTITION.fullmatch(_relation(plan))
    if partition is None:
        return ""
    below = [child for child in _plans(plan) if child is plan or "Relation Name" not in child]  # bitmap index scans
    conditions = (str(one[key]) for one in below for key in _SCAN_CONDITIONS if key in one)
    return "" if any(_compares_timestamp(condition) for condition in conditions) else partition["table"]


def _compares_timestamp(condition: str) -> bool:
    """Tell whether one of the conditions joined by AND compares the timestamp itself."""
    # ((t.project = 'a'::text) AND (t."timestamp" > $1))
    try:
        lexemes = [lexeme for lexeme in lex(condition) if not lexeme.is_blank]
    except LexicalError:
        return True  # a condition that we do not understand: no warning is better than a wrong one
    return any(_is_comparison(conjunct) for conjunct in _conjuncts(_without_parentheses(lexemes)))


def _conjuncts(lexemes: Sequence[Lexeme]) -> Iterator[Sequence[Lexeme]]:
    depth, start = 0, 0
    for index, lexeme in enumerate(lexemes):
        if lexeme.kind is Kind.PUNCTUATION:
            depth += (lexeme.text in "([") - (lexeme.text in ")]")
        elif depth == 0 and lexeme.kind is Kind.WORD and lexeme.text == "AND":
            yield _without_parentheses(lexemes[start:index])
            start = index + 1
    yield _without_parentheses(lexemes[start:])


def _without_parentheses(lexemes: Sequence[Lexeme]) -> Sequence[Lexeme]:
    while len(lexemes) > 1 and lexemes[0].text == "(" and _closing(lexemes) == len(lexemes) - 1:
        lexemes = lexemes[1:-1]
    return lexemes


def _closing(lexemes: Sequence[Lexeme]) -> int:
    """Return the index of the bracket that closes the first one."""
    depth = 0
    for index, lexeme in enumerate(lexemes):
        if lexeme.kind is Kind.PUNCTUATION:
            depth += (lexeme.text in "([") - (lexeme.text in ")]")
        if depth == 0:
            return index
    return -1


def _is_comparison(conjunct: Sequence[Lexeme]) -> bool:
    texts = [lexeme.text for lexeme in conjunct]
    left = texts[2:] if texts[1:2] == ["."] else texts
    if left[:1] and left[0] in _TIMESTAMP and left[1:2] and left[1] in _COMPARISONS:
        return True
    if not texts or texts[-1] not in _TIMESTAMP:
        return False
    before = texts[:-3] if texts[-2:-1] == ["."] else texts[:-1]
    return bool(before) and before[-1] in _COMPARISONS
