"""Checks the passwords of the admin a few at a time: each check takes a core for half a second, on purpose.

If every place is taken, a login waits a little, and only a few may wait: a burst of logins never holds all threads of a
process, and the cores stay free for calls.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.contrib.auth.hashers import PBKDF2PasswordHasher

CHECKS_AT_ONCE: Final = 1  # per process; there are two by default
MOST_WAITING: Final = 2  # threads of a process; production.md gives a process 16
WAIT_SECONDS: Final = 2.0  # for one of the running checks to end


class PasswordsBusy(Exception):
    """Too many passwords are being checked; this one was not checked."""

    retry_after_seconds: Final = 2


class PasswordTurns:
    """Limits how many threads check a password at once and how many wait; a thread with a turn needs no second one."""

    def __init__(self, *, at_once: int, waiting: int, wait_seconds: float) -> None:
        self._checking = threading.BoundedSemaphore(at_once)
        self._places = threading.BoundedSemaphore(at_once + waiting)
        self._wait_seconds = wait_seconds
        self._of_thread = threading.local()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold a turn; raises PasswordsBusy at once if too many already wait, otherwise after the longest wait."""
        if getattr(self._of_thread, "has_turn", False):
            yield
            return
        if not self._places.acquire(blocking=False):
            raise PasswordsBusy
        try:
            if not self._checking.acquire(timeout=self._wait_seconds):
                raise PasswordsBusy
            self._of_thread.has_turn = True
            try:
                yield
            finally:
                self._of_thread.has_turn = False
                self._checking.release()
        finally:
            self._places.release()


PASSWORD_TURNS: Final = PasswordTurns(at_once=CHECKS_AT_ONCE, waiting=MOST_WAITING, wait_seconds=WAIT_SECONDS)


class BoundedPasswordHasher(PBKDF2PasswordHasher):
    """Django's own hasher, with the same hashes, limited by the process's turns. Raises PasswordsBusy."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        with PASSWORD_TURNS.turn():
            return super().encode(password, salt, iterations)
