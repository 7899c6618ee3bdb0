"""Finds the FROM item, column or field of a name: columns first, then fields of the unnested records.

BigQuery knows the fields of a record; here a jsonb record may have any field. So a name that is neither a FROM item nor
a column is a field of one of the unnested records in scope: the first that has it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from sqlglot import exp

from googlesql import Refused
from googlesql.field_paths import FieldUse, Step
from googlesql.fields import uses_of
from googlesql.kinds import Kind, Struct, moment_of
from googlesql.refusals import origin, refusal_of, similar_names
from googlesql.tree import Call, Expression, Fields, Name, Output, call

MAX_WORK: Final = 10_000  # nodes; 20,000 take half a second, and a text without stars has at most 5,000
_OFFSETS: Final = {"OFFSET": 0, "SAFE_OFFSET": 0, "ORDINAL": 1, "SAFE_ORDINAL": 1}  # of several, sqlglot knows the last
MAX_NAMES_OF_SOURCE: Final = 200  # that an unknown name is compared with; log tables have about ten
_NAMES_PER_WORK: Final = 4
MAX_USES: Final = 1_000  # fields of a text that are kept
MAX_INDEX_DIGITS: Final = 9  # fits PostgreSQL's integer


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table, CTE or subquery, in order and by folded name; if two share a name, the first counts."""

    outputs: tuple[Output, ...]
    by_name: Mapping[str, Output]

    @classmethod
    def of(cls, outputs: tuple[Output, ...]) -> Columns:
        return cls(outputs, {output.name.casefold(): output for output in reversed(outputs)})


@dataclass(slots=True)
class Source:
    """A FROM item: its name in the text, its name in PostgreSQL, and its columns (None: one value, an element)."""

    name: str
    alias: str
    columns: Columns | None
    element: Expression | None = None  # the kind of an element, or of its position, in PostgreSQL
    outer_joined: bool = False

    @property
    def outputs(self) -> tuple[Output, ...]:
        return self.columns.outputs if self.columns is not None else ()

    def column(self, name: str) -> Expression | None:
        """Return the column with this name, in any case."""
        output = self.columns.by_name.get(name.casefold()) if self.columns is not None else None
        if output is None:
            return None
        nullable = output.nullable or self.outer_joined
        return Name(
            kind=output.kind,
            owner=self.alias,
            column=output.name,
            nullable=nullable,
            shape=output.shape,
            trace=output.trace,
        )

    def row(self) -> Name:
        """Return the whole row of a table, CTE or subquery."""
        shape = Struct(tuple((output.name, output.shape or moment_of(output.kind)) for output in self.outputs))
        return Name(kind=Kind.OTHER, owner=None, column=self.alias, shape=shape)


@dataclass(slots=True)
class Work:
    """The work that a translation may still do: with stars and aliases a short text can mean a very long one."""

    left: int = MAX_WORK

    def spend(self, amount: int) -> None:
        """Spend some of the remaining work. Raises Refused if nothing is left."""
        self.left -= amount
        if self.left < 0:
            raise Refused("the query", "contains too many columns and expressions", offset=0)


@dataclass(slots=True)
class Scope:
    """One level of names: the FROM items of a SELECT, and the tables and CTEs that it may read."""

    parent: Scope | None = None
    tables: dict[str, tuple[str, Columns]] = field(default_factory=dict)  # by folded name
    sources: list[Source] = field(default_factory=list)
    merged: set[str] = field(default_factory=set)  # columns of JOIN … USING, folded
    parameters: dict[str, Kind] = field(default_factory=dict)
    work: Work = field(default_factory=Work)
    any_case: frozenset[str] = frozenset()  # names of fields that are compared without case too, folded
    functions: frozenset[str] = frozenset()  # of PostgreSQL, which a text may call
    aliases: list[str] = field(default_factory=list)  # of the select list, for the clauses that may use them
    uses: list[FieldUse] = field(default_factory=list)  # every field of a stored record that the text has named so far

    def __post_init__(self) -> None:
        if self.parent is not None:
            self.parameters, self.work = self.parent.parameters, self.parent.work
            self.any_case, self.uses = self.parent.any_case, self.parent.uses
            self.functions = self.parent.functions

    def levels(self) -> Iterator[Scope]:
        """Yield this level and the levels around it, innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def table(self, name: str) -> tuple[str, Columns] | None:
        """Return the table or CTE with this name: its name as written in its definition, and its columns."""
        folded = name.casefold()
        return next((scope.tables[folded] for scope in self.levels() if folded in scope.tables), None)

    def table_names(self) -> list[str]:
        """Return the names of the tables and CTEs."""
        return [name for scope in self.levels() for name, _ in scope.tables.values()]

    def source(self, name: str) -> Source | None:
        """Return the nearest FROM item with this name in the text."""
        folded = name.casefold()
        for scope in self.levels():
            for source in reversed(scope.sources):
                if source.name.casefold() == folded:
                    return source
        return None

    def free_alias(self, wanted: str) -> str:
        """Return a name that no column and no other FROM item has, so that it is clear by itself."""
        taken: list[Container[str]] = [{source.alias.casefold() for scope in self.levels() for source in scope.sources}]
        for scope in self.levels():
            taken += [source.columns.by_name for source in scope.sources if source.columns is not None]
            taken += [columns.by_name for _, columns in scope.tables.values()]
        name, number = wanted or "element", 1
        while any(name.casefold() in names for names in taken):
            self.work.spend(1)
            number += 1
            name = f"{wanted or 'element'}_{number}"
        return name

    def elements(self) -> list[Expression]:
        """Return the unnested records in scope, nearest level first, in the order of their unnesting."""
        return [
            source.element
            for scope in self.levels()
            for source in scope.sources
            if source.columns is None and source.element is not None and source.element.kind is Kind.JSON
        ]

    def field_of(self, base: Expression, steps: Sequence[Step], *, origin: int = -1) -> Fields:
        """Return a field of a jsonb value."""
        record, before = (base.base, base.steps) if isinstance(base, Fields) else (base, ())
        return Fields(kind=Kind.JSON, base=record, steps=(*before, *steps), any_case=self.any_case, origin=origin)

    def names(self) -> Iterator[str]:
        """Yield the names that a text could mean here; each costs a little work."""
        for level in self.levels():
            for source in level.sources:
                outputs = source.outputs[:MAX_NAMES_OF_SOURCE]
                self.work.spend(1 + len(outputs) // _NAMES_PER_WORK)
                yield from (source.name, *(output.name for output in outputs))
            yield from level.aliases[:MAX_NAMES_OF_SOURCE]


def parts_of(node: exp.Expr) -> tuple[list[exp.Identifier], list[Step]] | None:
    """Return a path as its leading identifiers and the steps after a subscript; None for anything but a path.

    a.b.c[0].d  ->  [a, b, c], [0, "d"]
    """
    steps: list[Step] = []
    while True:
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
            steps.insert(0, node.expression.name)
        elif isinstance(node, exp.Bracket) and (index := _subscript(node)) is not None:
            steps.insert(0, index)
        elif isinstance(node, exp.Paren):
            pass
        else:
            break
        node = node.this
    if not isinstance(node, exp.Column):
        return None
    identifiers = [part for part in node.parts if isinstance(part, exp.Identifier)]
    return identifiers, steps


def _subscript(node: exp.Bracket) -> Step | None:
    index, first = index_of(node)
    if not isinstance(index, exp.Literal):
        return None
    if index.is_string:
        return str(index.this)
    digits = str(index.this)
    number = int(digits) if digits.isdigit() and len(digits) <= MAX_INDEX_DIGITS else -1
    return number - first if number >= first else None


def index_of(node: exp.Bracket) -> tuple[exp.Expr | None, int]:
    """Return the expression between the brackets, and the number that the first element has there."""
    index = node.expressions[0] if len(node.expressions) == 1 else None
    first = int(node.args.get("offset") or 0)
    if isinstance(index, exp.Anonymous) and index.name.upper() in _OFFSETS and len(index.expressions) == 1:
        return index.expressions[0], _OFFSETS[index.name.upper()]
    return index, first


def resolve(identifiers: Sequence[exp.Identifier], steps: Sequence[Step], scope: Scope) -> Expression:
    """Return the meaning of a path. Raises Refused for a name that nothing in scope has."""
    value = _meaning(identifiers, steps, scope)
    if len(scope.uses) < MAX_USES:
        scope.uses += uses_of(value)
    return value


def _meaning(identifiers: Sequence[exp.Identifier], steps: Sequence[Step], scope: Scope) -> Expression:
    first = identifiers[0]
    names = [identifier.name for identifier in identifiers]
    at = origin(first)
    source = scope.source(names[0])
    if source is not None:
        if source.columns is None and source.element is not None:
            return _fields(source.element, [*names[1:], *steps], first, scope)
        if len(names) > 1:
            column = source.column(names[1])
            if column is None:
                known = [output.name for output in source.outputs]
                similar = similar_names(names[1], known)
                raise Refused(f"{names[0]}.{names[1]}", "is not a column", offset=at, similar=similar)
            return _fields(column, [*names[2:], *steps], first, scope)
    column = _column(names[0], scope)
    if column is not None:
        return _fields(column, [*names[1:], *steps], first, scope)
    if source is not None:
        return _fields(call("to_jsonb", source.row(), kind=Kind.JSON), list(steps), first, scope)
    return _field_of_records([*names, *steps], first, scope)


def _field_of_records(steps: list[Step], first: exp.Identifier, scope: Scope) -> Expression:
    at = origin(first)
    records = scope.elements()
    if not records:
        similar = similar_names(first.name, scope.names())
        raise Refused(first.name, "is not a column or a table here", offset=at, similar=similar)
    scope.work.spend(len(records))
    found = [_fields(record, steps, first, scope) for record in records]
    if len(found) == 1:
        return found[0]
    return Call(kind=Kind.JSON, name="COALESCE", arguments=tuple(found), origin=-1 if at is None else at)


def _column(name: str, scope: Scope) -> Expression | None:
    folded = name.casefold()
    for level in scope.levels():
        columns = (column for source in level.sources if (column := source.column(name)) is not None)
        found = list(islice(columns, 2))  # a second one makes it ambiguous
        if found and isinstance(found[0], Name):
            # From JOIN … USING, or ambiguous, which PostgreSQL reports: both are the bare name.
            alone = len(found) == 1 and folded not in level.merged
            return found[0] if alone else replace(found[0], owner=None, nullable=True)
    return None


def _fields(base: Expression, steps: list[Step], first: exp.Identifier, scope: Scope) -> Expression:
    at = origin(first)
    at = -1 if at is None else at
    if not steps:
        return _at(base, at)
    if base.kind is not Kind.JSON:
        raise refusal_of(first, "has no fields", construct=first.name)
    return scope.field_of(base, steps, origin=at)


def _at(value: Expression, offset: int) -> Expression:
    return replace(value, origin=offset) if isinstance(value, Name) else value
