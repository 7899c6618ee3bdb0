"""Numbers and times as the admin's pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from endpoints.cache.usage import Activity

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
    """Return a duration in the unit that fits, never as nought: 0.049 ms, 0.8 ms, 12 ms, 1.25 s."""
    if milliseconds is None:
        return UNKNOWN
    if milliseconds < 1:
        return f"{milliseconds:.2g} ms"
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


# --- Sparklines -------------------------------------------------------------------------------------------------------
# A day's calls as a row of bars: what to draw into an SVG, and the same in words.
BAR_MINUTES: Final = 30
BAR_WIDTH: Final = 3
BAR_STEP: Final = 4  # a bar and the gap after it
HEIGHT: Final = 32
_SHORTEST: Final = 1.5  # a single call beside thousands can still be seen


@dataclass(frozen=True, slots=True)
class Piece:
    """A rectangle of a bar; `kind` is answered, refused or failed."""

    kind: str
    x: float
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Sparkline:
    """Bars of half an hour, the last one up to now, stacked from the bottom; `text` says what they show."""

    pieces: tuple[Piece, ...]
    text: str
    width: int
    height: int = HEIGHT
    bar_width: int = BAR_WIDTH


def draw_sparkline(activity: Activity, *, now: datetime) -> Sparkline:
    """Return the calls of the 24 hours up to `now`."""
    calls, refused, failed = (_bars(minutes) for minutes in (activity.calls, activity.refused, activity.failed))
    most = max(calls)
    pieces: list[Piece] = []
    for number, total in enumerate(calls):
        answered = total - refused[number] - failed[number]
        kinds = {"failed": failed[number], "refused": refused[number], "answered": answered}
        pieces += _stack(kinds, x=number * BAR_STEP, most=most)
    text = _in_words(calls, refused=sum(refused), failed=sum(failed), now=now)
    return Sparkline(tuple(pieces), text, width=len(calls) * BAR_STEP)


def _bars(minutes: Sequence[int]) -> list[int]:
    return [sum(minutes[start : start + BAR_MINUTES]) for start in range(0, len(minutes), BAR_MINUTES)]


def _stack(kinds: dict[str, int], *, x: int, most: int) -> list[Piece]:
    heights = {kind: max(_SHORTEST, number / most * HEIGHT) for kind, number in kinds.items() if number > 0}
    overhang = sum(heights.values()) - HEIGHT
    if overhang > 0:  # small ones were made taller than they are
        heights[max(heights, key=heights.__getitem__)] -= overhang
    pieces, top = [], float(HEIGHT)
    for kind, height in heights.items():
        top -= height
        pieces.append(Piece(kind, x, round(top, 2), round(height, 2)))
    return pieces


def _in_words(calls: Sequence[int], *, refused: int, failed: int, now: datetime) -> str:
    total, most = sum(calls), max(calls)
    if not total:
        return "No calls in the last 24 hours."
    busiest = len(calls) - 1 - calls[::-1].index(most)
    end = now - timedelta(minutes=BAR_MINUTES * (len(calls) - 1 - busiest))
    start = end - timedelta(minutes=BAR_MINUTES)
    return (
        f"{count(total)} call{'' if total == 1 else 's'} in the last 24 hours, {count(refused)} refused and "
        f"{count(failed)} failed; most from {start:%H:%M} to {end:%H:%M} UTC: {count(most)}."
    )


def kind_of_end(status: int) -> str:
    """Return answered, refused or failed, as the style sheets name them."""
    return "answered" if status < 400 else "refused" if status < 500 else "failed"


def outcome(status: int, error_code: str, reason: str) -> str:
    """Return how a call ended, in words, with what PostgreSQL said of a stored query that failed."""
    failed = ": ".join(filter(None, (error_code.replace("_", " "), reason)))
    return failed or ("not modified" if status == 304 else "answered")
