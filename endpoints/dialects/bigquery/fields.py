"""How a field of a record is read: by ``->`` where that finds it, otherwise by a path, and in any case if need be.

BigQuery compares the names of fields without case, PostgreSQL exactly. A name gets both readings, the exact one first,
only where a key in other letters is likely: the second reading costs 4 µs in each row without the exact key, 25 times
as much as the first. Such are names that the text writes with a capital letter anywhere, and names that sampled records
have with one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from sqlglot import exp

from endpoints.dialects.bigquery.kinds import Kind
from endpoints.dialects.bigquery.tree import TRUE, Constant, Expression, Fields, Name, call, infix, integer, string

MAX_NAME_LENGTH: Final = 300  # of a column in BigQuery; longer names are compared exactly, their patterns cost too much


# --- Names in any case ------------------------------------------------------------------------------------------------
def capitalised(names: Iterable[str]) -> frozenset[str]:
    """Return the names that have a capital letter, folded."""
    return frozenset(name.casefold() for name in names if name != name.lower() and len(name) <= MAX_NAME_LENGTH)


def written_with_capitals(tree: exp.Expr) -> frozenset[str]:
    """Return the names that a text writes with a capital letter, folded."""
    return capitalised(identifier.name for identifier in tree.find_all(exp.Identifier))


# --- Readings ---------------------------------------------------------------------------------------------------------
def json_field(value: Fields) -> Expression:
    """Return the field as jsonb."""
    exact = _exact(value)
    if not _in_any_case(value):
        return exact
    return replace(call("COALESCE", exact, _by_path(value, any_case=True), kind=Kind.JSON), origin=value.origin)


def text_field(value: Fields) -> Expression:
    """Return the field as text."""
    if not _is_plain(value):
        return _unquoted(json_field(value))
    record = _exact(replace(value, steps=value.steps[:-1])) if len(value.steps) > 1 else value.base
    exact = infix(record, "->>", _step(value.steps[-1]), kind=Kind.TEXT)
    if not _in_any_case(value):
        return exact
    return call("COALESCE", exact, _unquoted(_by_path(value, any_case=True)), kind=Kind.TEXT)


def _unquoted(value: Expression) -> Expression:
    return infix(value, "#>>", string("{}"), kind=Kind.TEXT)


def _in_any_case(value: Fields) -> bool:
    return any(_has_any_case(step, value) for step in value.steps)


def _has_any_case(step: str | int, value: Fields) -> bool:
    return isinstance(step, str) and step.casefold() in value.any_case


def _exact(value: Fields) -> Expression:
    if not _is_plain(value):
        return _by_path(value, any_case=False)
    result = value.base
    for step in value.steps:
        result = infix(result, "->", _step(step), kind=Kind.JSON)
    return replace(result, origin=value.origin)


def _is_plain(value: Fields) -> bool:
    """Whether every name directly follows an element: then ``->`` finds it; otherwise an array may be in between."""
    is_element = isinstance(value.base, Name) and value.base.owner is None
    for step in value.steps:
        if isinstance(step, str) and not is_element:
            return False
        is_element = isinstance(step, int)
    return True


def _step(step: str | int) -> Constant:
    return integer(step) if isinstance(step, int) else string(step)


def _by_path(value: Fields, *, any_case: bool) -> Expression:
    # m.request.path over {"request": [{"path": …}]}: a lax path goes through arrays of one record by itself.
    path = "$" + "".join(_path_step(step, value, any_case=any_case) for step in value.steps)
    # .keyvalue() fails for anything but an object; silently, so that the field is NULL there.
    silent = (string("{}"), TRUE) if any_case else ()
    return replace(
        call("jsonb_path_query_first", value.base, string(path), *silent, kind=Kind.JSON), origin=value.origin
    )


def _path_step(step: str | int, value: Fields, *, any_case: bool) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if not (any_case and _has_any_case(step, value)):
        return f".{json.dumps(step)}"
    pattern = json.dumps(f"^{re.escape(step)}$")
    return f'.keyvalue() ? (@.key like_regex {pattern} flag "i").value'
