"""Tells whether a server of the log database still answers anybody: asked while a statement waits.

A slow statement and a server that hangs look the same to the waiting connection. So a second, small question goes out
on a connection of its own, and all who wait in this process share its answer: whether the server is alive, whether it
is a standby, and up to which position of the log it shows rows.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final

import psycopg

from config.deadlines import BoundedConnection, answer_within
from endpoints.results.positions import NO_POSITION, read_position, write_position
from logsources.roles import PRIVATE_SCHEMA

# A verdict serves everybody who asks meanwhile. "Alive" is soon out of date: the server may stop right after it.
ALIVE_FOR: Final = 0.2  # seconds
DEAD_FOR: Final = 0.5  # seconds in which calls are refused at once, before the next question
PROBE_SECONDS: Final = 0.8
# A firewall may have forgotten a connection that was idle for longer, and then swallows the question.
KEPT_IDLE_SECONDS: Final = 30.0
_ANY_POSITION: Final = write_position(NO_POSITION)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a server was like at a moment of the monotonic clock; `position` is None if it has not told."""

    at: float
    is_alive: bool
    is_standby: bool = False
    position: int | None = None


class Liveness:
    """The last verdict about a server, and the connection that asks it.

    With several `servers` (connection parameters) the first that takes the connection is meant.
    """

    def __init__(self, *servers: dict[str, Any]) -> None:
        self._servers: Sequence[dict[str, Any]] = servers
        self._asking = threading.Lock()
        self._connection: BoundedConnection[Any] | None = None
        self.verdict = Verdict(float("-inf"), is_alive=True)

    def answers(self, *, within: float = PROBE_SECONDS) -> bool:
        """Tell whether the server answers within these seconds, from a fresh verdict or by asking now."""
        asked_at = monotonic()
        if self._is_fresh(asked_at):
            return self.verdict.is_alive
        if not self._asking.acquire(timeout=within):
            # The thread that is asking has had no answer for as long.
            return self.verdict.is_alive and self._is_fresh(monotonic())
        try:
            if not self._is_fresh(monotonic()):
                self._probe(asked_at + within - monotonic())
            return self.verdict.is_alive
        finally:
            self._asking.release()

    def look(self) -> Verdict:
        """Ask now and return the verdict."""
        with self._asking:
            self._probe(PROBE_SECONDS)
        return self.verdict

    def is_known_dead(self) -> bool:
        """Tell whether the server was found dead a moment ago, without asking it."""
        return not self.verdict.is_alive and self._is_fresh(monotonic())

    def refuses(self) -> bool:
        """Tell whether a new call should fail at once: the server was found dead, and nobody has seen it alive since.

        One call at a time asks again, each DEAD_FOR seconds.
        """
        if self.verdict.is_alive:
            return False
        if self._is_fresh(monotonic()) or not self._asking.acquire(blocking=False):
            return True
        try:
            self._probe(PROBE_SECONDS)
            return not self.verdict.is_alive
        finally:
            self._asking.release()

    def close(self) -> None:
        with self._asking:
            self._drop_connection()

    def _is_fresh(self, now: float) -> bool:
        return now - self.verdict.at < (ALIVE_FOR if self.verdict.is_alive else DEAD_FOR)

    def _probe(self, seconds: float) -> None:
        """Ask for the verdict; only for the thread that holds `_asking`."""
        if monotonic() - self.verdict.at > KEPT_IDLE_SECONDS:
            self._drop_connection()
        with answer_within(seconds):
            self.verdict = self._asked_on_kept_connection() or self._connected_anew(seconds)

    def _asked_on_kept_connection(self) -> Verdict | None:
        """Return the verdict, None if there is no connection that works."""
        connection = self._connection
        if connection is None:
            return None
        try:
            row = connection.execute(f"SELECT {PRIVATE_SCHEMA}.log_position(%s)", (_ANY_POSITION,)).fetchone()
        except psycopg.OperationalError:
            self._drop_connection()
            return None
        except psycopg.Error:  # there is no such function before the migration, but a server that says so
            row = None
        is_standby = connection.info.parameter_status("in_hot_standby") == "on"
        return Verdict(monotonic(), True, is_standby, None if row is None else read_position(row[0]))

    def _connected_anew(self, seconds: float) -> Verdict:
        """Connect to the first server that takes the connection; each has an equal part of the time."""
        for server in self._servers:
            with answer_within(seconds / len(self._servers)) as deadline:
                try:
                    self._connection = BoundedConnection.connect(**server, autocommit=True)
                except psycopg.Error:
                    if len(self._servers) > 1:
                        continue
                    # A server that refuses the login, for example because it is full, is alive too.
                    return replace(self.verdict, at=monotonic(), is_alive=deadline.server_answered)
            return self._asked_on_kept_connection() or replace(self.verdict, at=monotonic(), is_alive=False)
        return replace(self.verdict, at=monotonic(), is_alive=False)

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
