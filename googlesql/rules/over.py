"""OVER: PostgreSQL has it only right after a call, so the call within a translation gets it.

avg(x) over (partition by g)  ->  avg(x) over (partition by g)::double precision
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from sqlglot import exp

from googlesql.function_names import WINDOWED
from googlesql.kinds import Kind
from googlesql.refusals import refusal_of
from googlesql.tree import NULL, Call, Case, Expression, Over, call, integer, string


def with_over(value: Expression, over: Over, called: exp.Expr) -> Expression:
    """Return a value in which each aggregate has OVER; the value itself if there is none. Raises Refused.

    `over` is the window, whatever its call; `called` is the function that a refusal names.
    """
    if isinstance(value, Call) and value.name in WINDOWED:
        if value.distinct:
            raise refusal_of(called, "is supported only in COUNT with OVER", construct="DISTINCT")
        if value.order or value.within:
            raise refusal_of(called, "cannot be used with OVER; order the rows in the window", construct="ORDER BY")
        if value.condition is not None and any(_calls(value.condition)):
            return _of_groups(value, over, called)
        return replace(over, call=value, kind=value.kind, origin=value.origin)
    changed: dict[str, Any] = {}
    for field in fields(value):
        part = getattr(value, field.name)
        new = _part_with_over(part, over, called)
        if new is not part:
            changed[field.name] = new
    return replace(value, **changed) if changed else value


def _part_with_over(part: Any, over: Over, called: exp.Expr) -> Any:
    if isinstance(part, Expression):
        return with_over(part, over, called)
    if isinstance(part, tuple):
        new = tuple(_part_with_over(inner, over, called) for inner in part)
        return new if any(one is not other for one, other in zip(new, part, strict=True)) else part
    return part


def _calls(part: Any) -> Iterator[Call]:
    """Yield the aggregates in an expression, without those in its queries."""
    if isinstance(part, Call) and part.name in WINDOWED:
        yield part
    elif isinstance(part, Expression):
        for field in fields(part):
            yield from _calls(getattr(part, field.name))
    elif isinstance(part, tuple):
        for inner in part:
            yield from _calls(inner)


def _of_groups(value: Call, over: Over, called: exp.Expr) -> Expression:
    """Return a call over groups whose condition has an aggregate, which PostgreSQL does not allow in FILTER.

    countif(sum(x) > 5) over ()               ->  count(case when sum(x) > 5 then 1 end) over ()
    first_value(sum(x) ignore nulls) over ()  ->  (array_remove(array_agg(sum(x)) over (), null))[1]
    """
    everything = replace(over, call=replace(value, condition=None), kind=value.kind, origin=value.origin)
    match value.name:
        case "count" if value.star and value.condition is not None:
            one = Case(kind=Kind.INTEGER, operand=None, branches=((value.condition, integer(1)),), default=None)
            return replace(everything, call=call("count", one, kind=Kind.INTEGER))
        case "array_agg":
            return call("array_remove", everything, NULL, kind=value.kind)
        case "jsonb_agg":
            return call("jsonb_path_query_array", everything, string("$[*] ? (@ != null)"), kind=Kind.JSON)
        case _:
            raise refusal_of(called, "cannot have an aggregate in its condition")
