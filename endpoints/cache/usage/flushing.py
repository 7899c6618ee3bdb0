"""Writes the notes of calls, a second after them, in its own thread: no call waits for that or fails because of it.

FLUSHER.writes(flush)       once, by each module that keeps notes
FLUSHER.note()              there is something to write
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

import structlog

from endpoints.cache.connection import Part, ask_for_all

FLUSH_SECONDS: Final = 1.0
SETTLE_SECONDS: Final = 2.0  # a page that shows the notes waits no longer for the last second of them
COMMANDS_AT_ONCE: Final = 500  # so that Redis serves others in between
_RETRY_SECONDS: Final = 1.0

logger = structlog.get_logger(__name__)


class Flusher:
    """One thread, started with the first note, that lets every module write its notes."""

    def __init__(self, *, seconds: float = FLUSH_SECONDS) -> None:
        self._seconds = seconds
        self._writers: list[Callable[[], None]] = []
        self.forget_thread()

    def forget_thread(self) -> None:
        """Start again: a forked child has none of its parent's threads."""
        self._thread: threading.Thread | None = None
        self._is_noted = False
        self._has_notes = threading.Event()
        self._hurry = threading.Event()
        self._changed = threading.Condition()
        self._begun = self._done = 0  # rounds of writing
        self._retry_at = 0.0  # time.monotonic(), after no thread was available
        self._is_failing = False

    def writes(self, write: Callable[[], None]) -> None:
        """Have `write` called after notes; it should not raise."""
        self._writers.append(write)

    def note(self) -> None:
        """Have the notes written soon. Never raises and never waits."""
        if not self._is_noted and self._ensure_thread():
            self._is_noted = True
            self._has_notes.set()

    def settle(self, *, seconds: float = SETTLE_SECONDS) -> None:
        """Return when what was noted until now is written, at the latest after `seconds`. Never raises."""
        if not self._ensure_thread():
            return
        with self._changed:
            wanted = self._begun + 1
            self._hurry.set()
            self._has_notes.set()
            self._changed.wait_for(lambda: self._done >= wanted, timeout=seconds)

    def _ensure_thread(self) -> bool:
        if self._has_thread():
            return True
        with self._changed:
            if self._has_thread():  # another call was faster
                return True
            if monotonic() < self._retry_at:
                return False
            thread = threading.Thread(target=self._run, name="usage", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                self._retry_at = monotonic() + _RETRY_SECONDS
                self._log_once("usage_not_written", error)
                return False
            self._thread = thread
            return True

    def _has_thread(self) -> bool:
        return self._thread is not None

    def _run(self) -> None:
        while True:
            self._has_notes.wait()
            self._hurry.wait(self._seconds)
            with self._changed:
                self._begun += 1
                self._has_notes.clear()
                self._hurry.clear()
                self._is_noted = False  # later notes may come too late for this round
            for write in self._writers:
                self._write(write)
            with self._changed:
                self._done = self._begun
                self._changed.notify_all()

    def _write(self, write: Callable[[], None]) -> None:
        try:
            write()
        except Exception as error:  # noqa: BLE001 - the thread goes on for the others' notes
            self._log_once("usage_not_written", error)
        else:
            self._is_failing = False

    def _log_once(self, event: str, error: Exception) -> None:
        if not self._is_failing:
            logger.error(event, reason=f"{type(error).__name__}: {error}")
        self._is_failing = True


FLUSHER: Final = Flusher()
os.register_at_fork(after_in_child=FLUSHER.forget_thread)


def send(commands: Sequence[Sequence[Part]]) -> None:
    """Send commands to Redis, some at a time. Raises CacheUnavailable, and has then sent a part of them or none."""
    for start in range(0, len(commands), COMMANDS_AT_ONCE):
        ask_for_all(commands[start : start + COMMANDS_AT_ONCE])
