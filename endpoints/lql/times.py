"""The values of a time filter: ISO 8601, Unix time, ranges, braces and the words of relative time. No clock is read.

=====================================  ==========================================================================
``2026-03-17``                         that day
``2026-03-17T14:47:02.5+02:00``        that moment; without a zone it is UTC; one to six digits of a fraction
``1710683222``                         Unix time: 10 digits seconds, 13 milliseconds, 16 microseconds
``A..B``                               both ends days, both without zone, or both with one (Unix time counts)
``2026-{03..04}-01T00:00:{00..30}``    left sides make the lower end, right sides the upper; the rest is shared
``now``                                the clock reading
``today yesterday this@week last@7d``  intervals relative to the clock reading
=====================================  ==========================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Final

from endpoints.lql.refusals import Fault, named
from endpoints.lql.rules import Moment, Now, Origin, Shorthand, ShorthandKind, Unit
from logsources.moments import read_moment

TIME_FORMS: Final = (
    "a date such as `2026-03-17`",
    "a date and time such as `2026-03-17T14:47:02Z`",
    "Unix time of 10, 13 or 16 digits",
    "a range such as `2026-03-01..2026-03-17`",
    "`now`",
    "`today`",
    "`yesterday`",
    "`this@week`",
    "`last@7days`",
)
# As programs log them, for Python and PostgreSQL: with a blank for T, without seconds, with a comma, in nanoseconds.
LOGGED_FORM: Final = (
    "([0-9]{4}-[0-9]{2}-[0-9]{2})"
    "([Tt ]([0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{1,9})?)?)( ?(Z|z|UTC|[+-][0-9]{2}(:?[0-9]{2})?))?)?"
)
# By the digits of Unix time: how many of its units are a second.
UNITS_PER_SECOND: Final = {10: 1, 13: 1_000, 16: 1_000_000}
LITERAL_FORMS: Final = TIME_FORMS[:3]
CALENDAR: Final = ("a date that exists", "a time from 00:00:00 to 23:59:59")
UNIT_SPELLINGS: Final = {
    **{unit.value: unit for unit in Unit},
    **{f"{unit.value}s": unit for unit in Unit},
    "s": Unit.SECOND,
    "m": Unit.MINUTE,
    "h": Unit.HOUR,
    "d": Unit.DAY,
    "w": Unit.WEEK,
    "mm": Unit.MONTH,
    "y": Unit.YEAR,
}

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - every datetime of a rule is UTC without zone
_BEGINS_A_MOMENT: Final = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}T")


def _part(name: str, width: str) -> str:
    digits = f"[0-9]{{{width}}}"
    return rf"(?P<{name}>{digits}|\{{{digits}\.\.{digits}\}})"


_ISO: Final = re.compile(
    rf"{_part('year', '4')}-{_part('month', '2')}-{_part('day', '2')}"
    rf"(?:T{_part('hour', '2')}:{_part('minute', '2')}:{_part('second', '2')}(?:\.{_part('fraction', '1,6')})?"
    r"(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?)?"
)


@dataclass(frozen=True, slots=True)
class Instant:
    """One moment or day as written."""

    moment: Moment
    origin: Origin


@dataclass(frozen=True, slots=True)
class Interval:
    """Two moments or two days, both included; `origin` is None for ``date..date``."""

    lower: date | datetime
    upper: date | datetime
    origin: Origin | None


def read_time(text: str, *, position: int = 0) -> Instant | Interval | Shorthand:
    """Return the meaning of the text. Raises Fault with offsets that count from `position`, the text's own offset."""
    match = _ISO.fullmatch(text)
    if other := _other_spelling(text, match):
        return Instant(*other)
    if match:
        lower, upper, origin = _sides(match, position)
        return Instant(lower, origin) if lower == upper else Interval(lower, upper, origin)
    if "{" in text or "}" in text:
        hint = "Braces contain two numbers with as many digits as the number they replace, such as `2026-{03..04}-01`."
        raise Fault(position, f"{named(text)} is not a time", found=text, expected=TIME_FORMS, hint=hint)
    if ".." in text:
        return _range(text, position)
    return _relative_time(text, position)


def _other_spelling(text: str, match: re.Match[str] | None) -> tuple[date | datetime, Origin] | None:
    """Return the moment, or the day, of a spelling that the reader of all times knows; `match` is that of _ISO."""
    if match and match["hour"] != "24" and match["second"] != "60":
        return None
    try:
        moment = read_moment(text).replace(tzinfo=None)
    except ValueError:
        return None
    if len(text) == len("20260317"):
        return moment.date(), Origin.LOCAL
    if text.isdigit():  # Unix time is cut to milliseconds, as in the language's reference
        moment = moment.replace(microsecond=moment.microsecond // 1_000 * 1_000)
    return moment, Origin.ABSOLUTE


def iso_kind(text: str, *, position: int = 0) -> str | None:
    """Return `date`, `time with zone` or `time without zone`, None for text that is not ISO 8601.

    Raises Fault if the day or time does not exist or is not finished.
    """
    match = _ISO.fullmatch(text)
    if match is None and _BEGINS_A_MOMENT.match(text):
        reason, hint = f"{named(text)} is neither a day nor a moment", "In double quotes it is text."
        raise Fault(position, reason, found=text, expected=LITERAL_FORMS[:2], hint=hint)
    if match is None or "{" in text:
        return None
    _sides(match, position, hint="In double quotes it is text.")
    if match["hour"] is None:
        return "date"
    return "time with zone" if match["zone"] else "time without zone"


def _range(text: str, position: int) -> Interval:
    lower_text, upper_text = text.split("..", 1)
    lower, lower_origin = _literal(lower_text, position)
    upper, upper_origin = _literal(upper_text, position + len(lower_text) + 2)
    are_moments = isinstance(lower, datetime)
    if are_moments != isinstance(upper, datetime):
        raise _mixed(text, position, "a day and a moment")
    if lower_origin is not upper_origin:
        raise _mixed(text, position, "a time with zone and one without")
    return Interval(lower, upper, lower_origin if are_moments else None)


def _mixed(text: str, position: int, what: str) -> Fault:
    expected = ("two dates", "two times with zone or in Unix time", "two times without zone")
    return Fault(position, f"a mixed range: {named(text)} joins {what}", found=text, expected=expected)


def _literal(text: str, position: int) -> tuple[date | datetime, Origin]:
    match = _ISO.fullmatch(text)
    if other := _other_spelling(text, match):
        return other
    if match:
        lower, _, origin = _sides(match, position)
        return lower, origin
    reason = f"{named(text)} cannot be an end of a time range" if text else "an end of the time range is missing"
    raise Fault(position, reason, found=text, expected=LITERAL_FORMS)


def _sides(match: re.Match[str], position: int, *, hint: str = "") -> tuple[date | datetime, date | datetime, Origin]:
    """Return the lower end, the upper end (without braces both are equal), and the origin."""
    parts = {name: part.strip("{}").split("..") for name, part in match.groupdict().items() if part is not None}
    ends = []
    for side in (0, -1):
        chosen = {name: part[side] for name, part in parts.items()}
        try:
            ends.append(_moment(chosen))
        except (ValueError, OverflowError):
            reason = f"{named(_written(chosen))} is not in the calendar of the years 1 to 9999"
            raise Fault(position, reason, found=match[0], expected=CALENDAR, hint=hint) from None
    return ends[0], ends[1], Origin.ABSOLUTE if match["zone"] else Origin.LOCAL


def _moment(parts: dict[str, str]) -> date | datetime:
    """Return the day or the moment. Raises ValueError or OverflowError if it does not exist."""
    day = date(int(parts["year"]), int(parts["month"]), int(parts["day"]))
    if "hour" not in parts:
        return day
    microsecond = int(parts.get("fraction", "0").ljust(6, "0"))
    clock = time(int(parts["hour"]), int(parts["minute"]), int(parts["second"]), microsecond)
    return datetime.combine(day, clock) - _offset(parts.get("zone", "Z"))


def _written(parts: dict[str, str]) -> str:
    day = f"{parts['year']}-{parts['month']}-{parts['day']}"
    if "hour" not in parts:
        return day
    return f"{day}T{parts['hour']}:{parts['minute']}:{parts['second']}{parts.get('zone', '')}"


def _offset(zone: str) -> timedelta:
    """Return how far the zone is ahead of UTC. Raises ValueError for 24 hours or more, and for minute 60 or later."""
    if zone == "Z":
        return timedelta()
    ahead = time(int(zone[1:3]), int(zone[4:]))
    offset = timedelta(hours=ahead.hour, minutes=ahead.minute)
    return -offset if zone[0] == "-" else offset


def _relative_time(text: str, position: int) -> Instant | Shorthand:
    if text == "now":
        return Instant(Now(), Origin.ABSOLUTE)
    if text in ("today", "yesterday"):
        return Shorthand(ShorthandKind(text))
    word, at, rest = text.partition("@")
    if at and word == "this":
        return Shorthand(ShorthandKind.THIS, _unit(rest, position + 5, [unit for unit in Unit if unit != Unit.SECOND]))
    if at and word == "last":
        return _last(rest, position + 5)
    reason = f"{named(text)} is not a time"
    if text.isascii() and text.isdigit():
        reason = f"Unix time has 10, 13 or 16 digits, not {len(text)}"
    raise Fault(position, reason, found=text, expected=TIME_FORMS)


def _last(rest: str, position: int) -> Shorthand:
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    if digits and (len(digits) > 4 or int(digits) == 0):
        reason = f"`last@` cannot count {named(digits)} units"
        raise Fault(position, reason, found=digits, expected=("a number from 1 to 9999",))
    unit = _unit(rest[len(digits) :], position + len(digits), Unit)
    return Shorthand(ShorthandKind.LAST, unit, int(digits or "1"))


def _unit(text: str, position: int, allowed: Iterable[Unit]) -> Unit:
    units = tuple(allowed)
    unit = UNIT_SPELLINGS.get(text)
    if unit in units:
        return unit
    reason = f"{named(text)} is not a unit of time that can be used here" if text else "a unit of time is missing"
    hint = "In short: s, m for minute, h, d, w, mm for month, y."
    raise Fault(position, reason, found=text, expected=[f"`{unit.value}`" for unit in units], hint=hint)
