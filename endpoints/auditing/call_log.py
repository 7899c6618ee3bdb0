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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import count
from multiprocessing import util
from time import time
from typing import Any, Final

import orjson
import psycopg
import structlog
from django.conf import settings
from django.db import Error, InterfaceError, OperationalError, connection, transaction

from config.deadlines import answer_within
from endpoints.auditing import call_queue
from endpoints.auditing.call_partitions import make_partitions
from endpoints.auditing.call_queue import VALUE_CHARACTERS, CountedRefusals, NotedCall, as_text
from endpoints.cache.connection import CacheUnavailable, ask_for, ask_for_all
from endpoints.cache.usage.flushing import FLUSHER, Flusher
from endpoints.cache.usage.recent_calls import BUCKETS, RecentCall, bucket_of
from endpoints.definition import Version
from endpoints.results.redaction import redact_text

FLUSH_SECONDS: Final = 3.0
WRITE_SECONDS: Final = 10.0  # of one batch; then the database counts as away
SAMPLE: Final = 10  # beyond half of a day's rows, one answered call in so many has a row
FAILED_CLASS: Final = 400
_COUNTS: Final = "lqe:audit"  # in Redis, for /metrics: recorded, sampled_out, dropped

_COLUMNS: Final = (
    "at", "request_id", "kind", "endpoint_id", "endpoint", "version", "caller", "prefix", "argument_names",
    "argument_values", "cache", "status", "error_code", "result_rows", "milliseconds", "calls",
)  # fmt: skip
_COPY: Final = f"COPY endpoints_call ({', '.join(_COLUMNS)}) FROM STDIN"
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
_OF_LOG_SOURCES: Final = frozenset(("explorer", "load"))
NO_ENDPOINT: Final = "00000000-0000-0000-0000-000000000000"

_sampled: Final = count()  # answered calls beyond half of a day's rows

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A call, or several refused ones with one reason, as the audit log has it."""

    call: RecentCall
    endpoint: Version | None
    request_id: str
    kind: str
    names: list[str]
    values: dict[str, str] | None
    calls: int = 1

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.call.at, UTC)

    def row(self) -> tuple[Any, ...]:
        call, endpoint = self.call, self.endpoint
        return (
            self.at, self.request_id, self.kind,
            None if endpoint is None else endpoint.pk, "" if endpoint is None else endpoint.name, call.version,
            call.access_token, call.access_token_prefix, self.names,
            None if self.values is None else orjson.dumps(self.values).decode(),
            call.cache, call.status, call.error_code, call.rows, call.milliseconds, self.calls,
        )  # fmt: skip


@dataclass(slots=True)
class _Sum:
    """The calls of a minute or an hour with one endpoint and access token."""

    calls: int = 0
    refused: int = 0
    failed: int = 0
    cached: int = 0
    durations: list[int] = field(default_factory=lambda: [0] * BUCKETS)

    def add(self, entry: _Entry) -> None:
        self.calls += entry.calls
        if entry.call.status >= 500:
            self.failed += entry.calls
        elif entry.call.status >= FAILED_CLASS:
            self.refused += entry.calls
            return
        elif entry.call.cache in ("hit", "stale"):
            self.cached += entry.calls
        self.durations[bucket_of(entry.call.milliseconds)] += entry.calls


# --- What a call becomes ----------------------------------------------------------------------------------------------
def _entry(noted: NotedCall) -> _Entry:
    call, endpoint, request_id, kind, arguments, is_redacted = noted
    if endpoint is None:
        if kind not in _OF_LOG_SOURCES:  # nothing is known of what was sent
            return _Entry(call, None, request_id, kind, [], None)
        source = {name: as_text(value) for name, value in arguments.items() if name == "source" and value}
        return _Entry(call, None, request_id, kind, sorted(arguments), source or None)
    # What is not declared is ignored by the call, and may be anything.
    names = sorted(parameter.name for parameter in endpoint.parameters if parameter.name in arguments)
    if not endpoint.record_argument_values:
        return _Entry(call, endpoint, request_id, kind, names, None)
    hide = redact_text if is_redacted or endpoint.redact_pii else str
    values = {name: _short(hide(as_text(arguments[name]))) for name in names}
    return _Entry(call, endpoint, request_id, kind, names, values)


def _short(text: str) -> str:
    return text if len(text) <= VALUE_CHARACTERS else f"{text[:VALUE_CHARACTERS]}…"


def _entry_of_refusals(counted: CountedRefusals) -> _Entry:
    return _Entry(counted.call, counted.endpoint, "", counted.kind, [], None, counted.calls)


# --- Writing ----------------------------------------------------------------------------------------------------------
class CallLog:
    """What waits in this process, and the writing of it."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget what waits: a forked child must not write its parent's calls again."""
        self._held: list[_Entry] = []
        self._is_failing = False
        self._is_over = False

    def flush(self) -> None:
        """Write what waits. If the database is away it stays, the newest LIMIT calls; never raises for that."""
        entries = [*self._held, *map(_entry, call_queue.take_calls())]
        entries += map(_entry_of_refusals, call_queue.take_refusals(now=time(), is_end=self._is_over))
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

    def _hold(self, entries: list[_Entry], dropped: int, error: Exception) -> None:
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


def _write_where_there_is_a_day(entries: Sequence[_Entry], *, dropped: int) -> int:
    """Write, and make the partitions first if one is missing. Returns how many calls got no row."""
    with answer_within(WRITE_SECONDS):
        try:
            return _write(entries, dropped=dropped)
        except psycopg.errors.CheckViolation:  # "no partition of relation … found for row"
            make_partitions({entry.at.date() for entry in entries})
            return _write(entries, dropped=dropped)


def _write(entries: Sequence[_Entry], *, dropped: int) -> int:
    left_out = 0
    by_day: dict[date, list[_Entry]] = {}
    for entry in entries:
        by_day.setdefault(entry.at.date(), []).append(entry)
    with transaction.atomic(), connection.cursor() as cursor:
        kept: list[_Entry] = []
        for day, of_day in sorted(by_day.items()):
            rows = _chosen(cursor, day, of_day)
            kept += rows
            left_out += len(of_day) - len(rows)
        if dropped:
            cursor.execute(_ADD_TO_DAY, [datetime.now(UTC).date(), 0, dropped])
        with cursor.copy(_COPY) as copy:
            for entry in kept:
                copy.write_row(entry.row())
        for period, seconds in (("minute", 60), ("hour", 3600)):
            cursor.executemany(_ADD.format(period=period), _sums(entries, seconds=seconds))
    return left_out


def _chosen(cursor: Any, day: date, entries: list[_Entry]) -> list[_Entry]:
    """Return those that get a row; the row of the day is locked meanwhile, so all processes keep one bound."""
    cursor.execute(_ADD_TO_DAY, [day, 0, 0])
    (before,) = cursor.fetchone()
    most = settings.ENDPOINTS_AUDIT_ROWS_A_DAY
    chosen: list[_Entry] = []
    for entry in entries:
        there = before + len(chosen)
        if there >= most:
            break
        if there < most // 2 or entry.call.status >= FAILED_CLASS or next(_sampled) % SAMPLE == 0:
            chosen.append(entry)
    cursor.execute(_ADD_TO_DAY, [day, len(chosen), len(entries) - len(chosen)])
    return chosen


def _sums(entries: Iterable[_Entry], *, seconds: int) -> list[list[Any]]:
    """Return the parameters of _ADD in one order, so that two processes never wait for each other."""
    sums: dict[tuple[int, str, str], _Sum] = {}
    for entry in entries:
        endpoint = NO_ENDPOINT if entry.endpoint is None else str(entry.endpoint.pk)
        key = (int(entry.call.at) // seconds * seconds, endpoint, entry.call.access_token_prefix)
        sums.setdefault(key, _Sum()).add(entry)
    return [
        [
            datetime.fromtimestamp(start, UTC),
            endpoint,
            prefix,
            one.calls,
            one.refused,
            one.failed,
            one.cached,
            one.durations,
        ]
        for (start, endpoint, prefix), one in sorted(sums.items())
    ]


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
