"""A whole installation for fault drills: its own PostgreSQL and Redis, web processes, a Celery worker and beat."""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from config.processes import last_lines
from tests.live.calls import Caller, until
from tests.live.processes import Console, Process, celery, children, web_server
from tests.live.servers import COUNTED, SETTINGS, Servers

ROWS = 3_000
DAYS = 7.0
WARM_RESULTS = 50  # argument sets a warm run renews at most
START_SECONDS = 40
SERVER_VARIABLES = ("DATABASE_URL", "LOGS_DATABASE_URL", "LOGS_GATE_URL", "LOGS_SUPERUSER_URL", "REDIS_URL")


class Installation:
    """Everything of one installation; use it as a context manager."""

    def __init__(
        self,
        *,
        rows: int = ROWS,
        days: float = DAYS,
        replicas: int = 0,
        server_settings: Mapping[str, str] = SETTINGS,
    ) -> None:
        self._rows, self._days, self._replicas, self._server_settings = rows, days, replicas, server_settings
        self._stack = ExitStack()
        self._secret_key = secrets.token_urlsafe(50)

    def __enter__(self) -> Installation:
        with ExitStack() as failed:
            failed.callback(self._stack.close)
            self._start()
            failed.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self) -> None:
        self.servers = Servers(self._server_settings, replicas=self._replicas)
        self._stack.callback(self.servers.close)
        self.console = Console(self.environment, self._log("console"))
        self._stack.callback(self.console.close)
        self.port = free_port()
        # While the databases are prepared it loads its code.
        self.web = self.start("web", *web_server(self.port, workers=2, threads=16))
        self._stack.callback(self.web.kill)
        self.console.do("prepare", rows=self._rows, days=self._days)
        self.servers.execute(COUNTED)
        self.secret: str = self.console.do("issue", name="drills", may_purge=True)
        self.wait_until_ready()

    # --- Processes ----------------------------------------------------------------------------------------------------
    @property
    def environment(self) -> dict[str, str]:
        """What every process of the service starts with: nothing of the test run's own servers and settings."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name not in SERVER_VARIABLES and not name.startswith(("ENDPOINTS_", "DJANGO_", "PG"))
        }
        return {
            **inherited,
            **self.servers.urls.environment(),
            "LOGS_SUPERUSER_URL": str(self.servers.urls.superuser_url),
            "ENDPOINTS_LOCAL_DIR": str(self.servers.root),
            "ENDPOINTS_WARM_RESULTS": str(WARM_RESULTS),
            "SECRET_KEY": self._secret_key,
            "DEBUG": "false",
            "HTTPS_ONLY": "false",
            "ALLOWED_HOSTS": "127.0.0.1",
            "PYTHONWARNINGS": "ignore:You're running the worker with superuser privileges",
        }

    def start(self, name: str, *arguments: str, **settings: str) -> Process:
        return Process(arguments, {**self.environment, **settings}, self._log(name))

    def _log(self, name: str) -> Path:
        return self.servers.root / f"{name}.log"

    def wait_until_ready(self) -> None:
        wait_until_ready(self.web, self.port)

    @contextmanager
    def another_web(self, *, workers: int = 1, threads: int = 8, **settings: str) -> Iterator[tuple[Process, int]]:
        """One more web server of this installation; yield its process and its port."""
        port = free_port()
        process = self.start(f"web-{port}", *web_server(port, workers=workers, threads=threads), **settings)
        try:
            wait_until_ready(process, port)
            yield process, port
        finally:
            process.kill()

    @contextmanager
    def worker(self, **settings: str) -> Iterator[Process]:
        """A Celery worker of two processes that takes tasks."""
        process = self.start(f"worker-{free_port()}", *celery("worker", "-c", "2", "--loglevel", "INFO"), **settings)
        try:
            until(lambda: b" ready." in process.log.read_bytes(), seconds=START_SECONDS)
            yield process
        finally:
            process.kill()

    @contextmanager
    def beat(self) -> Iterator[Process]:
        scheduler = ["--max-interval", "1"]
        process = self.start("beat", *celery("beat", *scheduler, "--pidfile="))
        try:
            yield process
        finally:
            process.kill()

    # --- Callers and operator -----------------------------------------------------------------------------------------
    def caller(self, *, port: int | None = None, secret: str | None = None) -> Caller:
        return Caller(self.port if port is None else port, self.secret if secret is None else secret)

    def server_states(self, *, port: int | None = None) -> list[str]:
        """Return the state of each server of the log database, as a web process sees it; none if there is one."""
        with self.caller(port=port) as caller:
            servers = json.loads(caller.request("GET", "/readyz").body).get("log_servers", [])
        return [server["state"] for server in servers]

    def save(self, name: str, sql: str, *, parameters: Mapping[str, str] | None = None, **settings: Any) -> int:
        """Save an endpoint and return its version; every parameter is required."""
        version: int = self.console.do(
            "save", name=name, parameters=parameters or {}, settings={"sql": sql, **settings}
        )
        return version

    def connections_per_worker(self) -> Counter[int]:
        """Return how many callers' connections each web process holds at the moment."""
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        # proc(5): address and port in hexadecimal, 01 = established; the tenth field names the socket.
        ours = {f"socket:[{line[9]}]" for line in lines if line[1].endswith(f":{self.port:04X}") and line[3] == "01"}
        found: Counter[int] = Counter()
        for worker in children(self.web.id):
            for descriptor in Path(f"/proc/{worker}/fd").iterdir():
                with suppress(OSError):
                    found[worker] += str(descriptor.readlink()) in ours
        return +found


def wait_until_ready(web: Process, port: int) -> None:
    """Wait until /readyz says so; what the web server wrote last is shown when it does not."""
    deadline = time.monotonic() + START_SECONDS
    while not _is_ready(port):
        assert web.is_running, last_lines(web.log)
        assert time.monotonic() < deadline, last_lines(web.log)
        time.sleep(0.05)


def _is_ready(port: int) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=3) as answer:
        return bool(answer.status == 200)
    return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
