"""manage.py generate_logs: make up rows, and load them or write them as NDJSON."""

from __future__ import annotations

import re
import secrets
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.core.management.base import CommandError, CommandParser

from logsources.generation import SOURCE_NAMES, generate_rows, share_rows
from logsources.loading import OnBadLine, load_rows
from logsources.management.commands.load_logs import explained_load_errors, find_source
from logsources.management.own_command import OwnCommand, file_failure, whole_number
from logsources.moments import read_moment

MAX_DAYS = 3_650  # a load takes no rows from before 2000
_PROJECT = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")  # it becomes part of a host name (RFC 1123)


class Command(OwnCommand):
    help = "Make up realistic log rows and load them; the same --seed and --until give the same rows."
    examples = ("python manage.py generate_logs --rows 20000 --days 7 --projects acme,globex",)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--rows", type=whole_number, default=20_000, help="rows in total (default: %(default)s)")
        parser.add_argument("--days", type=_days, default=7.0, help="days that the rows cover (default: %(default)s)")
        parser.add_argument("--until", help="the end of these days, ISO 8601; without a zone: UTC (default: now)")
        parser.add_argument("--seed", help="any text (default: a random one, which is shown)")
        parser.add_argument(
            "--projects", default="acme,globex,initech", help="comma-separated, busiest first (default: %(default)s)"
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
        if not 0 < days <= MAX_DAYS:
            raise CommandError(f"--days must be positive and at most {MAX_DAYS:,}.")
        until, projects = _read_until(options["until"]), _read_projects(options["projects"])
        seed = options["seed"] or secrets.token_hex(4)
        made = partial(generate_rows, until=until, days=days, projects=projects, seed=seed)
        if output is None:
            for name, count in share_rows(rows, names).items():
                source = find_source(name)
                with explained_load_errors(source):
                    report = load_rows(source, made(name, count=count), on_bad_line=OnBadLine.ABORT)
                self.stdout.write(f"{name}: {report.loaded:,} rows loaded, {report.duplicates:,} already there")
        elif len(names) != 1:
            raise CommandError("An NDJSON file contains the rows of one log source: name it with --source.")
        else:
            self._write(made(names[0], count=rows), output)
        self.stderr.write(f"To get the same rows again: --seed {seed} --until {until.isoformat()}", style_func=str)

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
