"""The value sent for a parameter → the canonical text that is bound to ``$n``.

Equal values have equal canonical texts, whatever form they were sent in; cache keys and the bound arguments of
access tokens are compared on them. PostgreSQL casts the text to the parameter's type.

| type | accepted | canonical |
|---|---|---|
| text | text; JSON numbers and booleans too, since in a query string they would be text | as it is |
| integer | optional sign and digits, a JSON number without fraction | ``-12``, within bigint |
| number | decimal, with or without exponent; never NaN or infinity | ``1250.5``, no exponent, no trailing zeros |
| boolean | true/false, t/f, yes/no, on/off, 1/0 in any case; JSON booleans | ``true``, ``false`` |
| timestamp | ISO 8601 or Unix time: see `canonical_timestamp` | ``2025-06-02T08:15:02.120000Z`` |
| date | ``2025-06-02`` | the same |
| uuid | with or without hyphens, in any case, in braces | lower case, with hyphens |
| list of text | one text or a JSON list of them | a list of text |

Types other than text ignore white space around the value: an unencoded ``+5`` in a query string arrives as `` 5``.
Every function raises ValueError with a reason that never repeats the value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from enum import StrEnum
from typing import Final

from logsources.moments import calendar_day, read_moment, unix_moment

RawScalar = str | int | float | Decimal | None  # bool is an int
RawValue = RawScalar | list[RawScalar] | tuple[RawScalar, ...]

BIGINT: Final = range(-(2**63), 2**63)
# Wide enough for every double; keeps the text short and PostgreSQL's numeric arithmetic cheap.
MAX_NUMBER_EXPONENT: Final = 400  # powers of ten, either way
MAX_NUMBER_DIGITS: Final = 100  # significant digits

_BLANKS: Final = " \t\r\n"
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_UUID: Final = re.compile(
    r"(?P<brace>\{)?([0-9a-f]{8})(?P<hyphen>-?)([0-9a-f]{4})(?P=hyphen)([0-9a-f]{4})(?P=hyphen)([0-9a-f]{4})"
    r"(?P=hyphen)([0-9a-f]{12})(?(brace)\})"
)
_BOOLEANS: Final = {
    **dict.fromkeys(("true", "t", "yes", "on", "1"), "true"),
    **dict.fromkeys(("false", "f", "no", "off", "0"), "false"),
}


class ParameterType(StrEnum):
    """The types a parameter can be declared with."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"
    DATE = "date"
    UUID = "uuid"
    TEXT_LIST = "list of text"

    @property
    def postgresql_type(self) -> str:
        """The type to which the bound text is cast."""
        return _POSTGRESQL_TYPES[self]

    @property
    def is_ordered(self) -> bool:
        """Whether a minimum and a maximum have a meaning."""
        return self in _ORDERED_TYPES


_POSTGRESQL_TYPES: Final = {
    ParameterType.TEXT: "text",
    ParameterType.INTEGER: "bigint",
    ParameterType.NUMBER: "numeric",
    ParameterType.BOOLEAN: "boolean",
    ParameterType.TIMESTAMP: "timestamptz",
    ParameterType.DATE: "date",
    ParameterType.UUID: "uuid",
    ParameterType.TEXT_LIST: "text[]",
}
_ORDERED_TYPES: Final = frozenset(
    {ParameterType.INTEGER, ParameterType.NUMBER, ParameterType.TIMESTAMP, ParameterType.DATE}
)


def is_absent(raw: RawValue) -> bool:
    """Return whether nothing was sent: null, empty text, or a list of only such."""
    elements = raw if isinstance(raw, list | tuple) else (raw,)
    return all(_is_empty(element) for element in elements)


def _is_empty(raw: RawScalar) -> bool:
    return raw is None or raw == ""


def canonical_value(type_: ParameterType, raw: RawValue) -> str | list[str]:
    """Return the canonical form of a value that is not absent; empty elements of a list are left out."""
    if type_ is ParameterType.TEXT_LIST:
        elements = raw if isinstance(raw, list | tuple) else (raw,)
        return [canonical_text(type_, element) for element in elements if not _is_empty(element)]
    if isinstance(raw, list | tuple):
        raise ValueError("takes one value, not a list")
    return canonical_text(type_, raw)


def canonical_text(type_: ParameterType, raw: RawScalar) -> str:
    """Return the canonical text of one value; for a list of text, of one element."""
    return _CANONICAL[type_](raw)


def sort_key(type_: ParameterType, canonical: str) -> Decimal | str:
    """Return the sort key of a canonical text; those of timestamps and dates sort as they are."""
    return Decimal(canonical) if type_ in (ParameterType.INTEGER, ParameterType.NUMBER) else canonical


def _scalar_text(raw: object) -> str:
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, int | float | Decimal):
        return _finite_text(raw)
    if not isinstance(raw, str):
        raise ValueError("takes plain values, not a structure")
    if "\x00" in raw:
        raise ValueError("contains a NUL character, which PostgreSQL cannot store")
    if any("\ud800" <= character <= "\udfff" for character in raw):
        raise ValueError("contains a lone surrogate, which is not a character")
    return raw


def _finite_text(raw: float | Decimal) -> str:
    if isinstance(raw, int):
        if raw.bit_length() > MAX_NUMBER_DIGITS * 3:  # str() of a huge int costs quadratic time
            raise ValueError("is a number with too many digits")
        return str(raw)
    if not (raw.is_finite() if isinstance(raw, Decimal) else math.isfinite(raw)):
        raise ValueError("is not a finite number")
    return str(raw)


def _token(raw: RawScalar) -> str:
    """Return a non-text type's text without the white space around it."""
    return _scalar_text(raw).strip(_BLANKS)


def _canonical_integer(raw: RawScalar) -> str:
    expected = "is not an integer: an optional sign and digits"
    if isinstance(raw, bool):
        raise ValueError(expected)
    if isinstance(raw, float | Decimal):
        # JSON does not tell 5.0 from 5; the bound keeps 1e300 from becoming 300 digits.
        number = Decimal(_finite_text(raw))
        if abs(number) > 2**63 or number != int(number):
            raise ValueError(expected)
        raw = int(number)
    text = _token(raw)
    if not _INTEGER.fullmatch(text):
        raise ValueError(expected)
    if int(text) not in BIGINT:
        raise ValueError("is out of range for a 64-bit integer")
    return str(int(text))


def _canonical_number(raw: RawScalar) -> str:
    text = "" if isinstance(raw, bool) else _token(raw)
    if not _NUMBER.fullmatch(text):
        raise ValueError("is not a number: digits with an optional sign, decimal point and exponent")
    number = Decimal(text)
    if not number:
        return "0"
    if abs(number.adjusted()) > MAX_NUMBER_EXPONENT:
        raise ValueError(f"is out of range: at most {MAX_NUMBER_EXPONENT} digits before or after the decimal point")
    fixed = format(number, "f")
    if "." in fixed:
        fixed = fixed.rstrip("0").rstrip(".")
    if len(fixed.strip("-0.").replace(".", "")) > MAX_NUMBER_DIGITS:
        raise ValueError(f"has more than {MAX_NUMBER_DIGITS} significant digits")
    return fixed


def _canonical_boolean(raw: RawScalar) -> str:
    canonical = _BOOLEANS.get(_token(raw).lower())
    if canonical is None:
        raise ValueError("is not a boolean: true or false")
    return canonical


def _canonical_uuid(raw: RawScalar) -> str:
    match = _UUID.fullmatch(_token(raw).lower())
    if match is None:
        raise ValueError("is not a UUID, such as 123e4567-e89b-12d3-a456-426614174000")
    return "-".join(match.group(2, 4, 5, 6, 7))


def _canonical_date(raw: RawScalar) -> str:
    text = _token(raw)
    if not _DATE.fullmatch(text):
        raise ValueError("is not a date, such as 2025-06-02")
    return calendar_day(text).isoformat()


def canonical_timestamp(raw: RawScalar) -> str:
    """Return a time in ISO 8601, or a Unix time, as UTC with microseconds and ``Z``; see `logsources.moments`.

    A number that JSON has as one is never a day, as the text 20250602 is.
    """
    text = _token(raw)
    moment = read_moment(text) if isinstance(raw, str) or not _NUMBER.fullmatch(text) else unix_moment(Decimal(text))
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


_CANONICAL: Final[dict[ParameterType, Callable[[RawScalar], str]]] = {
    ParameterType.TEXT: _scalar_text,
    ParameterType.INTEGER: _canonical_integer,
    ParameterType.NUMBER: _canonical_number,
    ParameterType.BOOLEAN: _canonical_boolean,
    ParameterType.TIMESTAMP: canonical_timestamp,
    ParameterType.DATE: _canonical_date,
    ParameterType.UUID: _canonical_uuid,
    ParameterType.TEXT_LIST: _scalar_text,
}
