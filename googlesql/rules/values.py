"""Literals, parameters, names and paths, brackets, queries as values, and casts from one type to another."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Final

from sqlglot import exp

from googlesql.coercions import (
    as_boolean,
    as_date,
    as_datetime,
    as_float,
    as_integer,
    as_json,
    as_number,
    as_text,
    as_time,
    as_timestamp,
    output,
)
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, Rule, offset_of
from googlesql.refusals import refusal_of
from googlesql.scopes import parts_of, resolve
from googlesql.shapes import typed
from googlesql.tree import (
    NULL,
    Case,
    Constant,
    Expression,
    Fields,
    Subquery,
    call,
    cast,
    infix,
    integer,
    string,
)

# --- Names ------------------------------------------------------------------------------------------------------------
# Literals, parameters, names and paths, brackets, and queries as values.
_NUMBER: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_PARAMETER: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_DOCUMENTS: Final = (exp.ParseJSON, exp.JSONExtract)
_BIGGEST_INTEGER: Final = 2**63 - 1


def literal(node: exp.Literal, _: Lowering) -> Expression:
    text = str(node.this)
    if node.is_string:
        return string(text, origin=offset_of(node))
    if not _NUMBER.fullmatch(text):
        raise refusal_of(node, "must be written in decimal digits", construct=text)
    is_integer = text.isdigit() and int(text[:20]) <= _BIGGEST_INTEGER
    return Constant(kind=Kind.INTEGER if is_integer else Kind.NUMBER, sql=text)


def boolean(node: exp.Boolean, _: Lowering) -> Expression:
    return Constant(kind=Kind.BOOLEAN, sql="TRUE" if node.this else "FALSE")


def null(node: exp.Null, _: Lowering) -> Expression:
    return NULL


def parameter(node: exp.Parameter, lowering: Lowering) -> Expression:
    name = node.this.name if isinstance(node.this, exp.Var) else ""
    if not _PARAMETER.fullmatch(name):
        raise refusal_of(node, construct=f"@{name}")
    # The checker refuses a parameter that is not declared, and says so.
    kind = lowering.scope.parameters.get(name, Kind.OTHER)
    return Constant(kind=kind, sql=f"@{name}", origin=offset_of(node))


def path(node: exp.Expr, lowering: Lowering) -> Expression:
    """A column, a field, a record or an element of an array."""
    parts = parts_of(node)
    if parts is None:
        return _field_of_value(node, lowering)
    identifiers, steps = parts
    value = typed(resolve(identifiers, steps, lowering.scope))
    return output(value) if lowering.grouped else value


def _field_of_value(node: exp.Expr, lowering: Lowering) -> Expression:
    # struct(1 as a).a, (select as struct …).a, json_query(x, '$.a').b, split(x, ',')[offset(0)]
    steps: list[str | int] = []
    while isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        steps.insert(0, node.expression.name)
        node = node.this
    if isinstance(node, exp.Bracket):
        value = lowering.rules[exp.ApproxQuantiles](node, lowering) if _is_quantile(node) else _element(node, lowering)
    elif steps:
        value = lowering.lower(node)
    else:
        raise refusal_of(node)
    if not steps:
        return value
    if value.kind is not Kind.JSON:
        raise refusal_of(node, "has no fields")
    if isinstance(node, _DOCUMENTS):
        return Fields(kind=Kind.JSON, base=value, steps=tuple(steps))  # names in JSON are compared exactly
    return typed(lowering.scope.field_of(value, steps))


def _is_quantile(node: exp.Bracket) -> bool:
    value = node.this.this if isinstance(node.this, exp.IgnoreNulls) else node.this
    return isinstance(value, exp.ApproxQuantiles)


def _element(node: exp.Bracket, lowering: Lowering) -> Expression:
    return lowering.rules[exp.Array](node, lowering)


def brackets(node: exp.Paren, lowering: Lowering) -> Expression:
    return lowering.lower(node.this)


def subquery(node: exp.Subquery | exp.Select | exp.SetOperation, lowering: Lowering) -> Expression:
    query = lowering.query(node)
    if len(query.outputs) != 1:
        raise refusal_of(node, "returns more than one column where one value is needed", construct="the subquery")
    return Subquery(kind=query.outputs[0].kind, query=query)


def exists(node: exp.Exists, lowering: Lowering) -> Expression:
    return Subquery(kind=Kind.BOOLEAN, query=lowering.query(node.this), word="EXISTS")


# --- Casts ------------------------------------------------------------------------------------------------------------
_T = exp.DataType.Type


def to_number(value: Expression) -> Expression:
    return cast(as_number(value), "numeric", Kind.NUMBER) if value.kind is Kind.FLOAT else as_number(value)


def to_date(value: Expression) -> Expression:
    # Unlike DATE(), a cast reads no time of day.
    if isinstance(value, Constant) and value.text is not None and _is_date(value.text):
        return cast(value, "date", Kind.DATE)
    return call("try_date", as_text(value), kind=Kind.DATE) if value.kind in (Kind.TEXT, Kind.JSON) else as_date(value)


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def to_boolean(value: Expression) -> Expression:
    # Of a field that is a number: whether it is not 0.
    if value.kind is not Kind.JSON:
        return as_boolean(value)
    is_number = infix(call("jsonb_typeof", as_json(value), kind=Kind.TEXT), "=", string("number"), kind=Kind.BOOLEAN)
    of_number = infix(as_number(value), "<>", integer(0), kind=Kind.BOOLEAN)
    return Case(kind=Kind.BOOLEAN, operand=None, branches=((is_number, of_number),), default=as_boolean(value))


_CONVERSIONS: Final[dict[object, Callable[[Expression], Expression]]] = {
    **dict.fromkeys((_T.TEXT, _T.VARCHAR, _T.CHAR, _T.NVARCHAR), as_text),
    **dict.fromkeys((_T.BIGINT, _T.INT, _T.SMALLINT, _T.TINYINT), as_integer),
    **dict.fromkeys((_T.DOUBLE, _T.FLOAT), as_float),
    **dict.fromkeys((_T.DECIMAL, _T.BIGDECIMAL), to_number),
    _T.BOOLEAN: to_boolean,
    **dict.fromkeys((_T.TIMESTAMPTZ, _T.TIMESTAMPLTZ), as_timestamp),
    **dict.fromkeys((_T.TIMESTAMP, _T.DATETIME), as_datetime),
    _T.DATE: to_date,
    _T.TIME: as_time,
    **dict.fromkeys((_T.JSON, _T.JSONB), as_json),
}


def conversion(node: exp.Cast, lowering: Lowering) -> Expression:
    convert = _CONVERSIONS.get(node.to.this)
    if node.args.get("format") is not None:
        reason = "is not supported; use FORMAT_TIMESTAMP, PARSE_TIMESTAMP and similar functions"
        raise refusal_of(node, reason, construct="CAST … FORMAT")
    if convert is None:
        raise refusal_of(node, construct=f"CAST to {node.to.sql('bigquery')}")
    return convert(lowering.lower(node.this))


def text_of_value(node: exp.String, lowering: Lowering) -> Expression:
    # string(t, 'Asia/Kolkata')  ->  format_timestamp('%F %H:%M:%E*S%Ez', …) with no, three or six digits
    value = lowering.lower(node.this)
    if node.args.get("zone") is not None:
        raise refusal_of(node, "is not supported; use FORMAT_TIMESTAMP", construct="STRING with a time zone")
    return as_text(value)


def _function(convert: Callable[[Expression], Expression]) -> Rule:
    def rule(node: exp.Func, lowering: Lowering) -> Expression:
        return convert(lowering.lower(node.this))

    return rule


RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.Literal: literal,
    exp.Boolean: boolean,
    exp.Null: null,
    exp.Parameter: parameter,
    exp.Column: path,
    exp.Dot: path,
    exp.Bracket: path,
    exp.Paren: brackets,
    exp.Subquery: subquery,
    exp.Select: subquery,
    exp.Exists: exists,
    exp.Cast: conversion,
    exp.TryCast: conversion,
    exp.Int64: _function(as_integer),
    exp.Float64: _function(as_float),
    exp.JSONBool: _function(as_boolean),
    exp.String: text_of_value,
}
