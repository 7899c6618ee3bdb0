"""Work that many callers need at the same moment: one does it, the others wait, all until the same deadline.

::

    tables = SharedWork("tables", read_tables, seconds=5)
    tables.result()         # read by this caller, or by somebody who has begun already

A lock around such work lets callers in one after the other: where the work hangs, each waits for all before it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from copy import copy
from time import monotonic
from typing import Final, Generic, TypeVar

import structlog
from django.db import connections

from endpoints.errors import DatabaseUnavailable

FAILURE_SECONDS: Final = 0.5  # in which a failure is everybody's, before the work is tried again

Value = TypeVar("Value")
logger = structlog.get_logger(__name__)


class _Attempt(Generic[Value]):
    """One go at the work; over once `done` is set, with a value or an error."""

    def __init__(self, seconds: float) -> None:
        self.wait_until = monotonic() + seconds
        self.done = threading.Event()
        self.failed_at: float | None = None
        self.error: BaseException | None = None
        self.value: Value | None = None

    @property
    def is_joinable(self) -> bool:
        """Whether who comes now gets what this attempt gets: it goes on, or has failed a moment ago."""
        if not self.done.is_set():
            return True
        return self.failed_at is not None and monotonic() - self.failed_at < FAILURE_SECONDS


class SharedWork(Generic[Value]):
    """Work on a database that is done once for all who need it now; `work` bounds itself in time.

    `in_background` has a thread of its own do it, so that no caller waits for longer than `seconds`, not even the one
    who came first.
    """

    def __init__(self, name: str, work: Callable[[], Value], *, seconds: float, in_background: bool = False) -> None:
        self._name = name
        self._work = work
        self._seconds = seconds
        self._in_background = in_background
        self._lock = threading.Lock()
        self._attempt: _Attempt[Value] | None = None
        self._is_failing = False

    def result(self) -> Value:
        """Return what the work returns, begun now unless it is under way.

        Raises what the work raises, the same to all who wait and to who comes FAILURE_SECONDS later, and
        DatabaseUnavailable `seconds` after the work began.
        """
        attempt, is_own = self._join()
        if is_own and not (self._in_background and self._do_behind(attempt)):
            self._do(attempt)
        if not attempt.done.wait(max(0.0, attempt.wait_until - monotonic())):
            raise DatabaseUnavailable
        if attempt.error is None:
            return attempt.value  # type: ignore[return-value]  # a value is there, and may be None
        if is_own and not self._in_background:
            raise attempt.error
        raise copy(attempt.error) from attempt.error

    def begin(self) -> None:
        """Have it done behind this call, unless it is under way or has failed a moment ago. Never raises."""
        attempt, is_own = self._join()
        if is_own and not self._do_behind(attempt):
            self._fail(attempt, DatabaseUnavailable())
            attempt.done.set()

    def forget(self) -> None:
        """Have the next caller begin anew, even if the work has failed a moment ago."""
        with self._lock:
            self._attempt = None

    def _join(self) -> tuple[_Attempt[Value], bool]:
        """Return the attempt to wait for, and whether the caller has to see to it."""
        with self._lock:
            if self._attempt is not None and self._attempt.is_joinable:
                return self._attempt, False
            self._attempt = _Attempt(self._seconds)
            return self._attempt, True

    def _do_behind(self, attempt: _Attempt[Value]) -> bool:
        """Start a thread that does it; False where there is none to be had."""
        try:
            threading.Thread(target=self._do_and_leave, args=(attempt,), name=self._name, daemon=True).start()
        except RuntimeError as error:
            logger.warning("no_thread", work=self._name, reason=str(error))
            return False
        return True

    def _do_and_leave(self, attempt: _Attempt[Value]) -> None:
        try:
            self._do(attempt)
        finally:
            connections.close_all()  # those of this thread, which ends here

    def _do(self, attempt: _Attempt[Value]) -> None:
        try:
            attempt.value = self._work()
        except Exception as error:  # noqa: BLE001 - raised again by everybody who waits for it
            self._fail(attempt, error)
        except BaseException:  # the thread is being ended, which says nothing about the work
            self._fail(attempt, DatabaseUnavailable())
            raise
        else:
            self._is_failing = False
        finally:
            attempt.done.set()

    def _fail(self, attempt: _Attempt[Value], error: BaseException) -> None:
        attempt.error = error
        attempt.failed_at = monotonic()
        if not self._is_failing:  # once an outage
            logger.warning("shared_work_failed", work=self._name, reason=f"{type(error).__name__}: {error}")
        self._is_failing = True
