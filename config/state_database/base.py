"""Django's PostgreSQL backend over connections that keep the deadline of `config.deadlines.answer_within`.

Outside such a deadline it does the same as Django's own, with two exceptions: a health check takes at most a second,
and a dead connection is replaced at its next use, not only by the next request.
"""

from __future__ import annotations

from typing import Any, Final

from django.db.backends.postgresql import base
from django.db.backends.postgresql.psycopg_any import IsolationLevel
from django.utils.asyncio import async_unsafe
from psycopg import Connection

from config.deadlines import BoundedConnection, answer_within

HEALTH_CHECK_SECONDS: Final = 1.0  # for a SELECT 1; not part of the request's own deadline


class DatabaseWrapper(base.DatabaseWrapper):
    """One thread's connection to Django's own database."""

    @async_unsafe
    def get_new_connection(self, conn_params: dict[str, Any]) -> Connection[Any]:
        # Django's own calls psycopg.connect(), which takes no class; pools and isolation levels are not used.
        self.isolation_level = IsolationLevel.READ_COMMITTED
        return BoundedConnection.connect(**conn_params)

    @async_unsafe
    def ensure_connection(self) -> None:
        if self.connection is not None and self.connection.closed and not self.in_atomic_block:
            self.close()
        super().ensure_connection()

    def is_usable(self) -> bool:
        with answer_within(HEALTH_CHECK_SECONDS):
            return bool(super().is_usable())
