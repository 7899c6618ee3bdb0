"""Announces committed loads by NOTIFY, so that whoever waits for new rows need not ask for them again and again.

    channel log_rows_loaded, payload `edge_logs 0/3A2B1C8`    the log source, and a position of the log (pg_lsn)
                                                              at which its rows are visible

A transaction with a NOTIFY takes a lock of the whole server while it commits (PostgreSQL, "NOTIFY"), and loads would
queue for it. So a load is announced after its commit, on a connection of its own; the loads of a tenth of a second are
one announcement for each log source. An announcement that cannot be made is tried again; no load fails by it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from time import sleep
from typing import Any, Final, NamedTuple

import psycopg
import structlog
from psycopg import Connection, sql

from config.deadlines import answer_within
from logsources.databases import owner_connection
from logsources.topology import read_topology

CHANNEL: Final = "log_rows_loaded"
PAUSE_SECONDS: Final = 0.1  # after an announcement: what is loaded meanwhile is announced together
RETRY_SECONDS: Final = 1.0
ANSWER_SECONDS: Final = 5.0

logger = structlog.get_logger(__name__)


class Announcement(NamedTuple):
    """A load that was committed: its log source, and a position of the log that contains its rows, as text."""

    source: str
    position: str


def read_announcement(payload: str) -> Announcement | None:
    """Return the announcement in a payload; None for one that somebody else sent."""
    source, _, position = payload.partition(" ")
    return Announcement(source, position) if source and position else None


def announce(conn: Connection[Any], sources: Iterable[str]) -> None:
    """Announce loads that were committed before. `conn` is the owner's, in autocommit. Raises psycopg.Error."""
    # Without waiting for the disk: nobody reads an announcement after a crash.
    conn.execute("SET synchronous_commit = off")
    ((position,),) = conn.execute(read_topology(conn).position).fetchall()
    for source in sources:
        # The command, not pg_notify(): hardening takes the function from everybody.
        payload = sql.Literal(f"{source} {position}")
        conn.execute(sql.SQL("NOTIFY {}, {}").format(sql.Identifier(CHANNEL), payload))


class Announcer:
    """The announcements of one process: made by a thread of their own, which the first load starts."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sources: set[str] = set()
        self._thread: threading.Thread | None = None
        self._is_closing = False

    def note(self, source: str) -> None:
        """Note a committed load into the log source; never raises, and waits for nobody."""
        with self._changed:
            self._sources.add(source)
            self._changed.notify()
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._announce_for_ever, name="announcer", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # no thread is available: the next load tries again
                self._thread = None

    def close(self) -> None:
        """End the thread and its connection, once it has tried to announce what was noted; a later load begins anew."""
        with self._changed:
            thread, self._thread, self._is_closing = self._thread, None, True
            self._changed.notify()
        if thread is not None:
            thread.join()
        self._is_closing = False

    def _announce_for_ever(self) -> None:
        while not self._is_closing:
            try:
                with owner_connection() as conn:
                    while self._announce_next(conn):
                        sleep(PAUSE_SECONDS)
            except Exception as error:  # noqa: BLE001  # of any kind: without this thread nothing is announced any more
                logger.warning("loads_not_announced", reason=type(error).__name__)
                sleep(RETRY_SECONDS)

    def _announce_next(self, conn: Connection[Any]) -> bool:
        """Wait for loads and announce them; return False when there is nothing to do any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._sources or self._is_closing)
            sources = sorted(self._sources)
            self._sources.clear()
        try:
            with answer_within(ANSWER_SECONDS):
                if sources:
                    announce(conn, sources)
        except psycopg.Error:
            with self._changed:
                self._sources.update(sources)
            raise
        return not self._is_closing


ANNOUNCER = Announcer()


def _forget_announcer() -> None:
    """A forked child has none of its parent's threads."""
    ANNOUNCER.__init__()  # type: ignore[misc]  # the one that others have imported


os.register_at_fork(after_in_child=_forget_announcer)
