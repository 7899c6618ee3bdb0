"""Loads rows: NDJSON lines -> checked rows -> COPY, all of them in one transaction or none.

Rows are copied straight into the log table while the next lines are read; a row that cannot be stored is reported like
any other bad line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any, Final

import psycopg
from django.conf import settings
from psycopg import Connection

from logsources import partitions, rolling
from logsources.databases import owner_connection
from logsources.models import LogSource
from logsources.ndjson import BadJSON, parse_line
from logsources.rolling import RolledSource
from logsources.rows import BadRow, ascending_ids, read_row
from logsources.storing import PreparedRow, ProjectMoved, RowStore, encode_row
from logsources.tables import TableShape, hold_table
from logsources.topology import read_topology

BATCH_ROWS: Final = 5_000
# A batch stays in memory until PostgreSQL has accepted it, and a line may have megabytes.
BATCH_BYTES: Final = 16 * 1024 * 1024
MAX_BAD_LINES_LISTED: Final = 100
PROGRESS_EVERY_LINES: Final = 500


class OnBadLine(StrEnum):
    """The effect of a bad line on the load: it is left out and reported, or nothing is loaded at all."""

    SKIP = "skip"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that was not loaded: its number, counted from 1, and why. The reason contains none of its values."""

    number: int
    reason: str


class LoadAborted(Exception):
    """A bad line ended the load; nothing of the load is in the table."""

    def __init__(self, bad_line: BadLine) -> None:
        self.bad_line = bad_line
        super().__init__(f"line {bad_line.number}: {bad_line.reason}")


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """The progress of a load: lines read, including blank ones, and the bad ones among them."""

    lines: int
    bad_lines: int


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The result of a load. `bad_lines` lists the first 100 of `bad_line_count`.

    `unrecognised` rows came without id or timestamp: the same lines again would be other rows. `without_timestamp` of
    them have the time of the load. In `with_replacements` rows U+FFFD stands for what text cannot hold.
    """

    loaded: int
    duplicates: int
    bad_line_count: int
    bad_lines: tuple[BadLine, ...]
    unrecognised: int = 0
    without_timestamp: int = 0
    with_replacements: int = 0


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """How a load ended: with how many new rows, or with which failure, such as bad_line."""

    source: str
    rows: int = 0
    failure: str = ""


_watchers: list[Callable[[LoadOutcome], None]] = []


def watch_loads(watcher: Callable[[LoadOutcome], None]) -> None:
    """Have `watcher` called after each load of `load_rows`, in its thread; it must not raise."""
    _watchers.append(watcher)


def load_rows(
    source: LogSource,
    lines: Iterable[bytes],
    *,
    on_bad_line: OnBadLine,
    batch_rows: int = BATCH_ROWS,
    progress: Callable[[LoadProgress], None] | None = None,
) -> LoadReport:
    """Load NDJSON lines into the source's table, commit, and return the result.

    All in one transaction: after any exception, including KeyboardInterrupt and the errors of `lines`, nothing is
    loaded. Rows whose id and timestamp their project already has in the table are left out. Blank lines are skipped.
    Partitions for the rows' days are created first, and stay. Raises LoadAborted, ProjectMoved, psycopg.Error.
    """
    outcome = LoadOutcome(source.name, failure="interrupted")
    try:
        report = _load_rows(source, lines, on_bad_line=on_bad_line, batch_rows=batch_rows, progress=progress)
        outcome = LoadOutcome(source.name, rows=report.loaded)
    except Exception as error:
        outcome = LoadOutcome(source.name, failure=_failure(error))
        raise
    finally:
        for watcher in _watchers:
            watcher(outcome)
    return report


def _failure(error: Exception) -> str:
    if isinstance(error, LoadAborted):
        return "bad_line"
    if isinstance(error, psycopg.Error):
        return "log_database_error"
    return "log_source_changed" if isinstance(error, ProjectMoved) else "unreadable_input"


def _load_rows(
    source: LogSource,
    lines: Iterable[bytes],
    *,
    on_bad_line: OnBadLine,
    batch_rows: int,
    progress: Callable[[LoadProgress], None] | None,
) -> LoadReport:
    rolled = RolledSource(TableShape(source.name, source.project_path or None), source.retention_days)
    intake = _Intake(lines, rolled.shape.project_path, source.default_project, on_bad_line, progress)
    with ExitStack() as stack:
        conn = stack.enter_context(owner_connection())
        days = _PreparedDays(stack.enter_context(owner_connection()), rolled)
        with conn.transaction():
            rows = _Held(iter(intake))  # before the table is locked: the first line may be long in coming
            conn.execute(hold_table(source.name, read_topology(conn)))
            store = RowStore(conn, rolled, intake.refuse)
            while rows.first is not None:
                days.prepare(rows.first.day)
                store.store(rows.take_batch(days, batch_rows))
    return LoadReport(
        store.loaded,
        store.duplicates,
        intake.bad_line_count,
        intake.listed_bad_lines(),
        intake.unrecognised,
        intake.without_timestamp,
        intake.with_replacements,
    )


@dataclass(slots=True)
class _Intake:
    """Reads lines into rows and keeps count of the bad ones."""

    lines: Iterable[bytes]
    project_path: str | None
    default_project: str
    on_bad_line: OnBadLine
    progress: Callable[[LoadProgress], None] | None
    bad_line_count: int = 0
    unrecognised: int = 0
    without_timestamp: int = 0
    with_replacements: int = 0
    _bad_lines: list[BadLine] = field(default_factory=list)

    def __iter__(self) -> Iterator[PreparedRow]:
        number, new_id, now = 0, ascending_ids(), datetime.now(UTC)
        for number, line in enumerate(self.lines, start=1):
            if number % PROGRESS_EVERY_LINES == 0:
                self._report_progress(number)
            if not line or line.isspace():
                continue
            try:
                raw = parse_line(line)
                now = max(now, datetime.now(UTC))  # the system's clock may be set back meanwhile
                row = read_row(
                    raw,
                    project_path=self.project_path,
                    now=now,
                    default_project=self.default_project,
                    new_id=new_id,
                    max_bytes=settings.ENDPOINTS_MAX_ROW_BYTES,
                )
            except (BadJSON, BadRow) as fault:
                self.refuse(number, fault.reason)
                continue
            self.without_timestamp += not row.has_own_time
            self.with_replacements += row.has_replacements
            if isinstance(raw, dict) and (raw.get("id") is None or not row.has_own_time):
                self.unrecognised += 1
            yield PreparedRow(number, row.timestamp.date(), encode_row(row))
        self._report_progress(number)

    def _report_progress(self, lines: int) -> None:
        if self.progress is not None:
            self.progress(LoadProgress(lines, self.bad_line_count))

    def refuse(self, number: int, reason: str) -> None:
        """Count a bad line; raises LoadAborted if one is too many."""
        bad_line = BadLine(number, reason)
        if self.on_bad_line is OnBadLine.ABORT:
            raise LoadAborted(bad_line)
        self.bad_line_count += 1
        if len(self._bad_lines) < MAX_BAD_LINES_LISTED:
            self._bad_lines.append(bad_line)

    def listed_bad_lines(self) -> tuple[BadLine, ...]:
        # PostgreSQL's refusals come later than the lines read meanwhile.
        return tuple(sorted(self._bad_lines, key=lambda bad_line: bad_line.number))


class _PreparedDays:
    """The days whose rows may be copied: each was offered a partition beforehand.

    Uses a connection of its own, so that the locks for creating a partition end at once and not with the load.
    """

    def __init__(self, conn: Connection[Any], source: RolledSource) -> None:
        self._conn = conn
        self._source = source
        self._with_partition = set(rolling.partition_days(conn, source.shape.name))
        self._prepared: set[date] = set()
        self._default_in_use = False

    def __contains__(self, day: date) -> bool:
        return day in self._prepared

    def prepare(self, day: date) -> None:
        if day not in self._prepared and day not in self._with_partition and not self._default_in_use:
            today = partitions.utc_day(datetime.now(UTC))
            self._with_partition.update(rolling.prepare_days(self._conn, self._source, days=[day], today=today))
            # This load will lock the default partition until it ends, and creating a partition would wait for that.
            self._default_in_use = day not in self._with_partition
        self._prepared.add(day)


class _Held:
    """The rows to come, with the next one in hand."""

    def __init__(self, rows: Iterator[PreparedRow]) -> None:
        self._rows = rows
        self.first = next(rows, None)

    def take_batch(self, days: _PreparedDays, batch_rows: int) -> Iterator[PreparedRow]:
        """Yield rows up to the size of a batch, or up to the first row of an unprepared day, which stays in hand."""
        taken_rows = taken_bytes = 0
        while self.first is not None and self.first.day in days:
            if taken_rows >= batch_rows or taken_bytes >= BATCH_BYTES:
                return
            taken_rows += 1
            taken_bytes += len(self.first.encoded)
            yield self.first
            self.first = next(self._rows, None)
