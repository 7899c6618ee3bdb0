"""A value as written → a value of its field's type.

==========  =====================================================================================================
string      the text
integer     text that reads as a number: a fraction is no error, it just equals no integer
float       the same
boolean     exactly ``true`` or ``false``
datetime    an ISO 8601 day or moment, or Unix time of 10, 13 or 16 digits; without a zone it is UTC
other       the text
==========  =====================================================================================================

Inside JSON the type is not known: there a text is also compared as the number or boolean that it reads as.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from typing import Final

from endpoints.lql.faults import Fault
from endpoints.lql.fields import FieldType
from endpoints.lql.rules import Now
from endpoints.lql.times import LITERAL_FORMS, Instant, read_time

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
