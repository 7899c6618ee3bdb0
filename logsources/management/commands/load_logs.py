"""manage.py load_logs: load rows from an NDJSON file or pipe into a log source."""

from __future__ import annotations

import gzip
import os
import stat
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import psycopg
from django.core.management.base import CommandError, CommandParser

from logsources.loading import LoadAborted, LoadProgress, LoadReport, OnBadLine, load_rows
from logsources.management.load_progress import shown_progress
from logsources.management.own_command import OwnCommand, file_failure
from logsources.models import LogSource
from logsources.ndjson import decompressed, read_lines
from logsources.storing import ProjectMoved

INTERRUPTED_EXIT_CODE = 130  # what a shell reports for a command that Ctrl-C ended


class Command(OwnCommand):
    help = (
        "Load log rows from NDJSON (plain or gzip) in one transaction: all of them or none.\n\n"
        "One JSON object per line: event_message (text, required), metadata (an object), and project, id and timestamp "
        "if known. Rows without id or timestamp count twice if they are loaded twice."
    )
    examples = (
        "python manage.py load_logs edge_logs requests.ndjson.gz",
        "producer | python manage.py load_logs auth_logs - --skip-bad-lines",
        """echo '{"event_message": "GET | 200 | …", "project": "acme", "metadata": {"level": "info"}}' |"""
        " python manage.py load_logs edge_logs -",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("source", help="the log source, such as edge_logs")
        parser.add_argument("file", help="the NDJSON file, or - for standard input")
        parser.add_argument(
            "--skip-bad-lines",
            action="store_true",
            help="skip and report bad lines; otherwise the first bad line ends the load and nothing is loaded",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        source = find_source(options["source"])
        on_bad_line = OnBadLine.SKIP if options["skip_bad_lines"] else OnBadLine.ABORT
        started = time.monotonic()
        with explained_load_errors(source), _opened(options["file"]) as file:
            report = self._load(source, file, on_bad_line)
        self._summarise(source, report, seconds=time.monotonic() - started)
        if report.bad_line_count and not report.loaded and not report.duplicates:
            raise CommandError(f"Every line is bad. Nothing was loaded into {source.name}.")

    def _load(self, source: LogSource, file: BinaryIO, on_bad_line: OnBadLine) -> LoadReport:
        size = _regular_size(file)
        with shown_progress(self.stderr, source.name, total=size) as update:

            def progress(so_far: LoadProgress) -> None:
                update(so_far.lines, 0 if size is None else file.tell())

            return load_rows(source, read_lines(decompressed(file)), on_bad_line=on_bad_line, progress=progress)

    def _summarise(self, source: LogSource, report: LoadReport, *, seconds: float) -> None:
        for bad_line in report.bad_lines:
            self.stderr.write(f"line {bad_line.number}: {bad_line.reason}", style_func=str)
        unlisted = report.bad_line_count - len(report.bad_lines)
        if unlisted:
            self.stderr.write(f"… and {unlisted:,} more bad lines", style_func=str)
        self.stdout.write(
            f"{source.name}: {report.loaded:,} rows loaded, {report.duplicates:,} already there,"
            f" {report.bad_line_count:,} bad lines skipped; {seconds:.1f} s,"
            f" {report.loaded / max(seconds, 0.001):,.0f} rows/s"
        )
        for count, remark in (
            (report.without_timestamp, "no timestamp, and got the time of this load."),
            (report.with_replacements, "U+FFFD in place of NUL or half a surrogate pair."),
            (report.unrecognised, "no id or no timestamp: loading the same lines again would count them twice."),
        ):
            if count:
                rows = "1 row has" if count == 1 else f"{count:,} rows have"
                self.stderr.write(f"{rows} {remark}", style_func=str)


def find_source(name: str) -> LogSource:
    """Return the log source; raise CommandError with the existing names."""
    source = LogSource.objects.filter(name=name).first()
    if source is None:
        names = ", ".join(LogSource.objects.values_list("name", flat=True))
        raise CommandError(f"There is no log source {name!r}. The log sources are: {names or 'none yet'}.")
    return source


@contextmanager
def explained_load_errors(source: LogSource) -> Iterator[None]:
    """Turn an error that ends a load into one line for the operator, which also says that nothing was loaded."""
    nothing = f"Nothing was loaded into {source.name}."
    try:
        yield
    except LoadAborted as aborted:
        raise CommandError(f"{aborted}. {nothing}") from aborted
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise CommandError(f"The gzip data is damaged or cut short: {error}. {nothing}") from error
    except OSError as error:
        raise CommandError(f"{file_failure(error)}. {nothing}") from error
    except psycopg.Error as error:
        reason = error.diag.message_primary or str(error).partition("\n")[0]
        raise CommandError(f"The log database ended the load: {reason}. {nothing}") from error
    except ProjectMoved as error:
        raise CommandError(f"The log source was changed at this moment; load again. {nothing}") from error
    except KeyboardInterrupt:
        raise CommandError(f"Interrupted. {nothing}", returncode=INTERRUPTED_EXIT_CODE) from None


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        yield sys.stdin.buffer
    else:
        with open(name, "rb") as file:
            yield file


def _regular_size(file: BinaryIO) -> int | None:
    """Return the size in bytes of a file on disk, None for pipes and terminals."""
    try:
        status = os.fstat(file.fileno())
    except OSError:  # in memory: no file descriptor
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
