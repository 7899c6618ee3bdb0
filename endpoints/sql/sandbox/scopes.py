"""Which relation a name means and which columns it surely has, level by level as PostgreSQL looks names up.

Columns matter because of attribute notation (PostgreSQL manual, 8.16.5): ``o.a`` is the call ``a(o)`` when ``o`` has
no column ``a``, and no parse tree shows it. So ``o.a`` passes only where every FROM item that PostgreSQL could take
for ``o`` surely has a column ``a``. All column sets here are therefore lower bounds: uncertain columns are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

Columns = frozenset[str]
NO_COLUMNS: Final[Columns] = frozenset()


@dataclass(frozen=True, slots=True)
class Star:
    """All columns of one FROM item, or of all of them (`owner` None), or of an expression (`owner` "")."""

    owner: str | None


EVERY_COLUMN: Final = Star(None)
EXPRESSION_COLUMNS: Final = Star("")

# What an expression in a select list gives: a column of this name, several columns, or one whose name is not sure.
Output = str | Star | None


class Use(NamedTuple):
    """A column that a text names: of one FROM item, or of any (`owner` None), and how often PostgreSQL holds it."""

    owner: str | None
    name: str | Star
    times: float


@dataclass(eq=False, slots=True)
class Source:
    """A query in FROM or WITH, with its sure columns.

    `weights` tells how many tokens more than a name PostgreSQL puts in the place of a column; under None it has the
    heaviest column whose name is not sure.
    `branches` is the number of SELECTs into which PostgreSQL copies what stands around the query.
    """

    columns: Columns
    weights: dict[str | None, float] = field(default_factory=dict)
    width: int = 1  # at most so many columns
    branches: int = 1
    is_renamed: bool = False
    is_barrier: bool = False  # PostgreSQL computes it by itself
    named: int = 0  # a common table that is named twice is computed once
    closer: int = -1  # where its closing bracket is among the emitted pieces


class Scope:
    """One level of names: a query with its WITH list, or one SELECT with its FROM items.

    `reading_from` is true while the FROM clause is read: there PostgreSQL shows at most the items that stand before.
    `gives_columns` is true in the select list, and where an expression of it is written again: GROUP BY and ORDER BY.
    """

    __slots__ = (
        "common_tables", "gives_columns", "has_outer_join", "item_count", "items", "parent", "parent_in_full",
        "parent_items", "reading_from", "sources",
    )  # fmt: skip

    def __init__(self, parent: Scope | None) -> None:
        self.parent = parent
        self.parent_in_full = parent is None or not parent.reading_from
        self.parent_items: Mapping[str, Columns] = {} if parent is None else parent.visible_items()
        self.common_tables: dict[str, Source] = {}
        self.items: dict[str, Columns] = {}
        self.sources: list[tuple[str | None, Source]] = []  # the items that are queries
        self.item_count = 0
        self.has_outer_join = False
        self.reading_from: bool = False
        self.gives_columns = True

    def common_table(self, name: str) -> Source | None:
        """Return the nearest common table expression with this name, None if there is none."""
        scope: Scope | None = self
        while scope is not None:
            source = scope.common_tables.get(name)
            if source is not None:
                return source
            scope = scope.parent
        return None

    def common_table_names(self) -> set[str]:
        """Return every common table expression that can be named from here."""
        names: set[str] = set()
        scope: Scope | None = self
        while scope is not None:
            names |= scope.common_tables.keys()
            scope = scope.parent
        return names

    def add_item(self, name: str, columns: Columns) -> None:
        """Add a FROM item; if two share a name, only the columns of both stay sure."""
        known = self.items.get(name)
        self.items[name] = columns if known is None else known & columns

    def visible_items(self) -> Mapping[str, Columns]:
        """Return the items that what is read now may name: in FROM those so far, else also all that follow."""
        return dict(self.items) if self.reading_from else self.items

    def output_columns(self, outputs: Iterable[Output]) -> Columns:
        """Return the columns that a select list surely gives, once the FROM items are known."""
        names: set[str] = set()
        for output in outputs:
            if isinstance(output, str):
                names.add(output)
            elif isinstance(output, Star):
                owners = self.items if output.owner is None else (output.owner,)
                names.update(*(self.items.get(owner, NO_COLUMNS) for owner in owners))
        return frozenset(names)


class Reference:
    """One ``owner.attribute`` that was read in `scope` just now, to be judged when every FROM item is known."""

    __slots__ = ("attribute", "in_full", "items", "owner", "scope", "token")

    def __init__(self, scope: Scope, owner: str, attribute: str, token: int) -> None:
        self.owner, self.attribute, self.token = owner, attribute, token
        self.scope, self.items, self.in_full = scope, scope.visible_items(), not scope.reading_from

    def candidates(self) -> list[Columns]:
        """Return the columns of each FROM item that PostgreSQL could take for the owner; nearest first.

        Outside FROM the nearest level with such an item is the one; in FROM PostgreSQL may look past it.
        """
        found: list[Columns] = []
        scope: Scope | None = self.scope
        items, in_full = self.items, self.in_full
        while scope is not None:
            columns = items.get(self.owner)
            if columns is not None:
                found.append(columns)
                if in_full:
                    break
            items, in_full = scope.parent_items, scope.parent_in_full
            scope = scope.parent
        return found

    def is_column(self) -> bool:
        """Whether each item that may be the owner surely has the attribute as a column."""
        return all(self.attribute in columns for columns in self.candidates())
