"""Writes the calls of this process to the audit log, a few seconds after them, in a thread of its own.

    endpoints_call          one row a call, by day; refused ones beyond a bound as one row with their number
    endpoints_call_minute   calls by minute, endpoint and access token: every call, also those without a row
    endpoints_call_hour     the same by hour, for as long as the rows are kept
    endpoints_call_day      how many rows a day has, and how many calls have none

A day has at most ENDPOINTS_AUDIT_ROWS_A_DAY rows. Once half of them are there, answered calls get one row in ten and
failed ones each their own; at the bound no call gets one. All of a batch is one transaction.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime
from itertools import count
from multiprocessing import util
from time import time
from typing import Any, Final

import psycopg
import structlog
from django.conf import settings
from django.db import Error, InterfaceError, OperationalError, connection, transaction

from config.deadlines import answer_within
from endpoints.auditing import call_queue
from endpoints.auditing.call_entries import COLUMNS, FAILED_CLASS, Entry, entry_of, entry_of_refusals, sums_of
from endpoints.auditing.call_partitions import make_partitions
from endpoints.cache.connection import CacheUnavailable, ask_for, ask_for_all
from endpoints.cache.usage.flushing import FLUSHER, Flusher

FLUSH_SECONDS: Final = 3.0
WRITE_SECONDS: Final = 10.0  # of one batch; then the database counts as away
SAMPLE: Final = 10  # beyond half of a day's rows, one answered call in so many has a row
_COUNTS: Final = "lqe:audit"  # in Redis, for /metrics: recorded, sampled_out, dropped

_COPY: Final = f"COPY endpoints_call ({', '.join(COLUMNS)}) FROM STDIN"
_ADD: Final = """
INSERT INTO endpoints_call_{period} AS kept
    (start, endpoint_id, prefix, calls, refused, failed, cached, durations)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (start, endpoint_id, prefix) DO UPDATE SET
    calls = kept.calls + excluded.calls, refused = kept.refused + excluded.refused,
    failed = kept.failed + excluded.failed, cached = kept.cached + excluded.cached,
    durations = ARRAY(
        SELECT each.before + each.now
        FROM unnest(kept.durations, excluded.durations) WITH ORDINALITY AS each(before, now, place) ORDER BY place
    )
"""
_ADD_TO_DAY: Final = """
INSERT INTO endpoints_call_day AS kept (day, kept_rows, left_out) VALUES (%s, %s, %s)
ON CONFLICT (day) DO UPDATE
SET kept_rows = kept.kept_rows + excluded.kept_rows, left_out = kept.left_out + excluded.left_out
RETURNING kept_rows
"""

_sampled: Final = count()  # answered calls beyond half of a day's rows

logger = structlog.get_logger(__name__)


# --- Writing ----------------------------------------------------------------------------------------------------------
class CallLog:
    """What waits in this process, and the writing of it."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget what waits: a forked child must not write its parent's calls again."""
        self._held: list[Entry] = []
        self._is_failing = False
        self._is_over = False

    def flush(self) -> None:
        """Write what waits. If the database is away it stays, the newest LIMIT calls; never raises for that."""
        entries = [*self._held, *map(entry_of, call_queue.take_calls())]
        entries += map(entry_of_refusals, call_queue.take_refusals(now=time(), is_end=self._is_over))
        self._held = []
        if not settings.ENDPOINTS_AUDIT_DAYS:
            call_queue.take_dropped()
            return
        if len(entries) > call_queue.LIMIT:
            call_queue.count_dropped(sum(each.calls for each in entries[: -call_queue.LIMIT]))
            entries = entries[-call_queue.LIMIT :]
        dropped = call_queue.take_dropped()
        if not entries and not dropped:
            return
        try:
            left_out = _write_where_there_is_a_day(entries, dropped=dropped)
        except (OperationalError, InterfaceError, psycopg.OperationalError) as error:
            self._hold(entries, dropped, error)
        except (Error, psycopg.Error) as error:
            # Tables that are missing, or a row that PostgreSQL does not take: it never will.
            logger.error("calls_not_recorded", calls=len(entries), reason=f"{type(error).__name__}: {error}")
            _count(dropped=dropped + sum(each.calls for each in entries))
        else:
            self._is_failing = False
            _count(recorded=len(entries) - left_out, sampled_out=left_out, dropped=dropped)

    def _hold(self, entries: list[Entry], dropped: int, error: Exception) -> None:
        self._held = entries
        call_queue.count_dropped(dropped)
        if not self._is_failing:
            logger.error("calls_not_recorded_yet", waiting=len(entries), reason=f"{type(error).__name__}: {error}")
        self._is_failing = True

    def wake(self) -> None:
        """Have the thread write if anything waits; called by the thread of the other notes, never by a call."""
        if call_queue.QUEUE or call_queue.has_refusals() or self._held:
            RECORDER.note()

    def write(self) -> None:
        """Do one round of the thread; another follows as long as anything waits."""
        self.flush()
        connection.close_if_unusable_or_obsolete()
        self.wake()

    def end(self) -> None:
        """Write everything at the end of the process."""
        self._is_over = True
        RECORDER.settle(seconds=WRITE_SECONDS)


def _write_where_there_is_a_day(entries: Sequence[Entry], *, dropped: int) -> int:
    """Write, and make the partitions first if one is missing. Returns how many calls got no row."""
    with answer_within(WRITE_SECONDS):
        try:
            return _write(entries, dropped=dropped)
        except psycopg.errors.CheckViolation:  # "no partition of relation … found for row"
            make_partitions({entry.at.date() for entry in entries})
            return _write(entries, dropped=dropped)


def _write(entries: Sequence[Entry], *, dropped: int) -> int:
    left_out = 0
    by_day: dict[date, list[Entry]] = {}
    for entry in entries:
        by_day.setdefault(entry.at.date(), []).append(entry)
    with transaction.atomic(), connection.cursor() as cursor:
        kept: list[Entry] = []
        for day, of_day in sorted(by_day.items()):
            rows = _chosen(cursor, day, of_day)
            kept += rows
            left_out += len(of_day) - len(rows)
        if dropped:
            cursor.execute(_ADD_TO_DAY, [datetime.now(UTC).date(), 0, dropped])
        with cursor.copy(_COPY) as copy:
            copy.write("".join(entry.copy_line() for entry in kept))
        sums = sums_of(entries)
        cursor.executemany(_ADD.format(period="minute"), sums.minutes)
        cursor.executemany(_ADD.format(period="hour"), sums.hours)
    return left_out


def _chosen(cursor: Any, day: date, entries: list[Entry]) -> list[Entry]:
    """Return those that get a row; the row of the day is locked meanwhile, so all processes keep one bound."""
    cursor.execute(_ADD_TO_DAY, [day, 0, 0])
    (before,) = cursor.fetchone()
    most = settings.ENDPOINTS_AUDIT_ROWS_A_DAY
    chosen: list[Entry] = []
    for entry in entries:
        there = before + len(chosen)
        if there >= most:
            break
        if there < most // 2 or entry.call.status >= FAILED_CLASS or next(_sampled) % SAMPLE == 0:
            chosen.append(entry)
    cursor.execute(_ADD_TO_DAY, [day, len(chosen), len(entries) - len(chosen)])
    return chosen


# --- Counts for /metrics ----------------------------------------------------------------------------------------------
def _count(**counts: int) -> None:
    added = Counter({name: count for name, count in counts.items() if count})
    try:
        ask_for_all([["HINCRBY", _COUNTS, name, count] for name, count in added.items()])
    except CacheUnavailable:
        logger.warning("audit_counts_lost", **added)


def audit_counts() -> dict[str, int]:
    """Return how many calls of all processes got a row, were sampled out and were dropped. Raises CacheUnavailable."""
    stored = {name.decode(): int(value) for name, value in ask_for("HGETALL", _COUNTS).items()}
    return {name: stored.get(name, 0) for name in ("recorded", "sampled_out", "dropped")}


CALL_LOG: Final = CallLog()
RECORDER: Final = Flusher(seconds=FLUSH_SECONDS)
RECORDER.writes(CALL_LOG.write)
FLUSHER.writes(CALL_LOG.wake)


def _after_fork() -> None:
    RECORDER.forget_thread()
    CALL_LOG.forget()
    call_queue.QUEUE.clear()


os.register_at_fork(after_in_child=_after_fork)


def write_at_end() -> None:
    """Have what waits written when this web process, a child of the web server's, has answered its last call."""
    util.Finalize(None, CALL_LOG.end, exitpriority=0)
