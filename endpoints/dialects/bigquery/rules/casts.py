"""CAST, SAFE_CAST, ``::``, typed literals and conversion functions: a value that does not convert is always NULL.

In BigQuery one row that does not convert makes CAST fail the whole query. Log rows are what they are, so here only that
row's value is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from endpoints.dialects.bigquery.coercions import (
    as_boolean,
    as_date,
    as_datetime,
    as_integer,
    as_json,
    as_number,
    as_text,
    as_timestamp,
)
from endpoints.dialects.bigquery.kinds import Kind
from endpoints.dialects.bigquery.lowering import Lowering, Rule
from endpoints.dialects.bigquery.refusals import refusal_of
from endpoints.dialects.bigquery.tree import Expression, cast, chain, string

_T = exp.DataType.Type


def to_number(value: Expression) -> Expression:
    return cast(as_number(value), "numeric", Kind.NUMBER) if value.kind is Kind.FLOAT else as_number(value)


def to_float(value: Expression) -> Expression:
    number = as_number(value)
    return number if number.kind in (Kind.FLOAT, Kind.NULL) else cast(number, "double precision", Kind.FLOAT)


def to_timestamp(value: Expression) -> Expression:
    return as_timestamp(value)


def to_time(value: Expression) -> Expression:
    if value.kind in (Kind.TEXT, Kind.JSON):
        # x  ->  (try_timestamp('2000-01-01 ' || x) at time zone 'UTC')::time, which fails no row
        value = chain("||", string("2000-01-01 "), as_text(value), kind=Kind.TEXT)
    moment = value if value.kind in (Kind.TIME, Kind.OTHER, Kind.NULL) else as_datetime(value)
    return cast(moment, "time", Kind.TIME)


_CONVERSIONS: Final[dict[object, Callable[[Expression], Expression]]] = {
    **dict.fromkeys((_T.TEXT, _T.VARCHAR, _T.CHAR, _T.NVARCHAR), as_text),
    **dict.fromkeys((_T.BIGINT, _T.INT, _T.SMALLINT, _T.TINYINT), as_integer),
    **dict.fromkeys((_T.DOUBLE, _T.FLOAT), to_float),
    **dict.fromkeys((_T.DECIMAL, _T.BIGDECIMAL), to_number),
    _T.BOOLEAN: as_boolean,
    **dict.fromkeys((_T.TIMESTAMPTZ, _T.TIMESTAMPLTZ), to_timestamp),
    **dict.fromkeys((_T.TIMESTAMP, _T.DATETIME), as_datetime),
    _T.DATE: as_date,
    _T.TIME: to_time,
    **dict.fromkeys((_T.JSON, _T.JSONB), as_json),
}


def conversion(node: exp.Cast, lowering: Lowering) -> Expression:
    convert = _CONVERSIONS.get(node.to.this)
    if convert is None or node.args.get("format") is not None:
        raise refusal_of(node, construct=f"CAST to {node.to.sql('bigquery')}")
    return convert(lowering.lower(node.this))


def _function(convert: Callable[[Expression], Expression]) -> Rule:
    def rule(node: exp.Func, lowering: Lowering) -> Expression:
        return convert(lowering.lower(node.this))

    return rule


RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.Cast: conversion,
    exp.TryCast: conversion,
    exp.Int64: _function(as_integer),
    exp.Float64: _function(to_float),
    exp.JSONBool: _function(as_boolean),
    exp.String: _function(as_text),
}
