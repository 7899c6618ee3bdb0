"""Small pieces of the PostgreSQL tree, each made in one line."""

from __future__ import annotations

from typing import Final

from endpoints.dialects.bigquery.kinds import Kind
from endpoints.dialects.bigquery.tree import Call, Cast, Chain, Constant, Expression, Infix, Ordered, Prefix

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


def ordered(expression: Expression) -> Ordered:
    return Ordered(expression=expression)


def in_utc(operand: Expression, kind: Kind) -> Infix:
    # timestamptz -> timestamp, timestamp -> timestamptz
    return infix(operand, "AT TIME ZONE", string("UTC"), kind=kind)
