"""Values of windows for which PostgreSQL has no function: without NULLs, percentiles, numbers of distinct values.

first_value(x ignore nulls) over (order by y)
  ->  (array_agg(x) filter (where x is not null) over (order by y))[1]
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from math import nextafter
from typing import Final

from sqlglot import exp

from googlesql.coercions import as_json, as_number, output
from googlesql.kinds import NUMERIC_KINDS, Kind
from googlesql.lowering import Lowering, Rule, number_of, offset_of
from googlesql.refusals import refusal_of
from googlesql.rules.gathering import present
from googlesql.rules.json_and_arrays import argument
from googlesql.tree import (
    Call,
    Case,
    Constant,
    Expression,
    Ordered,
    Over,
    Percentile,
    Subscript,
    call,
    cast,
    infix,
    integer,
    ordered,
)

PERCENTILES: Final = (exp.PercentileCont, exp.PercentileDisc)
_COPIES: Final = 8  # of an argument and its window in the result, at most
MAX_TILES: Final = 2**31 - 1  # PostgreSQL's integer


# --- N-th values ------------------------------------------------------------------------------------------------------
def nth_value(node: exp.NthValue, lowering: Lowering) -> Expression:
    value = output(lowering.ungrouped().lower(node.this))
    return call("nth_value", value, integer(_position(node.args.get("offset"), node)), kind=value.kind)


def ntile(node: exp.Ntile, _: Lowering) -> Expression:
    return call("ntile", integer(_position(node.this, node)), kind=Kind.INTEGER)


def _position(position: exp.Expr | None, node: exp.Expr) -> int:
    number = number_of(position)
    if number is None or not 1 <= number <= MAX_TILES:
        raise refusal_of(node, "needs a whole number from 1 on")
    return number


def nth_present(node: exp.Expr, lowering: Lowering) -> Expression:
    """Return the first, last or n-th value that is not NULL.

    last_value(x ignore nulls) over w
      ->  (array_agg(x) filter (where x is not null) over w)[cardinality(array_agg(x) filter (…) over w)]
    """
    value = lowering.ungrouped().lower(node.this)
    value = as_json(value) if value.kind is Kind.JSON else argument(value)
    values = Call(kind=Kind.OTHER, name="array_agg", arguments=(value,), condition=present(value))
    index: Expression
    if isinstance(node, exp.LastValue):
        index = call("cardinality", values, kind=Kind.INTEGER)
    else:
        index = integer(_position(node.args["offset"], node) if isinstance(node, exp.NthValue) else 1)
    return Subscript(kind=value.kind, operand=values, index=index)


# --- Percentiles ------------------------------------------------------------------------------------------------------
def percentile(node: exp.Expr, partition: tuple[Expression, ...], lowering: Lowering) -> Expression:
    """Return a percentile of each partition; `node` is the call, perhaps in IGNORE NULLS or RESPECT NULLS."""
    called = node.this if isinstance(node, exp.IgnoreNulls | exp.RespectNulls) else node
    lowering.scope.work.spend(_COPIES * sum(1 for _ in called.walk()))
    value = _measured(called, lowering)
    return Percentile(
        kind=value.kind,
        origin=offset_of(called),
        value=value,
        partition=partition,
        fraction=_fraction(called),
        continuous=isinstance(called, exp.PercentileCont),
        respect_nulls=isinstance(node, exp.RespectNulls),
    )


def percentile_of_group(node: exp.Expr, lowering: Lowering) -> Expression:
    # percentile_cont(x, 0.5)  ->  percentile_cont(0.5) within group (order by x)
    value = _measured(node, lowering.ungrouped())
    fraction = _fraction(node)
    if isinstance(node, exp.PercentileDisc) and Decimal(fraction) > Decimal(repr(fraction)):
        fraction = nextafter(fraction, 1)  # PostgreSQL multiplies doubles, and their product is rounded down
    name = "percentile_cont" if isinstance(node, exp.PercentileCont) else "percentile_disc"
    return Call(
        kind=value.kind,
        name=name,
        arguments=(Constant(kind=Kind.NUMBER, sql=repr(fraction)),),
        within=(ordered(value),),
    )


def _measured(node: exp.Expr, lowering: Lowering) -> Expression:
    value = lowering.lower(node.this)
    is_continuous = isinstance(node, exp.PercentileCont)
    if is_continuous and value.kind not in (*NUMERIC_KINDS, Kind.JSON, Kind.NULL, Kind.OTHER):
        raise refusal_of(node, "needs a number")
    if is_continuous or value.kind is Kind.JSON:
        value = as_number(value)
    return cast(value, "double precision", Kind.FLOAT) if is_continuous else value


def _fraction(node: exp.Expr) -> float:
    """Return the fraction as BigQuery has it, a double: 0.9 is a little more than 9 of 10 values, so the tenth."""
    written = node.args.get("expression")
    text = str(written.this) if isinstance(written, exp.Literal) and not written.is_string else ""
    try:
        fraction = float(text)
    except ValueError:
        fraction = -1
    if not 0 <= fraction <= 1:
        raise refusal_of(node, "needs a number from 0 to 1 as its second argument")
    return fraction


# --- Distinct values --------------------------------------------------------------------------------------------------
def distinct_values(value: Expression, over: Over, lowering: Lowering) -> Expression:
    """Return the number of distinct values of each partition, for which PostgreSQL has no DISTINCT.

    The rank of a value from below and the rank from above make one more than the number of values; NULL is one of
    these.
    """
    lowering.scope.work.spend(_COPIES)
    ranked = Call(kind=Kind.INTEGER, name="dense_rank")
    ranks = [
        replace(over, call=ranked, kind=Kind.INTEGER, order=(Ordered(expression=value, descending=descending),))
        for descending in (False, True)
    ]
    rows, values = (
        replace(over, call=counted, kind=Kind.INTEGER)
        for counted in (
            Call(kind=Kind.INTEGER, name="count", star=True),
            Call(kind=Kind.INTEGER, name="count", arguments=(value,)),
        )
    )
    has_null = infix(rows, ">", values, kind=Kind.BOOLEAN)
    null = Case(kind=Kind.INTEGER, operand=None, branches=((has_null, integer(2)),), default=integer(1))
    both = infix(ranks[0], "+", ranks[1], kind=Kind.INTEGER)
    return infix(both, "-", null, kind=Kind.INTEGER)


RULES: Final[dict[type[exp.Expr], Rule]] = dict.fromkeys(PERCENTILES, percentile_of_group)
