"""IGNORE NULLS and RESPECT NULLS: what they mean depends on the function."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from googlesql.lowering import Lowering, Rule
from googlesql.refusals import refusal_of
from googlesql.rules.gathering import array_of_values
from googlesql.rules.window_values import PERCENTILES, nth_present
from googlesql.tree import Expression

_NTH: Final = (exp.FirstValue, exp.LastValue, exp.NthValue)
# With OVER, percentiles are read there.
_ALWAYS_IGNORE: Final = (exp.AnyValue, exp.ApproxQuantiles, *PERCENTILES)
_ALWAYS_RESPECT: Final = (*_NTH, exp.ArrayAgg)


def ignoring(node: exp.IgnoreNulls, lowering: Lowering) -> Expression:
    if isinstance(node.this, exp.ArrayAgg):
        return array_of_values(node.this, lowering, ignore_nulls=True)
    if isinstance(node.this, _NTH):
        return nth_present(node.this, lowering)
    if isinstance(node.this, _ALWAYS_IGNORE):
        return lowering.lower(node.this)
    raise refusal_of(node, "cannot be used with this function", construct="IGNORE NULLS")


def respecting(node: exp.RespectNulls, lowering: Lowering) -> Expression:
    if isinstance(node.this, _ALWAYS_RESPECT):
        return lowering.lower(node.this)
    raise refusal_of(node, "cannot be used with this function", construct="RESPECT NULLS")


RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.IgnoreNulls: ignoring,
    exp.RespectNulls: respecting,
}
