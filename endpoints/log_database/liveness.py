"""Tells whether the log database still answers anybody: asked while a statement waits, before it is given up.

A slow statement and a server that hangs look the same to the waiting connection. So a second, small question goes out
on a connection of its own, and all who wait in this process share its answer.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import Any, Final

import psycopg

from config.deadlines import BoundedConnection, answer_within

# A verdict serves everybody who asks meanwhile. "Alive" is soon out of date: the server may stop right after it.
ALIVE_FOR: Final = 0.2  # seconds
DEAD_FOR: Final = 0.5  # seconds in which calls are refused at once, before the next question
PROBE_SECONDS: Final = 0.8
# A firewall may have forgotten a connection that was idle for longer, and then swallows the question.
KEPT_IDLE_SECONDS: Final = 30.0


class Liveness:
    """The last known verdict about one server, and the connection that asks it."""

    def __init__(self, conninfo: dict[str, Any]) -> None:
        self._conninfo = conninfo
        self._asking = threading.Lock()
        self._connection: BoundedConnection[Any] | None = None
        self._is_alive = True
        self._judged_at = float("-inf")

    def answers(self, *, within: float = PROBE_SECONDS) -> bool:
        """Tell whether the server answers within these seconds, from a fresh verdict or by asking now."""
        asked_at = monotonic()
        if self._is_fresh(asked_at):
            return self._is_alive
        if not self._asking.acquire(timeout=within):
            return self._is_alive and self._is_fresh(
                monotonic()
            )  # the thread that is asking has had no answer for as long
        try:
            if not self._is_fresh(monotonic()):
                self._judge(self._probe(asked_at + within - monotonic()))
            return self._is_alive
        finally:
            self._asking.release()

    def is_known_dead(self) -> bool:
        """Tell whether the server was found dead a moment ago, without asking it."""
        return not self._is_alive and self._is_fresh(monotonic())

    def refuses(self) -> bool:
        """Tell whether a new call should fail at once: the server was found dead, and nobody has seen it alive since.

        One call at a time asks again, each DEAD_FOR seconds.
        """
        if self._is_alive:
            return False
        if self._is_fresh(monotonic()) or not self._asking.acquire(blocking=False):
            return True
        try:
            self._judge(self._probe(PROBE_SECONDS))
            return not self._is_alive
        finally:
            self._asking.release()

    def close(self) -> None:
        with self._asking:
            self._drop_connection()

    def _is_fresh(self, now: float) -> bool:
        return now - self._judged_at < (ALIVE_FOR if self._is_alive else DEAD_FOR)

    def _judge(self, is_alive: bool) -> None:
        self._is_alive = is_alive
        self._judged_at = monotonic()

    def _probe(self, seconds: float) -> bool:
        if monotonic() - self._judged_at > KEPT_IDLE_SECONDS:
            self._drop_connection()
        with answer_within(seconds):
            return self._asked_on_kept_connection() or self._connected_anew(seconds)

    def _asked_on_kept_connection(self) -> bool:
        if self._connection is None:
            return False
        try:
            self._connection.execute("SELECT 1")
        except psycopg.Error:
            self._drop_connection()
            return False
        return True

    def _connected_anew(self, seconds: float) -> bool:
        """Connect; a server that refuses the login, for example because it is full, is alive too."""
        with answer_within(seconds) as deadline:
            try:
                self._connection = BoundedConnection.connect(**self._conninfo, autocommit=True)
            except psycopg.Error:
                return deadline.server_answered
        return True

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
