"""The PostgreSQL, its standbys and Redis of an installation: killed, stopped, refusing, full, and in order again."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psycopg
import redis

from config import embedded
from config.embedded.postgres_server import PostgresServer
from tests.live.processes import frozen, kill, redis_process
from tests.live.replicated import Replicated, frozen_server, server_processes, value

# Nothing that was committed may be lost by a kill, so unlike elsewhere in the suite commits are synchronous.
SETTINGS = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "32MB"}

# What a stored query calls to be counted. LOG goes to the server's log at once, whatever becomes of the transaction
# and of the server; the reader itself may write nothing.
# The gate's sessions leave nothing in PostgreSQL's log; this function of the superuser does.
COUNTED = """
CREATE FUNCTION logs.counted(label text, seconds float8, fails bool DEFAULT false) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog SET log_min_messages = log AS $$
BEGIN
    RAISE LOG 'counted <%>', label;
    PERFORM pg_sleep(seconds);
    IF fails THEN RAISE EXCEPTION 'it fails as told'; END IF;
    RETURN label;
END $$;
REVOKE ALL ON FUNCTION logs.counted FROM PUBLIC;
GRANT EXECUTE ON FUNCTION logs.counted TO query_reader
"""
_COUNTED_LINE = re.compile(rb"^(\S+ \S+) UTC .* LOG:  counted <(.*)>$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CountedStatement:
    """A statement that reached PostgreSQL: what it was called with, and when (unix seconds)."""

    label: str
    second: float


class Servers(Replicated):
    """The embedded servers of a new folder, which goes with them; the drills of a standby need `replicas`."""

    def __init__(self, settings: Mapping[str, str] = SETTINGS, *, replicas: int = 0) -> None:
        # Not pytest's folders: they are closed to other accounts, and root's servers run as another one.
        self.root = Path(tempfile.mkdtemp(prefix="endpoints-"))
        self.root.chmod(0o755)
        try:
            self.urls = embedded.ensure_running(self.root, settings=settings, replicas=replicas)
        except BaseException:
            self.close()
            raise
        self._replicas = replicas
        self._postgres = PostgresServer(self.root)
        super().__init__(self._postgres, str(self.urls.superuser_url))

    def close(self) -> None:
        embedded.stop(self.root)
        shutil.rmtree(self.root, ignore_errors=True)

    def start(self) -> None:
        """Start what is not running, and let every standby follow its primary again."""
        embedded.ensure_running(self.root, replicas=self._replicas)
        if self._replicas:
            self.start_standby()  # a promoted one runs, and follows nobody

    # --- PostgreSQL ---------------------------------------------------------------------------------------------------
    def execute(self, statement: str) -> None:
        """Execute a statement in the log database as the superuser."""
        with psycopg.connect(self.primary_url, autocommit=True) as connection:
            connection.execute(statement.encode())

    def value(self, query: str) -> object:
        """Return the first value of a query's first row, asked as the superuser."""
        return value(self.primary_url, query)

    @contextmanager
    def postgres_killed(self) -> Iterator[None]:
        """Kill the postmaster and every other process of it at once; start it anew at the end.

        Standbys are left alone: they find their primary again by themselves.
        """
        kill(server_processes(self._postgres))
        try:
            yield
        finally:
            embedded.ensure_running(self.root)

    @contextmanager
    def postgres_frozen(self) -> Iterator[None]:
        """Stop every process: sockets stay open and nobody answers."""
        with frozen_server(self._postgres):
            yield

    @contextmanager
    def postgres_refusing(self) -> Iterator[None]:
        """End every session of the service and let none of its logins in again."""
        logins = ("service_owner", "logs_gate", "logs_owner")
        try:
            for login in logins:
                self.execute(f"ALTER ROLE {login} NOLOGIN")
            self.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename <> 'postgres'")
            yield
        finally:
            for login in logins:
                self.execute(f"ALTER ROLE {login} LOGIN")

    # --- Statements that reached PostgreSQL ---------------------------------------------------------------------------
    def mark(self) -> int:
        """Return a point in the server's log, for `statements`."""
        return self._log.stat().st_size

    def statements(self, mark: int, *, label: str = "") -> list[CountedStatement]:
        """Return the counted statements since the mark, those whose label begins so."""
        with self._log.open("rb") as log:
            log.seek(mark)
            text = log.read()
        return [
            CountedStatement(label=found, second=datetime.fromisoformat(f"{match[1].decode()}+00:00").timestamp())
            for match in _COUNTED_LINE.finditer(text)
            if (found := match[2].decode()).startswith(label)
        ]

    @property
    def _log(self) -> Path:
        return self._postgres.log

    # --- Redis --------------------------------------------------------------------------------------------------------
    def redis(self) -> redis.Redis:
        return redis.Redis.from_url(str(self.urls.redis_url), socket_timeout=5)

    @contextmanager
    def redis_killed(self) -> Iterator[None]:
        """Kill the server; start it anew at the end, with what its append-only file holds."""
        kill([self._redis_process()])
        try:
            yield
        finally:
            embedded.ensure_running(self.root)

    @contextmanager
    def redis_frozen(self) -> Iterator[None]:
        with frozen([self._redis_process()]):
            yield

    @contextmanager
    def redis_full(self) -> Iterator[None]:
        """Let Redis refuse every write for want of memory."""
        with self.redis() as client:
            client.config_set("maxmemory-policy", "noeviction")
            client.config_set("maxmemory", "1")
            try:
                yield
            finally:
                client.config_set("maxmemory", "256mb")
                client.config_set("maxmemory-policy", "volatile-lru")

    @contextmanager
    def redis_emptied(self) -> Iterator[None]:
        """Remove everything Redis holds, its scripts too."""
        with self.redis() as client:
            client.flushall()
            client.script_flush()
        yield

    def _redis_process(self) -> int:
        process = redis_process(self.root)
        assert process is not None
        return process
