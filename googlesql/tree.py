"""The PostgreSQL tree that a translation makes: the part of SELECT that it needs; every expression has a kind.

Nodes are frozen and may be used in several places. `origin` is the offset of a node in the consumer's text, or -1 if it
is that of the node around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from googlesql.field_paths import UNTRACED, Trace
from googlesql.kinds import Kind, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """Anything that has a value."""

    kind: Kind
    origin: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Expression):
    """A literal as PostgreSQL writes it: ``'x'``, ``5``, ``TRUE``, ``NULL``, ``INTERVAL '1 DAY'``, ``@name``."""

    sql: str
    text: str | None = None  # of a string literal, without its quotes


@dataclass(frozen=True, slots=True, kw_only=True)
class Name(Expression):
    """A column; `owner` is the alias of its FROM item, None if the name alone is clear."""

    owner: str | None
    column: str
    nullable: bool = True
    shape: Shape | None = None  # of jsonb that the text itself made, or of a whole row
    trace: Trace = UNTRACED


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields(Expression):
    """A field of a field of a jsonb value: m.request.path, metadata[0].x."""

    base: Expression
    steps: tuple[str | int, ...]
    any_case: frozenset[str] = frozenset()  # folded names that a key in other letters fits too


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """One item of ORDER BY."""

    expression: Expression
    descending: bool = False
    nulls: str = ""  # FIRST, LAST or PostgreSQL's default


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Expression):
    """A function call; only aggregates use the other fields."""

    name: str
    arguments: tuple[Expression, ...] = ()
    star: bool = False
    distinct: bool = False
    order: tuple[Ordered, ...] = ()
    within: tuple[Ordered, ...] = ()
    condition: Expression | None = None  # FILTER (WHERE …)


@dataclass(frozen=True, slots=True, kw_only=True)
class Over(Expression):
    """A call with OVER."""

    call: Expression
    partition: tuple[Expression, ...] = ()
    order: tuple[Ordered, ...] = ()
    frame: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentile(Expression):
    """A percentile with OVER, for which PostgreSQL has no function: `percentiles` replaces it before it is printed."""

    value: Expression
    partition: tuple[Expression, ...]
    fraction: float
    continuous: bool
    respect_nulls: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Infix(Expression):
    """Two operands and the operator between them."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain(Expression):
    """Operands joined by AND, OR or another operator that needs no brackets in a chain."""

    operator: str
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix(Expression):
    """NOT, a sign or ``~`` before an operand."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Test(Expression):
    """An operand and a test: IS NULL, IS NOT TRUE."""

    operand: Expression
    question: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast(Expression):
    """``operand::type``."""

    operand: Expression
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscript(Expression):
    """``(operand)[index]``; the index is an expression, or written: ``1``, ``1:3``."""

    operand: Expression
    index: Expression | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract(Expression):
    """``EXTRACT(part FROM operand)``."""

    part: str
    operand: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Case(Expression):
    """CASE; `operand` is compared with each WHEN, if there is one."""

    operand: Expression | None
    branches: tuple[tuple[Expression, Expression], ...]
    default: Expression | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Between(Expression):
    """``operand BETWEEN low AND high``."""

    operand: Expression
    low: Expression
    high: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class In(Expression):
    """``operand IN (…)``: a list, or a query."""

    operand: Expression
    items: tuple[Expression, ...] = ()
    query: Query | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subquery(Expression):
    """A query as a value; `word` is EXISTS or ARRAY if one comes before it."""

    query: Query
    word: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayOf(Expression):
    """``ARRAY[…]``."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping(Expression):
    """An item of GROUP BY: ``ROLLUP (…)``, ``CUBE (…)``, ``GROUPING SETS (…)``; without a word, a bracketed list."""

    items: tuple[Expression, ...]
    word: str = ""


@dataclass(frozen=True, slots=True)
class Output:
    """An output column of a query."""

    name: str
    kind: Kind
    nullable: bool = True
    shape: Shape | None = None
    trace: Trace = UNTRACED


@dataclass(frozen=True, slots=True, kw_only=True)
class FromItem:
    """A table, a function or a query in FROM, or a bracketed list of them; `join` is the join before it."""

    join: str = ""
    relation: str | None = None
    call: Expression | None = None
    query: Query | None = None
    bracketed: tuple[FromItem, ...] = ()
    alias: str = ""
    columns: tuple[str, ...] = ()
    ordinality: bool = False
    on: Expression | None = None
    using: tuple[str, ...] = ()
    origin: int = -1


@dataclass(frozen=True, slots=True)
class CommonTable:
    """One CTE of a WITH list."""

    name: str
    query: Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The common parts of all queries."""

    outputs: tuple[Output, ...]
    common_tables: tuple[CommonTable, ...] = ()
    order: tuple[Ordered, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Select(Query):
    """One SELECT; `outputs` name its `items`."""

    items: tuple[Expression, ...]
    distinct: bool = False
    from_items: tuple[FromItem, ...] = ()
    where: Expression | None = None
    group: tuple[Expression, ...] = ()
    having: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOperation(Query):
    """Queries joined by UNION ALL or a similar operator."""

    operator: str
    branches: tuple[Query, ...]


# --- Values -----------------------------------------------------------------------------------------------------------
# Small pieces of the PostgreSQL tree, each made in one line.
NULL: Final = Constant(kind=Kind.NULL, sql="NULL")
TRUE: Final = Constant(kind=Kind.BOOLEAN, sql="TRUE")


def string(text: str, *, origin: int = -1) -> Constant:
    # it's  ->  'it''s'
    quoted = text.replace("'", "''")
    return Constant(kind=Kind.TEXT, sql=f"'{quoted}'", text=text, origin=origin)


def integer(value: int) -> Constant:
    return Constant(kind=Kind.INTEGER, sql=str(value))


def call(name: str, *arguments: Expression, kind: Kind) -> Call:
    return Call(kind=kind, name=name, arguments=arguments)


def cast(operand: Expression, type_: str, kind: Kind) -> Cast:
    return Cast(kind=kind, operand=operand, type=type_)


def infix(left: Expression, operator: str, right: Expression, *, kind: Kind) -> Infix:
    return Infix(kind=kind, operator=operator, left=left, right=right)


def chain(operator: str, *operands: Expression, kind: Kind) -> Expression:
    return operands[0] if len(operands) == 1 else Chain(kind=kind, operator=operator, operands=operands)


def negated(operand: Expression) -> Prefix:
    return Prefix(kind=Kind.BOOLEAN, operator="NOT", operand=operand)


def opposite(operand: Expression) -> Prefix:
    return Prefix(kind=operand.kind, operator="-", operand=operand)


def ordered(expression: Expression) -> Ordered:
    return Ordered(expression=expression)


def in_utc(operand: Expression, kind: Kind) -> Infix:
    # timestamptz -> timestamp, timestamp -> timestamptz
    return infix(operand, "AT TIME ZONE", string("UTC"), kind=kind)
