"""Windows, their frames and functions. Also SAFE. calls, and PostgreSQL's own functions, from older texts."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sqlglot import exp

from googlesql.coercions import as_number, output
from googlesql.function_names import FUNCTION_NAMES, WINDOWED
from googlesql.kinds import NUMERIC_KINDS, Kind
from googlesql.lowering import Lowering, Rule, number_of, offset_of
from googlesql.passes import AGGREGATES
from googlesql.refusals import refusal_of, similar_names
from googlesql.rules.conditionals import of_one_kind
from googlesql.rules.functions_by_name import BY_NAME
from googlesql.rules.json_and_arrays import argument
from googlesql.rules.over import with_over
from googlesql.rules.window_values import (
    PERCENTILES,
    distinct_values,
    nth_value,
    ntile,
    percentile,
)
from googlesql.tree import Call, Constant, Expression, Ordered, Over, call

_RANKS: Final[dict[type[exp.Expr], str]] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist",
}
_NEIGHBOURS: Final[dict[type[exp.Expr], str]] = {
    exp.Lag: "lag",
    exp.Lead: "lead",
    exp.FirstValue: "first_value",
    exp.LastValue: "last_value",
}
_ONLY_IN_WINDOWS: Final = (*_RANKS, *_NEIGHBOURS, exp.NthValue, exp.Ntile)
_ORDERED: Final = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile, exp.Lag, exp.Lead)
_NULLS: Final = (exp.IgnoreNulls, exp.RespectNulls)


# --- OVER -------------------------------------------------------------------------------------------------------------
def window(node: exp.Window, lowering: Lowering) -> Expression:
    called = node.this.this if isinstance(node.this, _NULLS) else node.this
    over = _over(node, lowering)
    if isinstance(called, PERCENTILES):
        if over.order or over.frame:
            raise refusal_of(called, "takes only PARTITION BY in its window")
        return percentile(node.this, over.partition, lowering)
    value = replace(lowering, windowed=True).lower(node.this)
    if isinstance(value, Call) and value.name == "count" and value.distinct and value.condition is None:
        if over.order or over.frame:
            raise refusal_of(called, "takes only PARTITION BY in its window", construct="COUNT(DISTINCT …)")
        return distinct_values(value.arguments[0], over, lowering)
    if isinstance(called, _ORDERED) and not over.order:
        raise refusal_of(called, "needs ORDER BY in its window")
    is_own = isinstance(value, Call) and value.name in WINDOWED  # one of PostgreSQL's, such as regr_slope
    if is_own or isinstance(called, (*AGGREGATES, *_ONLY_IN_WINDOWS)):
        result = with_over(value, over, called)
        if result is not value:
            return result
    raise refusal_of(node.this, "cannot be used with OVER")


def _over(node: exp.Window, lowering: Lowering) -> Over:
    """Return the window of a call, which gets its place in `call` later."""
    # As in GROUP BY, rows without a field and rows in which it is a JSON null belong together.
    lowering = replace(lowering, grouped=True)
    order, frame = lowering.order(node.args.get("order")), ""
    spec = node.args.get("spec")
    if spec is not None:
        frame, has_distance = _frame(spec, lowering)
        if has_distance and frame.startswith("RANGE"):
            order = _numbers(order, spec)
    partition = tuple(map(output, lowering.lower_all(node.args.get("partition_by") or [])))
    return Over(kind=Kind.OTHER, call=Call(kind=Kind.OTHER, name=""), partition=partition, order=order, frame=frame)


# --- Frames -----------------------------------------------------------------------------------------------------------
def _frame(spec: exp.WindowSpec, lowering: Lowering) -> tuple[str, bool]:
    """Return the frame in PostgreSQL's words, and whether one of its bounds is a distance from the row."""
    bounds: list[str] = []
    has_distance = False
    unit = str(spec.args.get("kind") or "ROWS").upper()
    if unit not in ("ROWS", "RANGE"):
        raise refusal_of(spec, construct=f"a {unit} frame")
    for name in ("start", "end"):
        bound = spec.args.get(name)
        if bound is None:
            continue
        side = str(spec.args.get(f"{name}_side") or "").upper()
        if isinstance(bound, exp.Expr):
            has_distance = True
            bounds.append(f"{_distance(bound, unit, lowering)} {side}")
        else:
            bounds.append(f"{bound} {side}".strip())
    ranks = [_rank_of_bound(bound) for bound in (*bounds, "CURRENT ROW")[:2]]
    if ranks[0] > ranks[1] or ranks[0] == _LAST or ranks[1] == _FIRST:
        raise refusal_of(spec.parent or spec, "ends before it begins", construct="the window frame")
    return f"{unit} BETWEEN {bounds[0]} AND {bounds[1] if len(bounds) == 2 else 'CURRENT ROW'}", has_distance


_FIRST: Final = 0  # of the ranks of bounds: from UNBOUNDED PRECEDING to UNBOUNDED FOLLOWING
_LAST: Final = 4


def _rank_of_bound(bound: str) -> int:
    distance, _, side = bound.rpartition(" ")
    if bound == "CURRENT ROW":
        return 2
    if distance == "UNBOUNDED":
        return _FIRST if side == "PRECEDING" else _LAST
    return 1 if side == "PRECEDING" else 3


def _distance(bound: exp.Expr, unit: str, lowering: Lowering) -> str:
    value = lowering.lower(bound) if isinstance(bound, exp.Literal | exp.Parameter) else None
    kinds = (Kind.INTEGER,) if unit == "ROWS" else NUMERIC_KINDS
    if not isinstance(value, Constant) or value.kind not in kinds:
        reason = f"needs {'a whole number' if unit == 'ROWS' else 'a number'} that is not negative"
        raise refusal_of(bound, reason, construct=f"the distance in a {unit} frame")
    return value.sql


def _numbers(order: tuple[Ordered, ...], spec: exp.WindowSpec) -> tuple[Ordered, ...]:
    """Return the ORDER BY of a RANGE frame with a distance: one number."""
    kinds = [item.expression.kind for item in order]
    if len(kinds) != 1 or (kinds[0] not in NUMERIC_KINDS and kinds[0] not in (Kind.JSON, Kind.OTHER)):
        reason = "needs exactly one number in ORDER BY; of a timestamp, take unix_seconds(…)"
        raise refusal_of(spec, reason, construct="RANGE with a distance")
    return (replace(order[0], expression=as_number(order[0].expression)),)


# --- Functions of windows ---------------------------------------------------------------------------------------------
def rank(node: exp.Func, _: Lowering) -> Expression:
    kind = Kind.FLOAT if isinstance(node, exp.PercentRank | exp.CumeDist) else Kind.INTEGER
    return call(_RANKS[type(node)], kind=kind)


def neighbour(node: exp.Func, lowering: Lowering) -> Expression:
    lowering = lowering.ungrouped()
    values = [lowering.lower(node.this)]
    if node.args.get("default") is not None:
        values.append(lowering.lower(node.args["default"]))
    values, kind = of_one_kind(values)
    distances = [_rows_away(node.args["offset"], node, lowering)] if node.args.get("offset") is not None else []
    arguments = (argument(output(values[0])), *distances, *(argument(output(value)) for value in values[1:]))
    return Call(kind=kind, name=_NEIGHBOURS[type(node)], arguments=arguments)


def _rows_away(distance: exp.Expr, node: exp.Func, lowering: Lowering) -> Expression:
    number = number_of(distance)
    if not isinstance(distance, exp.Parameter) and (number is None or number < 0):
        reason = "needs a whole number from 0 on"
        raise refusal_of(distance, reason, construct=f"the distance in {_NEIGHBOURS[type(node)].upper()}")
    return lowering.lower(distance)


# --- Other functions --------------------------------------------------------------------------------------------------
def safe(node: exp.SafeFunc, lowering: Lowering) -> Expression:
    return replace(lowering, safe=True).lower(node.this)


def other_function(node: exp.Anonymous, lowering: Lowering) -> Expression:
    """A function that BigQuery does not have: PostgreSQL's function, if it is allowed."""
    name = node.name.lower()
    if name in BY_NAME:
        return BY_NAME[name](node, lowering)
    if name not in lowering.scope.functions:
        similar = similar_names(name, FUNCTION_NAMES)
        raise refusal_of(node, "is not a function of the BigQuery dialect of this service", similar=similar)
    arguments = tuple(map(output, lowering.lower_all(node.expressions)))
    return Call(kind=Kind.OTHER, name=name, arguments=arguments, origin=offset_of(node))


RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.Window: window,
    **dict.fromkeys(_RANKS, rank),
    **dict.fromkeys(_NEIGHBOURS, neighbour),
    exp.NthValue: nth_value,
    exp.Ntile: ntile,
    exp.SafeFunc: safe,
    exp.Anonymous: other_function,
}
