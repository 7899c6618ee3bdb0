"""How a field of a record is read: by ``->`` where that finds it, otherwise by a path, and in any case if need be.

BigQuery compares the names of fields without case, PostgreSQL exactly. A name gets both readings, the exact one first,
only where a key in other letters is likely: the second reading costs 4 µs in each row without the exact key, 25 times
as much as the first. Such are names that the text writes with a capital letter anywhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sqlglot import exp

from googlesql.field_paths import FieldPath, FieldUse, json_path
from googlesql.kinds import Kind
from googlesql.tree import (
    TRUE,
    Call,
    Constant,
    Expression,
    Fields,
    Name,
    call,
    infix,
    integer,
    string,
)

MAX_NAME_LENGTH: Final = 300  # of a column in BigQuery; longer names are compared exactly, their patterns cost too much


# --- Names in any case ------------------------------------------------------------------------------------------------
def written_with_capitals(tree: exp.Expr) -> frozenset[str]:
    """Return the names that a text writes with a capital letter, folded."""
    names = {identifier.name for identifier in tree.find_all(exp.Identifier)}
    return frozenset(name.casefold() for name in names if name != name.lower() and len(name) <= MAX_NAME_LENGTH)


# --- Paths ------------------------------------------------------------------------------------------------------------
def path_of(value: Expression) -> FieldPath | None:
    """Return the way from a column of a sandbox table to this value, None if it is nothing stored."""
    if isinstance(value, Fields):
        record = path_of(value.base)
        return None if record is None else record.to(value.steps, value.any_case)
    return value.trace.path if isinstance(value, Name) else None


def uses_of(value: Expression) -> tuple[FieldUse, ...]:
    """Return the stored fields that a name means, and those that its column was made of."""
    if isinstance(value, Call):  # a bare name, in several records
        paths = [path_of(argument) for argument in value.arguments]
        known = tuple(path for path in paths if path is not None)
        return (FieldUse(known),) if len(known) == len(paths) else ()
    path = path_of(value)
    own = (FieldUse((path,)),) if path is not None and path.steps else ()
    name = value.base if isinstance(value, Fields) else value
    return own + name.trace.uses if isinstance(name, Name) else own


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
    return any(isinstance(step, str) and step.casefold() in value.any_case for step in value.steps)


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
    path = json_path(value.steps, value.any_case if any_case else frozenset())
    # .keyvalue() fails for anything but an object; silently, so that the field is NULL there.
    silent = (string("{}"), TRUE) if any_case else ()
    return replace(
        call("jsonb_path_query_first", value.base, string(path), *silent, kind=Kind.JSON), origin=value.origin
    )
