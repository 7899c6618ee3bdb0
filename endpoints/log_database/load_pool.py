"""The load pool: this process's connections of the log database's owner, which store batches of rows.

Like the gate pool, it gives up on a server that hangs. It also bounds how many loads a process has in hand: as many as
it has connections are expanded, read and stored; the same number wait with their bodies as sent; any more are sent away
at once, before their bodies are read. So loads never take all threads or all memory of a web process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.conf import settings

from endpoints.errors import Overloaded
from endpoints.log_database.gate import GateConnection, GatePool
from logsources.databases import owner_parameters


class LoadPool(GatePool):
    """Connections of the owner, in autocommit and allowed to write."""

    def __init__(self, conninfo: dict[str, Any], *, size: int, wait_seconds: float) -> None:
        super().__init__(conninfo, size=size, wait_seconds=wait_seconds)
        self._in_hand = threading.BoundedSemaphore(2 * size)
        self._worked_on = threading.BoundedSemaphore(size)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Count a load that is being received, waiting or in work. Raises Overloaded at once if there are too many."""
        if not self._in_hand.acquire(blocking=False):
            raise Overloaded
        try:
            yield
        finally:
            self._in_hand.release()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Count a load in work. Raises Overloaded if the wait for its turn is too long."""
        if not self._worked_on.acquire(timeout=self._wait_seconds):
            raise Overloaded
        try:
            yield
        finally:
            self._worked_on.release()

    def _configure(self, connection: GateConnection) -> None:
        super()._configure(connection)
        connection.cursor_factory = psycopg.Cursor
        connection.execute("SET TIME ZONE 'UTC'")


_pool: LoadPool | None = None
_pool_lock = threading.Lock()


def load_pool() -> LoadPool:
    """Return this process's pool, made on first use (after a server has forked its workers)."""
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = LoadPool(
                owner_parameters(),
                size=settings.ENDPOINTS_LOAD_CONCURRENCY,
                wait_seconds=settings.ENDPOINTS_POOL_WAIT_SECONDS,
            )
        return _pool


def close_load_pool() -> None:
    """Close this process's pool; the next load opens a new one."""
    global _pool
    with _pool_lock:
        if _pool is not None:
            _pool.close()
            _pool = None
