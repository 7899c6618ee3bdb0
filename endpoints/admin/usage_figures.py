"""Figures of calls as the page Usage writes and draws them: rows of tables, facts, charts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from endpoints.admin import figures
from endpoints.admin.charts import Axis, Chart, draw_bars, draw_lines
from endpoints.auditing.reports import Figures, Period, UsageReport


@dataclass(frozen=True, slots=True)
class FigureRow:
    """An endpoint or an access token with its figures; `page` shows it alone."""

    name: str
    page: str
    calls: str
    refused: str
    failed: str
    has_failed: bool
    cached: str
    median: str
    slow: str


@dataclass(frozen=True, slots=True)
class PointRow:
    """A point of the charts as a row of their table."""

    at: datetime
    calls: str
    refused: str
    failed: str
    cached: str
    median: str
    slow: str


def figure_row(name: str, page: str, of: Figures) -> FigureRow:
    return FigureRow(
        name=name,
        page=page,
        calls=figures.count(of.calls),
        refused=figures.count(of.refused),
        failed=figures.count(of.failed),
        has_failed=bool(of.failed),
        cached=figures.percent(of.cached_share),
        median=figures.duration(of.durations.quantile_ms(0.5)),
        slow=figures.duration(of.durations.quantile_ms(0.95)),
    )


def facts_of(total: Figures) -> list[tuple[str, str]]:
    return [
        ("calls", figures.count(total.calls)),
        ("refused (4xx)", figures.count(total.refused)),
        ("failed (5xx)", figures.count(total.failed)),
        ("from the cache", figures.percent(total.cached_share)),
        ("median", figures.duration(total.durations.quantile_ms(0.5))),
        ("95th percentile", figures.duration(total.durations.quantile_ms(0.95))),
    ]


def point_rows(report: UsageReport, period: Period) -> list[PointRow]:
    moments = Axis(report.start, period.step, period.points).moments()
    return [
        PointRow(
            at=at,
            calls=figures.count(point.calls),
            refused=figures.count(point.refused),
            failed=figures.count(point.failed),
            cached=figures.percent(point.cached_share),
            median=figures.duration(point.durations.quantile_ms(0.5)),
            slow=figures.duration(point.durations.quantile_ms(0.95)),
        )
        for at, point in zip(moments, report.points, strict=True)
        if point.calls
    ]


def draw_charts(report: UsageReport, period: Period) -> list[Chart]:
    """Return the charts of calls, errors, durations and of the share of the cache."""
    axis, points, total = Axis(report.start, period.step, period.points), report.points, report.total
    most = max(point.calls for point in points)
    number = _whole_number
    answered = [point.calls - point.refused - point.failed for point in points]
    refused, failed = [point.refused for point in points], [point.failed for point in points]
    medians = [point.durations.quantile_ms(0.5) for point in points]
    slow = [point.durations.quantile_ms(0.95) for point in points]
    shares = [None if point.cached_share is None else point.cached_share * 100 for point in points]
    return [
        draw_bars(
            "Calls",
            f"{_calls(total.calls)}; at most {figures.count(most)} in a bar.",
            axis,
            {"answered": answered, "refused": refused, "failed": failed},
            [("answered", "answered"), ("refused", "refused (4xx)"), ("failed", "failed (5xx)")],
            number,
        ),
        draw_bars(
            "Errors",
            f"{figures.count(total.refused)} calls refused, {figures.count(total.failed)} failed.",
            axis,
            {"failed": failed, "refused": refused},
            [("failed", "failed (5xx)"), ("refused", "refused (4xx)")],
            number,
        ),
        draw_lines(
            "Duration",
            f"Median {figures.duration(total.durations.quantile_ms(0.5))}, "
            f"95th percentile {figures.duration(total.durations.quantile_ms(0.95))}.",
            axis,
            {"median": medians, "slow": slow},
            [("median", "median"), ("slow", "95th percentile")],
            figures.duration,
        ),
        draw_lines(
            "From the cache",
            f"{figures.percent(total.cached_share)} of answered calls came from the cache.",
            axis,
            {"cached": shares},
            [("cached", "share of answered calls")],
            lambda share: f"{share:.0f} %",
            top=100,
        ),
    ]


def _whole_number(value: float) -> str:
    return figures.count(round(value)) if value == round(value) else f"{value:g}"


def _calls(number: int) -> str:
    return f"{figures.count(number)} {'call' if number == 1 else 'calls'}"
