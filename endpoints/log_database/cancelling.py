"""Ends a statement that nobody waits for: the thread that waits for its rows sends PostgreSQL the cancel request.

PostgreSQL manual, "Canceling Requests in Progress": it needs no right in the log database. The request is sent, and
PostgreSQL has acted on it, before the thread reads on; so it cannot hit a later statement on this connection, unless
something was in doubt: then the connection is closed.

What no signal stops (a computation that PostgreSQL cannot interrupt, a stopped process) runs on after its connection
was closed here. What its call held is then given back when PostgreSQL has closed the connection too.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from time import monotonic
from typing import Any, Final

import psycopg
import structlog

from config.deadlines import BoundedConnection
from endpoints.cache.running_calls import RunningCall
from endpoints.errors import CallEnded

LOOK_SECONDS: Final = 0.05  # psycopg wakes a wait every 0.1 s; while rows arrive it does so far more often
REQUEST_SECONDS: Final = 2.0
# A request that met the server between two statements has no effect, so it is sent again until the statement is over.
AGAIN_SECONDS: Final = 1.0
STOPPED_SECONDS: Final = 0.05  # a look whether PostgreSQL has stopped

logger = structlog.get_logger(__name__)


class CancellableConnection(BoundedConnection[tuple[Any, ...]]):
    """A connection whose statement can be cancelled for the call that it runs for."""

    ended_as: CallEnded | None = None  # why a cancel request was sent for the statement
    requests = 0

    def end_statement(self, reason: CallEnded) -> None:
        """Ask PostgreSQL to cancel the statement that this thread waits for; never raises."""
        self.ended_as = reason
        self.requests += 1
        try:
            self.cancel_safe(timeout=REQUEST_SECONDS)
        except psycopg.Error as error:
            self.requests += 1  # perhaps it arrives later: in doubt
            logger.warning("statement_not_cancelled", reason=f"{type(error).__name__}: {error}")

    def take_reason(self) -> CallEnded | None:
        """Return why the statement was cancelled, None if it was not, after PostgreSQL has said that it is cancelled.

        If exactly one request was sent, the connection is as good as before.
        """
        reason = self.ended_as
        if self.requests == 1:
            self.ended_as, self.requests = None, 0
        return reason


class Interest:
    """Looks, during one wait of a connection, whether anybody wants the result of the call that waits."""

    __slots__ = ("_call", "_connection", "_look_at")

    def __init__(self, connection: CancellableConnection, call: RunningCall) -> None:
        self._connection = connection
        self._call = call
        self._look_at = float("-inf")

    def look(self) -> None:
        """Cancel the statement if nobody does; its failure then ends the wait. Looks a few times a second."""
        now = monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        try:
            self._call.end_if_unwanted()
        except CallEnded as reason:
            self._look_at = now + AGAIN_SECONDS
            self._connection.end_statement(reason)


# --- What is left running ---------------------------------------------------------------------------------------------
class LeftStatement:
    """The end of a connection that is closed here while PostgreSQL still runs a statement on it."""

    def __init__(self, connection: CancellableConnection) -> None:
        self._reading = threading.Lock()
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        self._socket.settimeout(STOPPED_SECONDS)
        with suppress(OSError):
            # PostgreSQL reads this after its statement, and then ends the connection.
            self._socket.shutdown(socket.SHUT_WR)

    def is_over(self) -> bool:
        """Tell whether PostgreSQL has ended it, after a moment; drop what it still sends, for which it would wait."""
        with self._reading:
            try:
                if self._socket.recv(65_536):
                    return False
            except TimeoutError:
                return False
            except OSError:  # the server is gone, or this was told before
                pass
            self._socket.close()
            return True


# What the calls of this thread have left running, for the `held_until_stopped` around them.
LEFT: Final[ContextVar[list[LeftStatement] | None]] = ContextVar("left_statements", default=None)


@contextmanager
def held_until_stopped() -> Iterator[ExitStack]:
    """Close the stack once the block is over and PostgreSQL has stopped every statement that was begun inside.

    A block that ends in another thread begins in a context of its own.
    """
    outer = LEFT.get()
    left: list[LeftStatement] = [] if outer is None else outer
    LEFT.set(left)
    held = ExitStack()
    try:
        yield held
    finally:
        if LEFT.get() is left:  # in another thread it is that of another call
            LEFT.set(outer)
        if not _close_when_over(left, held, within=STOPPED_SECONDS):
            waiting = threading.Thread(target=_close_when_over, args=(left.copy(), held), daemon=True)
            try:
                waiting.start()
            except RuntimeError:  # no thread is available, so this one waits
                _close_when_over(left, held)


def _close_when_over(left: Sequence[LeftStatement], held: ExitStack, *, within: float = float("inf")) -> bool:
    """Close the stack if all is over within these seconds; return whether it is."""
    deadline = monotonic() + within
    while not all(statement.is_over() for statement in left):
        if monotonic() >= deadline:
            return False
    held.close()
    return True
