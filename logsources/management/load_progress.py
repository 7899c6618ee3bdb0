"""The progress of a load on stderr: a bar on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.core.management.base import OutputWrapper
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

PLAIN_LINE_EVERY_SECONDS = 5.0

# Called with the number of rows so far and the part of the total that is done, in the unit of the total.
Update = Callable[[int, int], None]


@contextmanager
def shown_progress(stderr: OutputWrapper, title: str, *, total: int | None) -> Iterator[Update]:
    """Show progress until the block ends; if the total is None (a pipe), the remaining time cannot be shown."""
    if stderr.isatty():
        with _bar(title, total) as update:
            yield update
    else:
        yield _plain_lines(stderr, title, total)


@contextmanager
def _bar(title: str, total: int | None) -> Iterator[Update]:
    started = time.monotonic()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rows]:,} rows  {task.fields[rate]:,.0f} rows/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=total, rows=0, rate=0.0)

        def update(rows: int, done: int) -> None:
            progress.update(task, completed=done, rows=rows, rate=_rate(rows, started))

        yield update


def _plain_lines(stderr: OutputWrapper, title: str, total: int | None) -> Update:
    started = shown = time.monotonic()

    def update(rows: int, done: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown < PLAIN_LINE_EVERY_SECONDS:
            return
        shown = now
        line = f"{title}: {rows:,} rows, {_rate(rows, started):,.0f} rows/s"
        if total and done:
            left = (now - started) * (total - done) / done
            line += f", {done / total:.0%}, {max(left, 0):.0f} s left"
        stderr.write(line, style_func=str)

    return update


def _rate(rows: int, started: float) -> float:
    return rows / max(time.monotonic() - started, 0.001)
