"""Charts with axes, as what to draw into an SVG and what to write beside it: pure, without colours and scripts.

Drawings are WIDTH by HEIGHT and stretched to their place on the page, so texts are outside of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil, floor, log10
from typing import Final

WIDTH: Final = 600
HEIGHT: Final = 120
_GAP: Final = 0.25  # of the step of a bar
_SHORTEST: Final = 1.5  # a single call beside thousands can still be seen


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of a stacked bar; `kind` says what it counts."""

    kind: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line through the points that have a value; `pieces` are the points of SVG polylines."""

    kind: str
    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """What to draw, the marks of both axes (the vertical ones from the top), and the same as a sentence."""

    title: str
    text: str
    bars: tuple[Bar, ...]
    lines: tuple[Line, ...]
    marks: tuple[str, ...]
    times: tuple[str, ...]
    legend: tuple[tuple[str, str], ...]  # kind, label
    is_empty: bool
    width: int = WIDTH
    height: int = HEIGHT


@dataclass(frozen=True, slots=True)
class Axis:
    """The time of the first point, and between points."""

    start: datetime
    step: timedelta
    points: int

    def times(self) -> tuple[str, ...]:
        """Return marks at the start, the quarters and the end, in UTC."""
        form = "%H:%M" if self.step * self.points <= timedelta(days=1) else "%d %b %H:%M"
        return tuple(f"{self.start + self.step * (self.points * part / 4):{form}}" for part in range(5))

    def moments(self) -> tuple[datetime, ...]:
        return tuple(self.start + number * self.step for number in range(self.points))


Series = Mapping[str, Sequence[float | None]]  # kind -> a value, or none, for each point


def draw_bars(
    title: str, text: str, axis: Axis, series: Series, legend: Sequence[tuple[str, str]], write: Callable[[float], str]
) -> Chart:
    """Return a chart of stacked bars, the first kind at the bottom."""
    totals = [sum(values[number] or 0 for values in series.values()) for number in range(axis.points)]
    top = _nice(max(totals, default=0))
    step = WIDTH / axis.points
    bars: list[Bar] = []
    for number in range(axis.points):
        y = float(HEIGHT)
        for kind, values in series.items():
            value = values[number] or 0
            if value > 0:
                height = min(max(_SHORTEST, value / top * HEIGHT), y)
                y -= height
                x = number * step + step * _GAP / 2
                bars.append(Bar(kind, round(x, 2), round(y, 2), round(step * (1 - _GAP), 2), round(height, 2)))
    return Chart(
        title, text, tuple(bars), (), _marks(top, write), axis.times(), tuple(legend), is_empty=not any(totals)
    )


def draw_lines(
    title: str,
    text: str,
    axis: Axis,
    series: Series,
    legend: Sequence[tuple[str, str]],
    write: Callable[[float], str],
    *,
    top: float | None = None,
) -> Chart:
    """Return a chart of lines; where a point has no value the line is interrupted."""
    known = [value for values in series.values() for value in values if value is not None]
    top = top or _nice(max(known, default=0))
    step = WIDTH / axis.points
    lines = tuple(Line(kind, _pieces(values, top=top, step=step)) for kind, values in series.items())
    return Chart(title, text, (), lines, _marks(top, write), axis.times(), tuple(legend), is_empty=not known)


def _pieces(values: Sequence[float | None], *, top: float, step: float) -> tuple[str, ...]:
    pieces: list[list[str]] = [[]]
    for number, value in enumerate(values):
        if value is None:
            pieces.append([])
            continue
        x, y = (number + 0.5) * step, HEIGHT - min(value / top, 1) * HEIGHT
        pieces[-1].append(f"{x:.1f},{y:.1f}")
    # A line through one point has no length: it gets the width of half a step.
    return tuple(" ".join(piece) if len(piece) > 1 else _dash(piece[0], step) for piece in pieces if piece)


def _dash(point: str, step: float) -> str:
    x, y = map(float, point.split(","))
    return f"{x - step / 4:.1f},{y:.1f} {x + step / 4:.1f},{y:.1f}"


def _marks(top: float, write: Callable[[float], str]) -> tuple[str, ...]:
    return write(top), write(top / 2), write(0)


def _nice(most: float) -> float:
    """Return a round number that is not less, and whose half is a short number too; of counts at least 2."""
    if most <= 0:
        return 2.0
    power = 10 ** floor(log10(most))
    factor = next(each for each in (1, 2, 4, 6, 8, 10) if each * power >= most or each == 10)
    return float(max(factor * power, 2) if most >= 1 else ceil(most / power) * power)
