"""Functions of BigQuery that sqlglot does not know, by their names in small letters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlglot import exp

from googlesql.lowering import Lowering, Rule
from googlesql.refusals import refusal_of
from googlesql.rules import numbers, time_building
from googlesql.tree import Expression


def _of(count: int, function: Callable[..., Expression]) -> Rule:
    def rule(node: exp.Anonymous, lowering: Lowering) -> Expression:
        if len(node.expressions) != count:
            raise refusal_of(node, f"takes {count} argument{'s' if count > 1 else ''}", construct=node.name.upper())
        return function(*lowering.lower_all(node.expressions))

    return rule


def _refused(reason: str) -> Rule:
    def rule(node: exp.Anonymous, _: Lowering) -> Expression:
        raise refusal_of(node, reason, construct=node.name.upper())

    return rule


BY_NAME: Final[dict[str, Callable[[Any, Lowering], Expression]]] = {
    **time_building.BY_NAME,
    "ieee_divide": _of(2, numbers.ieee_division),
    "nullifzero": _of(1, numbers.null_if_zero),
    "zeroifnull": _of(1, numbers.zero_if_null),
    "error": _refused("would end the whole query"),
    "iferror": _refused("is not supported: what would be an error is NULL here, for which IFNULL is enough"),
}
