"""manage.py generate_logs: make up rows, and load them or write them as NDJSON."""

from __future__ import annotations

import re
import secrets
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.core.management.base import CommandError, CommandParser

from logsources.generation import SOURCE_NAMES, generate_rows, share_rows
from logsources.loading import LoadProgress, OnBadLine, load_rows
from logsources.management.commands.load_logs import explained_load_errors, find_source
from logsources.management.load_progress import shown_progress
from logsources.management.own_command import OwnCommand, file_failure, whole_number
from logsources.moments import read_moment

DEFAULT_ROWS = 20_000
DEFAULT_DAYS = 7.0
MAX_DAYS = 3_650  # a load takes no rows from before 2000
DEFAULT_PROJECTS = "acme,globex,initech"
_PROJECT = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")  # it becomes part of a host name (RFC 1123)


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

    def handle(self, *args: Any, rows: int, days: float, output: str | None, **options: Any) -> None:
        names = list(dict.fromkeys(options["source"] or SOURCE_NAMES))
        unknown = [name for name in names if name not in SOURCE_NAMES]
        if unknown:
            raise CommandError(f"Cannot make rows for {unknown[0]!r}. Choose among: {', '.join(SOURCE_NAMES)}.")
        if rows < 0:
            raise CommandError("--rows must not be negative.")
        if not 0 < days <= MAX_DAYS:
            raise CommandError(f"--days must be positive and at most {MAX_DAYS:,}.")
        until, projects = _read_until(options["until"]), _read_projects(options["projects"])
        seed = options["seed"] or secrets.token_hex(4)
        made = partial(generate_rows, until=until, days=days, projects=projects, seed=seed)
        counts = share_rows(rows, names)
        if output is None:
            self._load(counts, made)
        elif len(names) != 1:
            raise CommandError("An NDJSON file contains the rows of one log source: name it with --source.")
        else:
            self._write(made(names[0], count=rows), output)
        self.stderr.write(f"To get the same rows again: --seed {seed} --until {until.isoformat()}", style_func=str)

    def _load(self, counts: dict[str, int], made: Callable[..., Iterator[bytes]]) -> None:
        sources, told = [find_source(name) for name in counts], []
        with shown_progress(self.stderr, "rows", total=sum(counts.values())) as update:
            before = 0

            def progress(so_far: LoadProgress) -> None:
                update(before + so_far.lines, before + so_far.lines)

            for source in sources:
                lines = made(source.name, count=counts[source.name])
                with explained_load_errors(source):
                    report = load_rows(source, lines, on_bad_line=OnBadLine.ABORT, progress=progress)
                told.append(f"{source.name}: {report.loaded:,} rows loaded, {report.duplicates:,} already there")
                before += counts[source.name]
        self.stdout.write("\n".join(told))

    def _write(self, lines: Iterator[bytes], output: str) -> None:
        try:
            if output == "-":
                for line in lines:
                    self.stdout.write(line.decode())
            else:
                with open(output, "wb") as file:
                    file.writelines(line + b"\n" for line in lines)
        except OSError as error:
            raise CommandError(file_failure(error)) from error


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
