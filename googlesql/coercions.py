"""Turns an expression into the kind that its context needs; a value that cannot be converted becomes NULL.

A field of a record has no type of its own here: compared with a number, it is a number; matched with a pattern, it is
text; and in a select list it stays JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from googlesql.fields import json_field, text_field
from googlesql.kinds import NUMERIC_KINDS, Kind
from googlesql.text_forms import in_results, text_of_scalar
from googlesql.tree import (
    NULL,
    Call,
    Constant,
    Expression,
    Fields,
    Infix,
    call,
    cast,
    chain,
    in_utc,
    infix,
    integer,
    string,
)

# Texts that PostgreSQL certainly reads as a moment; any other is tried per row.
_MOMENT: Final = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?:[T ]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.[0-9]{1,6})?)?"
    r"(?:[Zz]| ?UTC|[+-](?:0?[0-9]|1[0-3])(?::?[0-5][0-9])?)?)?"
)
_ZONE_NAME: Final = re.compile(r"[A-Z][A-Za-z_]+(?:/[A-Za-z0-9_+-]+){1,2}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND_DIGITS: Final = 16  # of Unix time, from 2001 to 2286
MILLISECOND_DIGITS: Final = 13
_WITHOUT_TEXT: Final = frozenset({Kind.NULL, Kind.OTHER})


def as_json(value: Expression) -> Expression:
    """Return the value as jsonb."""
    if value.kind is Kind.JSON:
        return json_field(value) if isinstance(value, Fields) else value
    if value.kind is Kind.NULL:
        return cast(value, "jsonb", Kind.JSON)
    if value.kind is Kind.TEXT and isinstance(value, Constant):
        value = cast(value, "text", Kind.TEXT)  # to_jsonb(unknown) does not exist
    return call("to_jsonb", in_results(value), kind=Kind.JSON)


def output(value: Expression) -> Expression:
    """Return the value for a select list, a group or an order: fields as JSON, everything else as it is.

    A field that is a JSON null is no value, like one that is not there.
    """
    return without_null(value) if _may_be_json_null(value) else value


def without_null(value: Expression) -> Expression:
    """Return JSON in which a JSON null is NULL, and anything else as it is."""
    if value.kind is not Kind.JSON:
        return value
    return replace(call("NULLIF", as_json(value), string("null"), kind=Kind.JSON), origin=value.origin)


def _may_be_json_null(value: Expression) -> bool:
    if isinstance(value, Call):
        return value.name == "COALESCE" and any(map(_may_be_json_null, value.arguments))
    return value.kind is Kind.JSON and isinstance(value, Fields | Infix)


def as_text(value: Expression) -> Expression:
    """Return the value as text."""
    if value.kind is Kind.TEXT or value.kind in _WITHOUT_TEXT:
        return value
    if value.kind is Kind.JSON:
        if isinstance(value, Fields):
            return text_field(value)
        if isinstance(value, Infix) and value.operator == "->":
            return replace(value, operator="->>", kind=Kind.TEXT)
        return infix(value, "#>>", string("{}"), kind=Kind.TEXT)
    return text_of_scalar(value)


def as_number(value: Expression) -> Expression:
    """Return the value as a number: JSON numbers, and text that is a number."""
    if value.kind is Kind.JSON:
        return call("try_number", as_json(value), kind=Kind.NUMBER)
    if value.kind is Kind.TEXT:
        return call("try_number", _typed_text(value), kind=Kind.NUMBER)
    if value.kind is Kind.BOOLEAN:
        return cast(value, "integer", Kind.INTEGER)
    return value


def as_integer(value: Expression) -> Expression:
    """Return the value as a bigint; a fraction is rounded."""
    match value.kind:
        case Kind.INTEGER | Kind.NULL:
            return value
        case Kind.BOOLEAN:
            return cast(value, "integer", Kind.INTEGER)
        case Kind.FLOAT:
            return call("try_integer", cast(value, "numeric", Kind.NUMBER), kind=Kind.INTEGER)
        case Kind.OTHER:
            return cast(value, "bigint", Kind.INTEGER)
        case Kind.TEXT:
            return call("try_integer", _typed_text(value), kind=Kind.INTEGER)
        case _:
            return call("try_integer", as_json(value) if value.kind is Kind.JSON else value, kind=Kind.INTEGER)


def as_boolean(value: Expression) -> Expression:
    """Return the value as a boolean."""
    if value.kind in (Kind.JSON, Kind.TEXT):
        return call("try_boolean", _typed_text(as_text(value)), kind=Kind.BOOLEAN)
    if value.kind in NUMERIC_KINDS:
        return infix(value, "<>", integer(0), kind=Kind.BOOLEAN)
    return value


def as_timestamp(value: Expression) -> Expression:
    """Return the value as timestamptz; a text or a local time without a zone is UTC, an integer is Unix time."""
    match value.kind:
        case Kind.DATETIME | Kind.DATE:
            moment = value if value.kind is Kind.DATETIME else cast(value, "timestamp", Kind.DATETIME)
            return in_utc(moment, Kind.TIMESTAMP)
        case Kind.JSON:
            return call("try_timestamp", as_text(value), kind=Kind.TIMESTAMP)
        case Kind.TEXT:
            if isinstance(value, Constant) and value.text is not None:
                if _is_moment(value.text):
                    return cast(value, "timestamptz", Kind.TIMESTAMP)
                written, _, zone = value.text.rpartition(" ")
                if _is_moment(written) and _ZONE_NAME.fullmatch(zone):
                    # timestamp '2025-06-02 08:15:02 Europe/Berlin'
                    local = cast(string(written), "timestamp", Kind.DATETIME)
                    return call("zoned_moment", local, string(zone), kind=Kind.TIMESTAMP)
            return call("try_timestamp", _typed_text(value), kind=Kind.TIMESTAMP)
        case Kind.INTEGER | Kind.NUMBER | Kind.FLOAT:
            return _unix_time(value)
        case _:
            return value


def as_datetime(value: Expression) -> Expression:
    """Return the value as a timestamp without time zone, in UTC."""
    if value.kind in (Kind.DATETIME, Kind.OTHER, Kind.NULL):
        return value
    if value.kind is Kind.DATE:
        return cast(value, "timestamp", Kind.DATETIME)
    return in_utc(as_timestamp(value), Kind.DATETIME)


def as_date(value: Expression) -> Expression:
    """Return the value as a date, in UTC."""
    if value.kind in (Kind.DATE, Kind.OTHER, Kind.NULL):
        return value
    return cast(as_datetime(value), "date", Kind.DATE)


def as_float(value: Expression) -> Expression:
    """Return the value as double precision; what is too large for it is infinite."""
    if value.kind is Kind.TEXT:
        return call("try_float", _typed_text(value), kind=Kind.FLOAT)
    if value.kind is Kind.JSON:
        return call("try_float", as_text(value), kind=Kind.FLOAT)
    number = as_number(value)
    return number if number.kind in (Kind.FLOAT, Kind.NULL) else cast(number, "double precision", Kind.FLOAT)


def as_time(value: Expression) -> Expression:
    """Return the value as a time of day, in UTC."""
    if value.kind in (Kind.TEXT, Kind.JSON):
        # x  ->  (try_timestamp('2000-01-01 ' || x || 'Z') at time zone 'UTC')::time, which fails no row
        value = chain("||", string("2000-01-01 "), as_text(value), string("Z"), kind=Kind.TEXT)
    if value.kind is Kind.TIME:
        return value
    moment = value if value.kind in (Kind.OTHER, Kind.NULL) else as_datetime(value)
    return cast(moment, "time", Kind.TIME)


def as_uuid(value: Expression) -> Expression:
    """Return the value as it is: a column of identifiers accepts the text of an identifier."""
    return value


def _as_compared_json(value: Expression) -> Expression:
    return as_json(output(value))


CONVERSIONS: Final[dict[Kind, Callable[[Expression], Expression]]] = {
    Kind.JSON: _as_compared_json,
    Kind.TEXT: as_text,
    Kind.INTEGER: as_number,
    Kind.NUMBER: as_number,
    Kind.FLOAT: as_number,
    Kind.BOOLEAN: as_boolean,
    Kind.TIMESTAMP: as_timestamp,
    Kind.DATETIME: as_datetime,
    Kind.DATE: as_date,
    Kind.TIME: as_time,
    Kind.UUID: as_uuid,
}


def common_kind(kinds: list[Kind]) -> Kind:
    """Return the kind in which values of these kinds can be compared: kinds other than JSON and NULL decide."""
    decided = [kind for kind in kinds if kind not in (Kind.JSON, Kind.NULL, Kind.OTHER)]
    if not decided:
        return Kind.JSON if Kind.JSON in kinds and Kind.OTHER not in kinds else Kind.TEXT
    for preferred in (Kind.TIMESTAMP, Kind.DATETIME, Kind.DATE, Kind.TIME):
        if preferred in decided:
            return preferred
    if NUMERIC_KINDS & set(decided):
        return next(kind for kind in decided if kind in NUMERIC_KINDS)
    if Kind.UUID in decided and (set(decided) != {Kind.UUID} or Kind.JSON in kinds):
        return Kind.TEXT
    return decided[0]


def alike(values: list[Expression]) -> list[Expression]:
    """Return the values in the one kind in which they can be compared."""
    kinds = [value.kind for value in values]
    if all(kind in (Kind.NULL, Kind.OTHER) for kind in kinds):
        return values
    kind = common_kind(kinds)
    if kind is Kind.TEXT and Kind.UUID in kinds and all(map(_fits_uuid, values)):
        return values
    convert = CONVERSIONS.get(kind)
    return values if convert is None else [value if value.kind is Kind.NULL else convert(value) for value in values]


_UUID: Final = re.compile("[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")


def _fits_uuid(value: Expression) -> bool:
    """Whether PostgreSQL compares the value directly with an identifier, and so finds it in an index."""
    if isinstance(value, Constant) and value.text is not None:
        return bool(_UUID.fullmatch(value.text))
    return value.kind in (Kind.UUID, Kind.NULL, Kind.OTHER)


def _typed_text(value: Expression) -> Expression:
    """Return a text marked as text for PostgreSQL: a bare literal could be the argument of any overload."""
    return cast(value, "text", Kind.TEXT) if isinstance(value, Constant) else value


def _unix_time(value: Expression) -> Expression:
    digits = value.sql if isinstance(value, Constant) else ""
    scale = {MICROSECOND_DIGITS: 1, MILLISECOND_DIGITS: 1000}.get(len(digits))
    if digits.isdigit() and scale is not None:
        moment = _EPOCH + timedelta(microseconds=int(digits) * scale)
        return cast(string(moment.isoformat()), "timestamptz", Kind.TIMESTAMP)
    seconds = infix(value, "/", Constant(kind=Kind.NUMBER, sql="1000000.0"), kind=Kind.NUMBER)
    return call("to_timestamp", seconds, kind=Kind.TIMESTAMP)


def _is_moment(text: str) -> bool:
    """Whether PostgreSQL certainly reads the text as a moment, so that it can become a constant."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        return False
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups())
    try:
        datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return False
    return 1 < year < 9999  # in UTC, the first and last days of the calendar may be outside of it


def null_of(kind: Kind) -> Expression:
    """Return NULL with a type."""
    return cast(NULL, kind.value, kind) if kind not in (Kind.NULL, Kind.OTHER) else NULL
