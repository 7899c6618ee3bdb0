"""What is drawn for a chart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from endpoints.admin.charts import HEIGHT, WIDTH, Axis, _nice, draw_bars, draw_lines

AXIS = Axis(datetime(2031, 5, 7, 12, tzinfo=UTC), timedelta(minutes=15), 4)


@pytest.mark.parametrize(
    ("most", "top"), [(0, 2), (1, 2), (3, 4), (5, 6), (7, 8), (11, 20), (99, 100), (101, 200), (0.03, 0.03), (601, 800)]
)
def test_the_top_of_an_axis_is_a_round_number_that_is_not_less(most: float, top: float) -> None:
    assert _nice(most) == pytest.approx(top)


def test_bars_are_stacked_and_stay_inside() -> None:
    chart = draw_bars("Calls", "", AXIS, {"answered": [10, 0, 1000, 3], "failed": [0, 0, 1, 1]}, [], str)
    assert [(bar.kind, bar.x) for bar in chart.bars] == [
        ("answered", 18.75), ("answered", 318.75), ("failed", 318.75), ("answered", 468.75), ("failed", 468.75),
    ]  # fmt: skip
    assert all(bar.y >= 0 and bar.y + bar.height <= HEIGHT + 0.01 and bar.x + bar.width <= WIDTH for bar in chart.bars)
    assert all(bar.height >= 1 for bar in chart.bars)
    assert chart.times == ("12:00", "12:15", "12:30", "12:45", "13:00")


def test_a_line_is_interrupted_where_there_is_nothing() -> None:
    chart = draw_lines("Duration", "", AXIS, {"median": [1, 2, None, 2]}, [], str)
    assert [line.pieces for line in chart.lines] == [("75.0,60.0 225.0,0.0", "487.5,0.0 562.5,0.0")]
    assert not chart.is_empty


def test_nothing_is_empty() -> None:
    assert draw_lines("Duration", "", AXIS, {"median": [None] * 4}, [], str).is_empty
    assert draw_bars("Calls", "", AXIS, {"answered": [0] * 4}, [], str).is_empty
