"""A PostgreSQL of its own for drills: frozen (every process stopped, sockets open), killed and started again."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db.utils import ConnectionHandler
from psycopg.conninfo import conninfo_to_dict

from config import embedded
from config.embedded.postgres_server import PostgresServer
from config.state_database.base import DatabaseWrapper
from tests.live.processes import children, is_running, postmaster

# As Django's settings have them, whose names of a connection's parts are not libpq's.
DJANGO_OPTIONS = ("ENGINE", "CONN_MAX_AGE", "CONN_HEALTH_CHECKS")
DJANGO_NAMES = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
LONGEST_FREEZE_SECONDS = 30
# What ends at a deadline of half a second, and else not within a minute, has ended by then on any machine.
MUCH_LATER_SECONDS = 20
# A kill must lose nothing that was committed, so unlike elsewhere in the suite commits are synchronous.
FAST = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "16MB"}


class DrillServer:
    """The embedded PostgreSQL of one folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.servers = embedded.ensure_running(root, redis=False, settings=FAST)

    def start(self) -> None:
        embedded.ensure_running(self._root, redis=False)

    def kill(self) -> None:
        for process in self._processes():
            _signal(process, signal.SIGKILL)
            _wait_until_gone(process)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop every process, the postmaster first so that no new one appears, and let them all go on at the end."""
        processes: list[int] = []
        try:
            for process in self._processes():
                processes.append(process)
                _signal(process, signal.SIGSTOP)
            processes += [process for process in self._processes() if process not in processes]
            for process in processes:
                _signal(process, signal.SIGSTOP)
            with _woken_at_last(processes):
                yield
        finally:
            for process in processes:
                _signal(process, signal.SIGCONT)

    @contextmanager
    def frozen_process(self, process: int) -> Iterator[None]:
        """Stop a single server process."""
        _signal(process, signal.SIGSTOP)
        try:
            with _woken_at_last([process]):
                yield
        finally:
            _signal(process, signal.SIGCONT)

    def execute(self, statement: str) -> None:
        assert self.servers.superuser_url is not None
        with psycopg.connect(self.servers.superuser_url, autocommit=True) as connection:
            connection.execute(statement.encode())

    def _processes(self) -> list[int]:
        first = postmaster(PostgresServer(self._root))
        return [] if first is None else [first, *children(first)]


@cache
def _drill_server() -> DrillServer:
    """Return the one server of this process, made at its first use and removed when the process ends."""
    # Not tmp_path: pytest closes its folders to other accounts, and root's servers run as another one.
    root = Path(tempfile.mkdtemp(prefix="endpoints-"))
    root.chmod(0o755)
    atexit.register(_remove, root)
    return DrillServer(root)


def _remove(root: Path) -> None:
    embedded.stop(root)
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def server() -> DrillServer:
    """The server, up and answering, whatever the test before has done to it."""
    server = _drill_server()
    server.start()
    return server


def django_connection(server: DrillServer) -> DatabaseWrapper:
    """Return a connection to the server's service database, made as Django makes its own; the caller closes it."""
    assert server.servers.database_url is not None
    options = {name: settings.DATABASES["default"][name] for name in DJANGO_OPTIONS}
    parts = conninfo_to_dict(server.servers.database_url)
    named = {DJANGO_NAMES[part]: str(value) for part, value in parts.items()}
    handler = ConnectionHandler({"default": {**options, **named, "OPTIONS": {"connect_timeout": 3}}})
    connection = handler["default"]
    assert isinstance(connection, DatabaseWrapper)
    return connection


def wait_for(call: Callable[[], Any], *, seconds: float) -> float:
    """Repeat a call until it succeeds and return after how long; the last failure is raised when the time is over."""
    started = time.monotonic()
    while True:
        try:
            call()
        except Exception:
            if time.monotonic() - started > seconds:
                raise
            time.sleep(0.1)
        else:
            return time.monotonic() - started


@contextmanager
def _woken_at_last(processes: list[int]) -> Iterator[None]:
    """Wake the processes after LONGEST_FREEZE_SECONDS even when this process is killed meanwhile, or hangs itself."""
    script = 'sleep "$1"; shift; kill -CONT "$@"'
    arguments = [str(number) for number in (LONGEST_FREEZE_SECONDS, *processes)]
    watch = subprocess.Popen(["/bin/sh", "-c", script, "sh", *arguments], start_new_session=True)
    try:
        yield
    finally:
        os.killpg(watch.pid, signal.SIGKILL)
        watch.wait()


def _signal(process: int, number: signal.Signals) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return


def _wait_until_gone(process: int) -> None:
    deadline = time.monotonic() + 10
    while is_running(process):
        assert time.monotonic() < deadline
        time.sleep(0.02)
