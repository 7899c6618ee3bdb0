"""manage.py generate_logs: make up rows, and load them or write them as NDJSON."""

from __future__ import annotations

import re
import secrets
from argparse import ArgumentTypeError
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from django.core.management.base import CommandError, CommandParser

from logsources.generation import SOURCE_NAMES, generate_rows, share_rows
from logsources.loading import LoadProgress, LoadReport, OnBadLine, load_rows
from logsources.management.commands.load_logs import explained_load_errors, find_source
from logsources.management.load_progress import Update, shown_progress
from logsources.management.own_command import OwnCommand, file_failure, whole_number
from logsources.models import LogSource
from logsources.moments import read_moment

DEFAULT_ROWS = 20_000
DEFAULT_DAYS = 7.0
MAX_DAYS = 3_650  # a load takes no rows from before 2000
DEFAULT_PROJECTS = "acme,globex,initech"
_PROJECT = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")  # it becomes part of a host name (RFC 1123)


@dataclass(frozen=True, slots=True)
class _Order:
    """The rows to make: the same order gives the same rows."""

    counts: dict[str, int]
    until: datetime
    days: float
    projects: Sequence[str]
    seed: str

    def lines(self, source_name: str) -> Iterator[bytes]:
        rows = generate_rows(
            source_name,
            count=self.counts[source_name],
            until=self.until,
            days=self.days,
            projects=self.projects,
            seed=self.seed,
        )
        return map(orjson.dumps, rows)


class Command(OwnCommand):
    help = "Make up realistic log rows and load them; the same --seed and --until give the same rows."
    examples = ("python manage.py generate_logs --rows 20000 --days 7 --projects acme,globex",)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--rows", type=whole_number, default=DEFAULT_ROWS, help="rows in total (default: %(default)s)"
        )
        parser.add_argument(
            "--days", type=_days, default=DEFAULT_DAYS, help="days that the rows cover (default: %(default)s)"
        )
        parser.add_argument("--until", help="the end of these days, ISO 8601; without a zone: UTC (default: now)")
        parser.add_argument("--seed", help="any text (default: a random one, which is shown)")
        parser.add_argument(
            "--projects", default=DEFAULT_PROJECTS, help="comma-separated, busiest first (default: %(default)s)"
        )
        parser.add_argument(
            "--source", action="append", metavar="NAME", help="only this log source; may be repeated (default: all)"
        )
        parser.add_argument("--output", metavar="FILE", help="write NDJSON to FILE (- for stdout) instead of loading")

    def handle(self, *args: Any, **options: Any) -> None:
        order = _read_order(options)
        if options["output"] is None:
            self._load(order)
        elif len(order.counts) != 1:
            raise CommandError("An NDJSON file contains the rows of one log source: name it with --source.")
        else:
            self._write(order, options["output"])
        self.stderr.write(
            f"To get the same rows again: --seed {order.seed} --until {order.until.isoformat()}", style_func=str
        )

    def _load(self, order: _Order) -> None:
        sources = [find_source(name) for name in order.counts]
        reports: dict[str, LoadReport] = {}
        with shown_progress(self.stderr, "rows", total=sum(order.counts.values())) as update:
            rows_before = 0
            for source in sources:
                reports[source.name] = _load_source(source, order, rows_before, update)
                rows_before += order.counts[source.name]
        for name, report in reports.items():
            self.stdout.write(f"{name}: {report.loaded:,} rows loaded, {report.duplicates:,} already there")

    def _write(self, order: _Order, output: str) -> None:
        (source_name,) = order.counts
        try:
            if output == "-":
                for line in order.lines(source_name):
                    self.stdout.write(line.decode())
            else:
                with open(output, "wb") as file:
                    file.writelines(line + b"\n" for line in order.lines(source_name))
        except OSError as error:
            raise CommandError(file_failure(error)) from error


def _load_source(source: LogSource, order: _Order, rows_before: int, update: Update) -> LoadReport:
    def progress(so_far: LoadProgress) -> None:
        update(rows_before + so_far.lines, rows_before + so_far.lines)

    with explained_load_errors(source):
        return load_rows(source, order.lines(source.name), on_bad_line=OnBadLine.ABORT, progress=progress)


def _read_order(options: dict[str, Any]) -> _Order:
    names = list(dict.fromkeys(options["source"] or SOURCE_NAMES))
    unknown = [name for name in names if name not in SOURCE_NAMES]
    if unknown:
        raise CommandError(f"Cannot make rows for {unknown[0]!r}. Choose among: {', '.join(SOURCE_NAMES)}.")
    if options["rows"] < 0:
        raise CommandError("--rows must not be negative.")
    if not 0 < options["days"] <= MAX_DAYS:
        raise CommandError(f"--days must be positive and at most {MAX_DAYS:,}.")
    return _Order(
        counts=share_rows(options["rows"], names),
        until=_read_until(options["until"]),
        days=options["days"],
        projects=_read_projects(options["projects"]),
        seed=options["seed"] or secrets.token_hex(4),
    )


def _days(text: str) -> float:
    with suppress(ValueError):
        return float(text)
    raise ArgumentTypeError(f"{text!r} is not a number of days")


def _read_projects(text: str) -> list[str]:
    projects = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in projects:
        if not _PROJECT.fullmatch(name):
            raise CommandError(f"--projects: {name!r} must consist of lower-case letters, digits and hyphens.")
    return projects


def _read_until(text: str | None) -> datetime:
    if text is None:
        return datetime.now(UTC)
    try:
        return read_moment(text)
    except ValueError:
        raise CommandError(f"--until: {text!r} is not ISO 8601.") from None
