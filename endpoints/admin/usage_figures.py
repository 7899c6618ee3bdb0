"""Figures of calls as the page Usage writes and draws them: rows of tables, facts, charts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from endpoints.admin import figures
from endpoints.admin.charts import Axis, Chart, draw_bars, draw_lines
from endpoints.auditing.reports import Figures, Period, UsageReport
from endpoints.cache.usage import Durations


@dataclass(frozen=True, slots=True)
class CallFigures:
    """Figures of some calls in words; the templates call_figures_head.html and call_figures.html make cells of them."""

    calls: str
    refused: str
    failed: str
    has_failed: bool
    cached: str
    median: str
    slow: str


@dataclass(frozen=True, slots=True)
class FigureRow:
    """An endpoint or an access token with its figures; `page` shows it alone."""

    name: str
    page: str
    figures: CallFigures


@dataclass(frozen=True, slots=True)
class PointRow:
    """A point of the charts as a row of their table."""

    at: datetime
    figures: CallFigures


def call_figures(
    *, calls: int, refused: int, failed: int, cached_share: float | None, durations: Durations
) -> CallFigures:
    return CallFigures(
        calls=figures.count(calls),
        refused=figures.count(refused),
        failed=figures.count(failed),
        has_failed=bool(failed),
        cached=figures.percent(cached_share),
        median=figures.duration(durations.quantile_ms(0.5)),
        slow=figures.duration(durations.quantile_ms(0.95)),
    )


def figure_row(name: str, page: str, of: Figures) -> FigureRow:
    return FigureRow(name, page, _in_words(of))


def _in_words(of: Figures) -> CallFigures:
    return call_figures(
        calls=of.calls, refused=of.refused, failed=of.failed, cached_share=of.cached_share, durations=of.durations
    )


def facts_of(total: Figures) -> list[tuple[str, str]]:
    words = _in_words(total)
    return [
        ("calls", words.calls),
        ("refused (4xx)", words.refused),
        ("failed (5xx)", words.failed),
        ("from the cache", words.cached),
        ("median", words.median),
        ("95th percentile", words.slow),
    ]


def point_rows(report: UsageReport, period: Period) -> list[PointRow]:
    moments = Axis(report.start, period.step, period.points).moments()
    return [PointRow(at, _in_words(point)) for at, point in zip(moments, report.points, strict=True) if point.calls]


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
