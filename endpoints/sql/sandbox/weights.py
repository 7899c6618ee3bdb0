"""How much PostgreSQL builds from a query while it reads and plans it, without a look at its clock.

Each token weighs 1, a FROM item and a function that is replaced by its definition more. A construct that copies its
operand, such as BETWEEN, adds the operand again. A column of a subquery adds what its expression weighs, because the
planner puts the expression in its place:

    with a as (select x + x as y from t), b as (select y + y as z from a) select z + z from b  ->  z weighs 7, y 3

OFFSET 0 at the subquery's end keeps the planner from it, and its columns weigh 1. It keeps conditions out of the
subquery too, so only one whose columns would add more than BARRIER_FROM gets it. A text above HEAVIEST is refused.

Weights are upper bounds: a name that may belong to several FROM items counts for each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from endpoints.sql.sandbox.reader import Mark, Reader
from endpoints.sql.sandbox.scopes import EVERY_COLUMN, EXPRESSION_COLUMNS, Output, Scope, Source, Star, Use
from endpoints.sql.sandbox.tokens import PARAMETER
from endpoints.sql.sandbox.vocabulary import LITERALS

BARRIER_FROM: Final = 8_000
ITEM_WEIGHT: Final = 60  # of a FROM item beyond its tokens
SELECT_WEIGHT: Final = 200
# A function of ours, or of PostgreSQL that is called through one of ours, is replaced by its definition; so are the
# arithmetic of numerics and casts to text.
OWN_FUNCTION_WEIGHT: Final = 300
TWIN_WEIGHT: Final = 100
# The definition names its arguments so often, and PostgreSQL copies those that are cheap to compute.
NAMED_ARGUMENTS: Final = 8
LARGEST_CHEAP_ARGUMENT: Final = 60
# The planner takes columns of an outer join for free, and copies them into the definitions of functions.
OUTER_JOIN_GROWTH: Final = 9
JOIN_GROWTH: Final = 3  # times the work of planning for each FROM item more
LARGEST_JOIN: Final = 8  # items that PostgreSQL orders at a time
MOST_COLUMNS: Final = 1664  # of a SELECT
COPYING: Final = frozenset({"between", "in"})
_CONSTANTS: Final = LITERALS - {PARAMETER} | {"+", "-"}


class Listed(NamedTuple):
    """An item of a select list: what it gives, and where its expression begins and ends."""

    output: Output
    start: Mark
    end: Mark


def copies_of_left_side(reader: Reader) -> int:
    """Return how often PostgreSQL holds what stands before BETWEEN, IN or an operator with ANY, the current token."""
    behind = reader.following()
    if reader.symbol == "between":
        return 4 if behind == "symmetric" else 2
    members = _members(reader) if reader.symbol == "in" and behind == "(" else 2
    # Before a query: the executor prepares it for the hash table too. "((" may also begin rows.
    return max(2, members) if reader.following(2) in ("select", "with", "(") else members


def _members(reader: Reader) -> int:
    # x in (a, b, 1, 2)  ->  x = a or x = b or x = any (array[1, 2])
    start = reader.index + 1
    constants = varying = depth = 0
    is_constant = True
    for symbol in reader.symbols[start + 1 : reader.closers[start] + 1]:
        if depth == 0 and (symbol == "," or symbol == ")"):
            constants, varying, is_constant = constants + is_constant, varying + (not is_constant), True
        else:
            depth += (symbol in "([") - (symbol in ")]")
            is_constant = is_constant and symbol in _CONSTANTS
    return varying + (constants > 0)


def add_definition(reader: Reader, start: Mark, weight: float) -> None:
    """Note that a call from there to here is replaced by a definition of this weight."""
    arguments = reader.index - start[0] + reader.more_weight - start[1]
    reader.add_weight(weight + NAMED_ARGUMENTS * min(arguments, LARGEST_CHEAP_ARGUMENT), start[0])


def weight_of_planning(scope: Scope) -> float:
    """Return what ordering the FROM items of a SELECT takes; PostgreSQL plans a copied subquery for each copy."""
    return SELECT_WEIGHT + float(4 * JOIN_GROWTH ** min(scope.item_count, LARGEST_JOIN))


def fields_of_widest_row(reader: Reader) -> int:
    """Return how many columns ``(expression).*`` may give."""
    commas, stars = reader.symbols.count(","), reader.symbols.count("*")
    return min(MOST_COLUMNS, commas + 1 + stars * max(map(len, reader.tables.values()), default=1))


# --- Queries ----------------------------------------------------------------------------------------------------------
def source_of_select(
    reader: Reader, scope: Scope, listed: Sequence[Listed], beginning: Mark, after_list: Mark, after_from: Mark
) -> Source:
    """Weigh a SELECT that has been read, and return it."""
    branches = max((source.branches for _, source in scope.sources if not _is_opaque(source)), default=1)
    if branches > 1:
        reader.copied(after_from, branches)
        reader.copied(beginning, branches, after_list)
    weights: dict[str | None, float] = {}
    for item, weight in zip(listed, settle(reader, scope, beginning, listed), strict=True):
        output = item.output
        if not isinstance(output, Star) or output == EXPRESSION_COLUMNS:
            name = None if isinstance(output, Star) else output
            weights[name] = max(weights.get(name, 0), weight)
            continue
        for alias, source in scope.sources:
            if not _is_opaque(source) and output.owner in (None, alias):
                for column, inside in source.weights.items():
                    name = None if source.is_renamed else column
                    weights[name] = max(weights.get(name, 0), inside)
    weights = {name: weight for name, weight in weights.items() if weight}
    return Source(scope.output_columns(item.output for item in listed), weights, width=len(listed), branches=branches)


def source_of_branches(branches: Sequence[Source]) -> Source:
    """Return the UNION, INTERSECT or EXCEPT of queries: the columns of the first, each as heavy as the heaviest."""
    heaviest = max((_weight_in(branch, name) for branch in branches for name in branch.weights), default=0)
    return Source(
        branches[0].columns,
        {None: heaviest} if heaviest else {},
        width=branches[0].width,
        branches=sum(branch.branches for branch in branches),
        is_renamed=True,
    )


def _is_opaque(source: Source) -> bool:
    """Whether PostgreSQL leaves the expressions of the columns where they are."""
    return source.is_barrier or source.named > 1


# --- Columns ----------------------------------------------------------------------------------------------------------
def settle(reader: Reader, scope: Scope, start: Mark, listed: Sequence[Listed] = ()) -> list[float]:
    """Weigh the columns used since a place, now that their FROM items are known; return the weights of the list."""
    first = start[2]
    uses = reader.uses[first:]
    del reader.uses[first:]
    for alias, source in scope.sources:
        added = _added(source, alias, uses) * _copies(scope)
        if added > BARRIER_FROM:
            reader.pieces[source.closer] = "OFFSET 0 )"
            source.is_barrier = True
        else:
            reader.add_weight(added, start[0])
    if reader.open_selects:
        reader.uses.extend(use for use in uses if not _is_of(scope, use.owner, use.name))
    return [_of_listed(item, uses[item.start[2] - first : item.end[2] - first], scope) for item in listed]


def _of_listed(item: Listed, uses: Iterable[Use], scope: Scope) -> float:
    tokens = item.end[0] - item.start[0] + item.end[1] - item.start[1] - 1
    if not scope.sources:
        return tokens
    inside = sum(
        _weight_in(source, name) * times for alias, source in scope.sources for name, times in _uses_of(alias, uses)
    )
    return tokens + inside * _copies(scope)


def _added(source: Source, alias: str | None, uses: Iterable[Use]) -> float:
    # The first use of a column moves its expression, each other one copies it.
    times_of: defaultdict[str | Star, float] = defaultdict(float)
    for name, times in _uses_of(alias, uses):
        times_of[name] += times
    moved = EVERY_COLUMN not in times_of
    return sum((times - (moved or name == EVERY_COLUMN)) * _weight_in(source, name) for name, times in times_of.items())


def _uses_of(alias: str | None, uses: Iterable[Use]) -> Iterator[tuple[str | Star, float]]:
    """Yield what the uses may name of a FROM item, and how often: its own name is its whole row."""
    for owner, name, times in uses:
        if owner is None or owner == alias:
            yield (EVERY_COLUMN if name == alias or isinstance(name, Star) else name), times


def _copies(scope: Scope) -> int:
    return OUTER_JOIN_GROWTH if scope.has_outer_join else 1


def _is_of(scope: Scope, owner: str | None, name: str | Star) -> bool:
    if owner is not None:
        return owner in scope.items
    return name == EVERY_COLUMN or name in scope.items or any(name in columns for columns in scope.items.values())


def _weight_in(source: Source, name: str | Star | None) -> float:
    if not source.weights or _is_opaque(source):
        return 0
    if isinstance(name, Star):
        return sum(weight * (source.width if column is None else 1) for column, weight in source.weights.items())
    if source.is_renamed:
        return max(source.weights.values())
    return source.weights.get(name, 0 if name in source.columns else source.weights.get(None, 0))
