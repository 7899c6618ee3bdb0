"""Text or a number → a moment: the one reader of times that people and programs send. Pure: no clock, no Django.

docs/endpoints.md has the table of what it reads. Every error is a ValueError whose text never repeats the value.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_MOMENT: Final = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8})"
    r"(?:[Tt ](?P<hour>[0-9]{2})(?::?(?P<minute>[0-9]{2})(?::?(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]*))?)?)?"
    # " 02:00" was "+02:00" before the query string was decoded
    r"(?: ?(?:[Zz]|UTC)|(?P<sign> ?[+-]| )(?P<zone_hours>[0-9]{2})(?::?(?P<zone_minutes>[0-9]{2}))?)?)?"
)
# What Python's own reader, which is ten times as fast, takes as it is meant: of others it reads some that are no time,
# such as 10:00:00:2026 and 10:00:00.123456zZ.
_USUAL: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-5][0-9])?)?"
)
_UNIX_TIME_DIGITS: Final = frozenset({10, 13, 16, 19})


def read_moment(text: str) -> datetime:
    """Return the moment of a text, in UTC: ISO 8601, or a Unix time."""
    if _USUAL.fullmatch(text):
        try:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is UTC:
                return moment
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, OverflowError):
            pass  # 24:00, a leap second, or what is told there
    elif len(text) in _UNIX_TIME_DIGITS and text.isdigit() and text.isascii():
        return unix_moment(int(text))
    return _other_moment(text.strip(" \t\r\n"))


def _other_moment(text: str) -> datetime:
    if _NUMBER.fullmatch(text) and not (len(text) == 8 and text.isdigit()):
        return unix_moment(Decimal(text))
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError("is not a time in ISO 8601, such as 2025-06-02T08:15:02Z or 2025-06-02T10:15:02+02:00")
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    microsecond = int((match["fraction"] or "").ljust(6, "0")[:6])
    if hour > 23 and (hour, minute, second, microsecond) != (24, 0, 0, 0):
        raise ValueError("has an hour after 23")
    if minute > 59 or second > 60:
        raise ValueError("has a minute after 59 or a second after 60")
    clock = timedelta(hours=hour, minutes=minute, seconds=second, microseconds=microsecond)
    try:
        return datetime.combine(calendar_day(match["date"]), datetime.min.time(), UTC) + (clock - _offset(match))
    except OverflowError:
        raise ValueError("is outside the years 0001 to 9999 in UTC") from None


def unix_moment(number: float | Decimal) -> datetime:
    """Return the moment of a Unix time, whose digits before the decimal point tell its unit."""
    if isinstance(number, float):  # the fewest digits that tell it are those that were sent
        number = round(number * 1_000_000) if 1e9 <= number < 1e10 else Decimal(repr(number))
    if isinstance(number, int):
        whole = digits = str(number)
    else:
        is_short = number.is_finite() and abs(number.adjusted()) < max(_UNIX_TIME_DIGITS)
        digits = format(number, "f") if is_short else ""
        whole = digits.partition(".")[0]
    if len(whole) not in _UNIX_TIME_DIGITS or number < 0:
        raise ValueError(
            "is a number, but no Unix time of 10 (seconds), 13 (milliseconds), 16 (microseconds) or 19 (nanoseconds)"
            " digits; send one, or a time in ISO 8601, such as 2025-06-02T08:15:02Z"
        )
    # Sixteen digits are microseconds, wherever the decimal point is: 1748852102.5  ->  1748852102500000
    return EPOCH + timedelta(microseconds=int(digits.replace(".", "").ljust(16, "0")[:16]))


def calendar_day(text: str) -> date:
    """Return the day of an ISO 8601 date."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError("is a day that the calendar does not have") from None


def _offset(match: re.Match[str]) -> timedelta:
    hours, minutes = int(match["zone_hours"] or 0), int(match["zone_minutes"] or 0)
    if hours > 23 or minutes > 59:
        raise ValueError("has an offset from UTC of a day or more, or with more than 59 minutes")
    offset = timedelta(hours=hours, minutes=minutes)
    return -offset if (match["sign"] or "").endswith("-") else offset
