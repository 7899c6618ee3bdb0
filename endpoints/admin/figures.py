"""Numbers and times as the admin's pages show them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

UNKNOWN: Final = "—"


def count(number: int) -> str:
    """Return a number with separators: 1,234."""
    return f"{number:,}"


def percent(share: float | None) -> str:
    """Return a share of 0 to 1 in whole per cent; only none is 0 % and only all is 100 %."""
    if share is None:
        return UNKNOWN
    if 0 < share < 0.01:
        return "< 1 %"
    if 0.99 < share < 1:
        return "> 99 %"
    return f"{share:.0%}".replace("%", " %")


def duration(milliseconds: float | None) -> str:
    """Return a duration in the unit that fits: 0.8 ms, 12 ms, 1.25 s."""
    if milliseconds is None:
        return UNKNOWN
    if milliseconds < 10:
        return f"{milliseconds:.1f} ms"
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:,.2f} s"


def utc(unix_seconds: float) -> datetime:
    return datetime.fromtimestamp(unix_seconds, UTC)


def moment(at: datetime) -> str:
    """Return a time to the second, in UTC without saying so."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
