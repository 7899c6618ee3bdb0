"""The types that a field of a table can have, as far as LQL distinguishes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Final

from endpoints.lql.refusals import Fault
from endpoints.lql.rules import Now
from endpoints.lql.times import EPOCH, LITERAL_FORMS, LOGGED_FORM, UNITS_PER_SECOND, Instant, read_time
from endpoints.results.outcomes import Column


class FieldType(StrEnum):
    """The type of a field's values."""

    STRING = "string"
    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "boolean"
    DATETIME = "datetime"
    JSON = "json"  # has fields of unknown types
    OTHER = "other"  # compared as the text that PostgreSQL writes: uuid, inet, interval, …

    @property
    def is_number(self) -> bool:
        """Whether it can be summed."""
        return self in (FieldType.INTEGER, FieldType.FLOAT)


@dataclass(frozen=True, slots=True)
class Field:
    """The meaning of a path: a column, or something `inside` a column of JSON.

    `stored_as` is the column's type in PostgreSQL, of one element if it `is_list`.
    """

    name: str
    type: FieldType
    is_list: bool = False
    stored_as: str = ""
    inside: tuple[str, ...] = ()

    @property
    def described(self) -> str:
        """The name of the type in a message."""
        type_ = self.stored_as or self.type.value
        return f"a list of {type_}" if self.is_list else type_


# numeric(10,2), timestamp(3) with time zone, character varying(20)
_MODIFIER: Final = re.compile(r"\([0-9,]*\)")
_TYPES: Final = {
    **dict.fromkeys(("text", "character varying", "character"), FieldType.STRING),
    **dict.fromkeys(("smallint", "integer", "bigint"), FieldType.INTEGER),
    **dict.fromkeys(("numeric", "real", "double precision"), FieldType.FLOAT),
    "boolean": FieldType.BOOLEAN,
    **dict.fromkeys(("timestamp with time zone", "timestamp without time zone", "date"), FieldType.DATETIME),
    **dict.fromkeys(("json", "jsonb"), FieldType.JSON),
}


def column_field(column: Column) -> Field:
    """Return the field for a column of a table."""
    stored_as = _MODIFIER.sub("", column.type)
    element = stored_as.removesuffix("[]")
    is_list = element != stored_as
    type_ = _TYPES.get(element, FieldType.OTHER)
    if is_list and type_ is FieldType.JSON:
        type_ = FieldType.OTHER
    return Field(column.name, type_, is_list=is_list, stored_as=element)


# --- Casting ----------------------------------------------------------------------------------------------------------
# A value as written → a value of its field's type.
#
# ========== =====================================================================================================
# string the text integer text that reads as a number: a fraction is no error, it just equals no integer float the
# same boolean exactly ``true`` or ``false`` datetime an ISO 8601 day or moment, or Unix time of 10, 13 or 16 digits;
# without a zone it is UTC other the text ==========
# =====================================================================================================
#
# Inside JSON the type is not known: there a text is also compared as the number or boolean that it reads as.
# A datetime is in UTC without a zone.
CastValue = str | bool | Decimal | date | datetime

# No double has an exponent of more than three digits, and with three the number can still be written out.
_NUMBER: Final = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?")
_BOOLEANS: Final = {"true": True, "false": False}
_EXPECTED: Final = {
    FieldType.INTEGER: ("number", ("a number such as `12`",)),
    FieldType.FLOAT: ("number", ("a number such as `12.5`",)),
    FieldType.BOOLEAN: ("boolean", ("`true`", "`false`")),
    FieldType.DATETIME: ("datetime", LITERAL_FORMS),
}


def cast_value(text: str, type_: FieldType, *, path: str, position: int) -> CastValue:
    """Return the text as a value of this type. Raises Fault, which names the path, if it is not one."""
    value: CastValue | None = text
    if type_.is_number:
        value = read_number(text)
    elif type_ is FieldType.BOOLEAN:
        value = read_boolean(text)
    elif type_ is FieldType.DATETIME:
        value = _read_moment(text)
    if value is None:
        word, forms = _EXPECTED[type_]
        raise Fault(position, f"expected {word} for `{path}`, got '{text}'", found=text, expected=forms)
    return value


def read_number(text: str) -> Decimal | None:
    """Return the number that the whole text reads as: sign, digits, fraction and exponent; None if it is not one."""
    return Decimal(text) if _NUMBER.fullmatch(text) else None


def read_boolean(text: str) -> bool | None:
    """Return the boolean for ``true`` and ``false``, None for any other text."""
    return _BOOLEANS.get(text)


def plain_digits(number: Decimal) -> str:
    """Return a number without exponent, as JSON, PostgreSQL and people all write it."""
    return format(number, "f").removeprefix("-") if number == 0 else format(number, "f")


def _read_moment(text: str) -> date | datetime | None:
    try:
        read = read_time(text)
    except Fault:
        return None
    if isinstance(read, Instant) and not isinstance(read.moment, Now):
        return read.moment
    return None


def logged_moment(text: str, *, in_unix_time: bool) -> date | datetime | None:
    """Return the day or moment, cut to microseconds, that a text reads as; a number is one only `in_unix_time`."""
    number = read_number(text)
    if number is not None:
        units = [unit for digits, unit in UNITS_PER_SECOND.items() if 10 ** (digits - 1) <= number < 10**digits]
        return EPOCH + timedelta(microseconds=int(number * 1_000_000 / units[0])) if in_unix_time and units else None
    match = re.fullmatch(LOGGED_FORM, text)
    try:
        if match is None or match[2] is None:
            return date.fromisoformat(text) if match else None
        zone = (match[7] or "Z").upper().replace("UTC", "Z")
        return datetime.fromisoformat(f"{match[1]}T{match[3]}{zone}").astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):  # such as 30 February
        return None
