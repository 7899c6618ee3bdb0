"""One expression of sqlglot's tree → PostgreSQL's tree: the tools for every rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlglot import exp

from googlesql import Refused
from googlesql.refusals import NOT_SUPPORTED, origin, refusal_of
from googlesql.scopes import Scope
from googlesql.tree import Expression, Ordered, Query

MAX_DIGITS: Final = 18  # fits PostgreSQL's bigint
Rule = Callable[[Any, "Lowering"], Expression]


@dataclass(frozen=True, slots=True)
class Lowering:
    """The names that an expression may use, the rules, and the translation of queries inside it."""

    scope: Scope
    rules: Mapping[type[exp.Expr], Rule]
    translate_query: Callable[[exp.Expr, Scope], Query]
    translate_order: Callable[[Sequence[exp.Expr], Lowering], tuple[Ordered, ...]]
    # A grouped query may use a field only in its grouped form, so every reading of it begins with the same `->`.
    grouped: bool = False
    # The function that is lowered next has OVER: its argument sees the rows of the SELECT, grouped or not.
    windowed: bool = False
    safe: bool = False  # within a SAFE. function, which is NULL where others fail

    def lower(self, node: exp.Expr | None) -> Expression:
        """Return the meaning of a node. Raises Refused if it has no rule."""
        if node is None:
            raise Refused("a function", "is called with too few arguments")
        self.scope.work.spend(1)
        rule = self.rules.get(type(node))
        if rule is None:
            raise refusal_of(node, NOT_SUPPORTED)
        value = rule(node, self)
        if value.origin < 0 and (start := (node._meta or {}).get("start")) is not None:
            value = replace(value, origin=int(start))
        return value

    def lower_all(self, nodes: Sequence[exp.Expr | None]) -> list[Expression]:
        """Return the meaning of each node."""
        return [self.lower(node) for node in nodes]

    def ungrouped(self) -> Lowering:
        """Return the same for the argument of an aggregate, which sees single rows, or of a window function."""
        if self.windowed:
            return replace(self, windowed=False)
        return replace(self, grouped=False) if self.grouped else self

    def order(self, node: exp.Expr | None) -> tuple[Ordered, ...]:
        """Return an ORDER BY within an expression."""
        return () if node is None else self.translate_order(node.expressions, self)

    def query(self, node: exp.Expr) -> Query:
        """Return a query inside an expression."""
        return self.translate_query(node, Scope(parent=self.scope))


def number_of(node: exp.Expr | None) -> int | None:
    """Return the value of an integer literal, None for everything else."""
    negative = isinstance(node, exp.Neg)
    literal = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(literal, exp.Literal) or literal.is_string:
        return None
    if not str(literal.this).isdigit() or len(str(literal.this)) > MAX_DIGITS:
        return None
    return -int(literal.this) if negative else int(literal.this)


def text_of(node: exp.Expr | None) -> str | None:
    """Return the text of a string literal, None for everything else."""
    return str(node.this) if isinstance(node, exp.Literal) and node.is_string else None


def offset_of(node: exp.Expr) -> int:
    """Return the place of a node in the consumer's text, -1 if it is unknown."""
    start = origin(node)
    return -1 if start is None else start
