"""UNION and similar operators: columns of different kinds in the branches get one kind that fits all.

select timestamp, null as level, 5 as x … union all select timestamp, m.level, m.size …
  ->  the second column text, since NULL has no kind; the third jsonb in both, since a field may be anything
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from googlesql.coercions import as_json, as_text, null_of
from googlesql.field_paths import MAX_USES_OF_COLUMN, Trace
from googlesql.kinds import NUMERIC_KINDS, Kind
from googlesql.tree import Constant, Expression, Output, Query, Select, SetOperation, cast


def combined(operator: str, branches: Sequence[Query]) -> SetOperation:
    """Return the branches as one query; each column has one kind."""
    kinds = [
        common_kind([branch.outputs[index].kind for branch in branches]) for index in range(len(branches[0].outputs))
    ]
    converted = tuple(_with_kinds(branch, kinds) for branch in branches)
    columns = zip(*(branch.outputs for branch in branches), strict=True)
    outputs = tuple(_common_output(alike, kind) for alike, kind in zip(columns, kinds, strict=True))
    return SetOperation(operator=operator, branches=converted, outputs=outputs)


def _common_output(columns: Sequence[Output], kind: Kind) -> Output:
    shape = next((column.shape for column in columns if column.shape is not None), None)
    uses = dict.fromkeys(use for column in columns for use in column.trace.uses)
    trace = Trace(uses=tuple(islice(uses, MAX_USES_OF_COLUMN)))
    return Output(columns[0].name, kind, any(column.nullable for column in columns), shape, trace)


def common_kind(kinds: Sequence[Kind]) -> Kind:
    """Return the kind of a column that has these kinds in the branches."""
    decided = set(kinds) - {Kind.NULL}
    if not decided:
        return Kind.TEXT
    if len(decided) == 1:
        return decided.pop()
    if decided <= NUMERIC_KINDS:
        return Kind.FLOAT if Kind.FLOAT in decided else Kind.NUMBER
    if decided == {Kind.TEXT, Kind.UUID}:
        return Kind.TEXT
    return Kind.JSON


def _with_kinds(query: Query, kinds: Sequence[Kind]) -> Query:
    if isinstance(query, SetOperation):
        branches = tuple(_with_kinds(branch, kinds) for branch in query.branches)
        return replace(query, branches=branches, outputs=_outputs(query, kinds))
    if isinstance(query, Select):
        items = tuple(_as_kind(item, kind) for item, kind in zip(query.items, kinds, strict=True))
        return replace(query, items=items, outputs=_outputs(query, kinds))
    raise AssertionError(type(query))


def _outputs(query: Query, kinds: Sequence[Kind]) -> tuple[Output, ...]:
    return tuple(replace(output, kind=kind) for output, kind in zip(query.outputs, kinds, strict=True))


def _as_kind(value: Expression, kind: Kind) -> Expression:
    if value.kind is Kind.NULL:
        return null_of(kind)
    if value.kind is kind:
        # PostgreSQL settles the type of a bare literal only among the first two branches.
        return cast(value, "text", Kind.TEXT) if isinstance(value, Constant) and kind is Kind.TEXT else value
    if kind is Kind.JSON:
        return as_json(value)
    if kind is Kind.TEXT:
        return as_text(value)
    return cast(value, kind.value, kind) if kind in NUMERIC_KINDS else value
