"""Arrays that are made of other arrays, or of a first and a last element."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from googlesql.coercions import as_date, as_json, as_number, as_timestamp, without_null
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, Rule
from googlesql.refusals import refusal_of
from googlesql.tree import Constant, Expression, call, chain, infix, integer

_DAY: Final = Constant(kind=Kind.INTERVAL, sql="INTERVAL '1 day'")


def joined(node: exp.ArrayConcat, lowering: Lowering) -> Expression:
    arrays = [without_null(as_json(value)) for value in lowering.lower_all([node.this, *node.expressions])]
    return chain("||", *arrays, kind=Kind.JSON)


def reversed_array(node: exp.ArrayReverse, lowering: Lowering) -> Expression:
    return call("reversed_elements", as_json(lowering.lower(node.this)), kind=Kind.JSON)


def end(node: exp.ArrayFirst | exp.ArrayLast, lowering: Lowering) -> Expression:
    place = integer(0 if isinstance(node, exp.ArrayFirst) else -1)
    return infix(as_json(lowering.lower(node.this)), "->", place, kind=Kind.JSON)


def numbers(node: exp.GenerateSeries, lowering: Lowering) -> Expression:
    written = [node.args.get(name) for name in ("start", "end", "step")]
    values = [as_number(lowering.lower(value)) for value in written if value is not None]
    steps = values if len(values) == 3 else [*values, integer(1)]
    return call("number_series", *steps, kind=Kind.JSON)


def dates(node: exp.GenerateDateArray, lowering: Lowering) -> Expression:
    bounds = [as_date(lowering.lower(node.args.get(name))) for name in ("start", "end")]
    step = node.args.get("step")
    return call("date_series", *bounds, _DAY if step is None else lowering.lower(step), kind=Kind.JSON)


def timestamps(node: exp.GenerateTimestampArray, lowering: Lowering) -> Expression:
    raise refusal_of(node, "can be used only in UNNEST", construct="GENERATE_TIMESTAMP_ARRAY")


def series(node: exp.Expr, lowering: Lowering) -> Expression | None:
    """Return a series of numbers or moments for UNNEST, which makes one row after another; None for any other array."""
    if isinstance(node, exp.GenerateSeries):
        values = [node.args[name] for name in ("start", "end", "step") if node.args.get(name) is not None]
        return call("generate_series", *map(as_number, lowering.lower_all(values)), kind=Kind.INTEGER)
    if isinstance(node, exp.GenerateTimestampArray):
        bounds = [as_timestamp(lowering.lower(node.args.get(name))) for name in ("start", "end")]
        return call("generate_series", *bounds, lowering.lower(node.args.get("step")), kind=Kind.TIMESTAMP)
    return None


RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.ArrayConcat: joined,
    exp.ArrayReverse: reversed_array,
    exp.ArrayFirst: end,
    exp.ArrayLast: end,
    exp.GenerateSeries: numbers,
    exp.GenerateDateArray: dates,
    exp.GenerateTimestampArray: timestamps,
}
