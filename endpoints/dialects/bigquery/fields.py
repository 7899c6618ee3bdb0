"""Fields of records: `->` where it finds them, and a path that goes through arrays of one record otherwise."""

from __future__ import annotations

import json
from dataclasses import replace

from endpoints.dialects.bigquery.kinds import Kind
from endpoints.dialects.bigquery.tree import Constant, Expression, Fields, Name, call, infix, integer, string


def step_of(step: str | int) -> Constant:
    """Return a name or an index as the right side of `->`."""
    return integer(step) if isinstance(step, int) else string(step)


def parent_of(value: Fields) -> Expression | None:
    """Return the value to which ``->>`` applies the last step; None if only a path finds it."""
    if not _plain(value):
        return None
    return as_field(replace(value, steps=value.steps[:-1])) if len(value.steps) > 1 else value.base


def _plain(value: Fields) -> bool:
    """Whether every name directly follows an element: then ``->`` finds it; otherwise an array may be in between."""
    is_element = isinstance(value.base, Name) and value.base.owner is None
    for step in value.steps:
        if isinstance(step, str) and not is_element:
            return False
        is_element = isinstance(step, int)
    return True


def as_field(value: Expression) -> Expression:
    """Return JSON as jsonb: of a field the expression that finds it."""
    if not isinstance(value, Fields):
        return value
    if _plain(value):
        result = value.base
        for step in value.steps:
            result = infix(result, "->", step_of(step), kind=Kind.JSON)
        return replace(result, origin=value.origin)
    # m.request.path over {"request": [{"path": …}]}: a lax path goes through arrays of one record by itself.
    path = "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{json.dumps(step)}" for step in value.steps)
    found = call("jsonb_path_query_first", value.base, string(path), kind=Kind.JSON)
    return replace(found, origin=value.origin)
