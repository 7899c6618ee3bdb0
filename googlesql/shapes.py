"""What is inside structs and arrays that a text itself makes: jsonb forgets that a text in it was a moment.

    array_agg(struct(timestamp, id))  ->  Array(Struct({timestamp: TIMESTAMP, id: UUID}))

Inside jsonb a moment is the text that to_jsonb() writes. A shape tells where moments are, so that a path that ends in
one gives a moment again, and so that a result has every moment in the form that the endpoint writes, whatever wraps it.
"""

from __future__ import annotations

from typing import Final

from googlesql.coercions import CONVERSIONS
from googlesql.kinds import Array, Kind, Shape, Struct, moment_of
from googlesql.tree import (
    Call,
    Case,
    Chain,
    Constant,
    Expression,
    Fields,
    Infix,
    Name,
    Over,
    Query,
    Select,
    Subquery,
    Subscript,
)

# Functions whose result has the shape of their first argument.
_KEEPING: Final = frozenset({
    "COALESCE", "NULLIF", "first_value", "jsonb_path_query_array", "lag", "last_value", "lead", "nth_value",
    "reversed_elements",
})  # fmt: skip


def shape_of(value: Expression) -> Shape | None:
    """Return the shape of a value, None if a record of a table or PostgreSQL alone knows it."""
    match value:
        case Name(shape=shape) if shape is not None:
            return shape
        case Call():
            return _shape_of_call(value)
        case Over(call=inner):
            return shape_of(inner)
        case Case(branches=branches, default=default) if value.kind is Kind.JSON:
            results = [*(result for _, result in branches), *([default] if default is not None else [])]
            return next((shape for result in results if (shape := shape_of(result)) is not None), None)
        case Subquery(query=query) if query.outputs:
            return query.outputs[0].shape or _of_items(query)
        case Subscript(operand=array) | Infix(operator="->", left=array):
            return element_of(shape_of(array))
        case Chain(operator="||", operands=(first, *_)) if value.kind is Kind.JSON:
            return shape_of(first)
        case Fields(base=base, steps=steps):
            return _at(shape_of(base), steps)
        case _:
            return moment_of(value.kind)


def _shape_of_call(value: Call) -> Shape | None:
    match value:
        case Call(name="to_jsonb", arguments=(inner,)):
            return shape_of(inner)
        case Call(name="jsonb_build_object", arguments=pairs):
            names = [name.text for name in pairs[::2] if isinstance(name, Constant) and name.text is not None]
            return Struct(tuple(zip(names, map(shape_of, pairs[1::2]), strict=True)))
        case Call(name="jsonb_build_array" | "jsonb_agg" | "array_agg", arguments=(first, *_)):
            return Array(shape_of(first))
        case Call(name=name, arguments=(first, *_)) if name in _KEEPING and value.kind is Kind.JSON:
            return shape_of(first)
        case _:
            return moment_of(value.kind)


def _of_items(query: Query) -> Shape | None:
    return shape_of(query.items[0]) if isinstance(query, Select) else None


def element_of(shape: Shape | None) -> Shape | None:
    """Return the shape of the elements of an array."""
    return shape.element if isinstance(shape, Array) else None


def _at(shape: Shape | None, steps: tuple[str | int, ...]) -> Shape | None:
    """Return the shape at a path, which goes through an array of one record by itself."""
    for step in steps:
        if isinstance(shape, Array):
            shape = shape.element
            if isinstance(step, int):
                continue
        if not isinstance(shape, Struct):
            return None
        name = str(step).casefold()
        shape = next((inner for field, inner in shape.fields if field.casefold() == name), None)
    return shape


def typed(value: Expression) -> Expression:
    """Return what a path or an element finds, as the moment that it is, if it is one."""
    shape = shape_of(value) if value.kind is Kind.JSON else None
    return CONVERSIONS[shape](value) if isinstance(shape, Kind) and shape in CONVERSIONS else value
