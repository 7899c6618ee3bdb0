"""Ends a statement that nobody waits for: the thread that waits for its rows sends PostgreSQL the cancel request.

PostgreSQL manual, "Canceling Requests in Progress": it needs no right in the log database. The request is sent, and
PostgreSQL has acted on it, before the thread reads on; so it cannot hit a later statement on this connection, unless
something was in doubt: then the connection is closed.
"""

from __future__ import annotations

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
