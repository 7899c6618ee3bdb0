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
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Final

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
_TIMESTAMP: Final = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?)?"
    # " 02:00" was "+02:00" before the query string was decoded
    r"(?: ?[Zz]|(?P<sign> ?[+-]| )(?P<zone_hours>[0-9]{2})(?::?(?P<zone_minutes>[0-9]{2}))?)?)?"
)
_MICROSECONDS_DIGITS: Final = 16
_UNIX_TIME_DIGITS: Final = frozenset({10, 13, _MICROSECONDS_DIGITS, 19})
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
    return _calendar_day(text).isoformat()


def _calendar_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError("is a day that the calendar does not have") from None


def canonical_timestamp(raw: RawScalar) -> str:
    """Return a time in ISO 8601, or a Unix time, as UTC with microseconds and ``Z``.

    A date alone is its midnight; without a zone it is UTC; offsets are ``Z``, ``+02``, ``+0200``, ``+02:00`` with a
    space for the ``+`` where it was sent unencoded. ``T`` or a space separates date and time. Up to nine digits
    of a second are read and cut to six. As in PostgreSQL, ``24:00`` is the next midnight and second 60, a leap
    second, the next minute.

    A number is a Unix time: with 10 digits before the decimal point in seconds, with 13 in milliseconds, with 16 in
    microseconds, with 19 in nanoseconds. So many digits all mean the years 2001 to 2286, so one is never another.
    """
    if _NUMBER.fullmatch(_token(raw)):
        return _canonical_unix_time(Decimal(_token(raw)))
    match = _TIMESTAMP.fullmatch(_token(raw))
    if match is None:
        raise ValueError("is not a time in ISO 8601, such as 2025-06-02T08:15:02Z or 2025-06-02T10:15:02+02:00")
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    microsecond = int((match["fraction"] or "").ljust(6, "0")[:6])
    if hour > 23 and (hour, minute, second, microsecond) != (24, 0, 0, 0):
        raise ValueError("has an hour after 23")
    if minute > 59 or second > 60:
        raise ValueError("has a minute after 59 or a second after 60")
    since_midnight = timedelta(hours=hour, minutes=minute, seconds=second, microseconds=microsecond)
    midnight = datetime.combine(_calendar_day(match["date"]), datetime.min.time(), UTC)
    try:
        moment = midnight + (since_midnight - _offset(match))
    except OverflowError:
        raise ValueError("is outside the years 0001 to 9999 in UTC") from None
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _canonical_unix_time(number: Decimal) -> str:
    if number < 0 or number.adjusted() + 1 not in _UNIX_TIME_DIGITS:
        raise ValueError(
            "is a number, but no Unix time of 10 (seconds), 13 (milliseconds), 16 (microseconds) or 19 (nanoseconds)"
            " digits; send one, or a time in ISO 8601, such as 2025-06-02T08:15:02Z"
        )
    # Sixteen digits are microseconds, wherever the decimal point is: 1748852102.5  ->  1748852102500000
    digits = format(number, "f").replace(".", "").ljust(_MICROSECONDS_DIGITS, "0")[:_MICROSECONDS_DIGITS]
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(digits))
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _offset(match: re.Match[str]) -> timedelta:
    hours, minutes = int(match["zone_hours"] or 0), int(match["zone_minutes"] or 0)
    if hours > 23 or minutes > 59:
        raise ValueError("has an offset from UTC of a day or more, or with more than 59 minutes")
    offset = timedelta(hours=hours, minutes=minutes)
    return -offset if (match["sign"] or "").endswith("-") else offset


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
