"""The gate pool: this process's connections of the gate login, which reads nothing until it becomes a reader."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.conf import settings
from psycopg import Connection, RawCursor
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolTimeout

from endpoints.encoding import register_loaders
from endpoints.errors import DatabaseUnavailable, Overloaded

GateConnection = Connection[tuple[Any, ...]]


class GatePool:
    """Connections of the gate login, opened on first use, bounded in number and in the wait for one."""

    def __init__(self, conninfo: dict[str, Any], *, size: int, wait_seconds: float) -> None:
        self._size = size
        self._wait_seconds = wait_seconds
        self._in_use = 0
        self._lock = threading.Lock()
        self._pool: ConnectionPool[GateConnection] = ConnectionPool(
            kwargs={
                "connect_timeout": 3,
                "options": "-c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres -c bytea_output=hex"
                " -c default_transaction_read_only=on",
                **conninfo,
                "autocommit": True,
                "cursor_factory": RawCursor,
            },
            min_size=1,
            max_size=size,
            timeout=wait_seconds,
            max_idle=300,
            reconnect_timeout=5,
            configure=_configure,
            open=True,
            name="gate",
        )

    @contextmanager
    def connection(self) -> Iterator[GateConnection]:
        """Lend a connection; raises Overloaded when all stay busy, DatabaseUnavailable when none can be made."""
        try:
            connection = self._pool.getconn(timeout=self._wait_seconds)
        except PoolTimeout as error:
            raise (Overloaded() if self._in_use >= self._size else DatabaseUnavailable()) from error
        with self._lock:
            self._in_use += 1
        try:
            yield connection
        finally:
            with self._lock:
                self._in_use -= 1
            if connection.info.transaction_status != TransactionStatus.IDLE:
                connection.close()
            self._pool.putconn(connection)

    def discard_broken(self) -> None:
        """Replace idle connections that died with the server, so that a retry meets a live one."""
        self._pool.check()

    def close(self) -> None:
        self._pool.close()


def _configure(connection: GateConnection) -> None:
    """Prepare a new connection; a server that reads strings or encodes text otherwise is refused."""
    if connection.info.parameter_status("standard_conforming_strings") != "on":
        raise psycopg.OperationalError("the log database must have standard_conforming_strings = on")
    if connection.info.encoding != "utf-8":
        raise psycopg.OperationalError("the log database must talk UTF8")
    register_loaders(connection)
    connection.prepare_threshold = 1


_pool: GatePool | None = None
_pool_lock = threading.Lock()


def gate_pool() -> GatePool:
    """Return this process's pool, made on first use (after a server has forked its workers)."""
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = GatePool(
                settings.LOGS_GATE,
                size=settings.ENDPOINTS_POOL_SIZE,
                wait_seconds=settings.ENDPOINTS_POOL_WAIT_SECONDS,
            )
        return _pool


def close_gate_pool() -> None:
    """Close this process's pool; the next statement opens a new one."""
    global _pool
    with _pool_lock:
        if _pool is not None:
            _pool.close()
            _pool = None


def roll_back(connection: GateConnection) -> None:
    """End a failed transaction; a connection that can't even do that is closed and so never reused."""
    try:
        if connection.info.transaction_status != TransactionStatus.IDLE:
            connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()
