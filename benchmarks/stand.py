"""Everything a measurement runs against: the service, its servers with many rows, and the peers it is compared with."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from psycopg.conninfo import conninfo_to_dict

from endpoints.results.outcomes import Statement
from endpoints.sql.composition import compile_query, parse_planner_settings
from endpoints.sql.parameters import DeclaredParameter
from tests.live.calls import until
from tests.live.installation import Installation, free_port
from tests.live.processes import PROJECT, Process

WEB_WORKERS: Final = 2
WEB_THREADS: Final = 16
PEERS_PYTHON: Final = PROJECT / ".venv" / "peers" / "bin" / "python"
# What anybody would give PostgreSQL on such a machine; nothing that only a benchmark would set.
SERVER_SETTINGS: Final = {
    "shared_buffers": "256MB",
    "work_mem": "32MB",
    "maintenance_work_mem": "256MB",
    "max_wal_size": "8GB",
    "fsync": "off",
    "synchronous_commit": "off",
}
PROJECT_NAME: Final = "acme"
STAND_ROWS: Final = 60_000
STAND_DAYS: Final = 200  # and so many partitions of each log table


@dataclass(frozen=True, slots=True)
class Peer:
    """A server that does the same work another way."""

    url: str
    headers: Mapping[str, str]


class Stand:
    """A running installation and how to call it."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.url = f"http://127.0.0.1:{installation.port}"
        self.headers = {"X-API-KEY": installation.secret}

    def endpoint_url(self, name: str, arguments: str) -> str:
        return f"{self.url}/api/endpoints/query/{name}?{arguments}"

    def body(self, url: str) -> bytes:
        request = urllib.request.Request(url, headers=dict(self.headers))  # loopback
        with urllib.request.urlopen(request, timeout=60) as answer:
            return bytes(answer.read())

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds. Raises AssertionError after ten seconds."""
        until(condition, seconds=10)

    @property
    def superuser_url(self) -> str:
        """The log database, as its superuser."""
        return str(self.installation.servers.urls.superuser_url)

    @contextmanager
    def django_peer(self, statement: Statement, constant_body: bytes, *, tuned: bool = True) -> Iterator[Peer]:
        """A plain Django project on the same web server with as many workers and threads.

        `tuned`: with kept connections and prepared statements, which Django does not have by itself.
        """
        port = free_port()
        body = self.installation.servers.root / "constant-body"
        body.write_bytes(constant_body)
        arguments = ["granian", "--interface", "wsgi", "--port", str(port), "--workers", str(WEB_WORKERS)]
        arguments += ["--blocking-threads", str(WEB_THREADS)]
        process = Process(
            [*arguments, "benchmarks.peers.django_views:application"],
            {
                **os.environ,
                **self._peer_environment(_for_djangos_cursor(statement)),
                "PEER_BODY": str(body),
                "PEER_TUNED": str(int(tuned)),
            },
            self.installation.servers.root / f"django-peer-{port}.log",
        )
        with _running(process, f"http://127.0.0.1:{port}") as peer:
            yield peer

    @contextmanager
    def fastapi_peer(self, statement: Statement) -> Iterator[Peer]:
        """FastAPI under uvicorn with uvloop and httptools, as many workers."""
        port = free_port()
        command = [str(PEERS_PYTHON), "-m", "uvicorn", "benchmarks.peers.fastapi_app:app", "--port", str(port)]
        command += ["--workers", str(WEB_WORKERS), "--loop", "uvloop", "--http", "httptools", "--no-access-log"]
        environment = {
            **os.environ,
            **self._peer_environment(statement),
            "REDIS_URL": str(self.installation.servers.urls.redis_url),
            "PEER_TOKEN_HASH": hashlib.sha256(self.installation.secret.encode()).hexdigest(),
        }
        log = (self.installation.servers.root / "fastapi-peer.log").open("wb")
        process = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=log, stderr=subprocess.STDOUT)
        log.close()
        try:
            url = f"http://127.0.0.1:{port}"
            until(lambda: _listens(url), seconds=30)
            yield Peer(url, self.headers)
        finally:
            process.terminate()
            process.wait()

    def _peer_environment(self, statement: Statement) -> dict[str, str]:
        # The log database's superuser: neither row security nor a role switch for the peers.
        url = self.superuser_url
        parts = conninfo_to_dict(url)
        return {
            "PEER_DATABASE_URL": url,
            "PGHOST": str(parts["host"]),
            "PGPORT": str(parts.get("port", 5432)),
            "PGUSER": str(parts["user"]),
            "PGPASSWORD": str(parts["password"]),
            "PGDATABASE": str(parts["dbname"]),
            "PEER_STATEMENT": statement.sql,
            "PEER_ARGUMENTS": json.dumps(list(statement.arguments)),
            "PYTHONPATH": str(PROJECT),
        }


def stored_statement(name: str, arguments: Mapping[str, str | None]) -> Statement:
    """Return what the service sends to PostgreSQL for a shipped endpoint and these arguments."""
    shipped = _shipped(name)
    parameters = [DeclaredParameter.from_json(parameter) for parameter in shipped["parameters"]]
    sql = (PROJECT / "fixtures" / shipped["sql_file"]).read_text()
    return compile_query(sql, parameters, max_rows=shipped["max_rows"]).statement(arguments)


def planner_settings(name: str) -> Mapping[str, str]:
    """Return the planner settings of a shipped endpoint."""
    return parse_planner_settings(_shipped(name)["planner_settings"])


def _shipped(name: str) -> dict[str, Any]:
    endpoints: list[dict[str, Any]] = json.loads((PROJECT / "fixtures/endpoints.json").read_text())
    return next(each for each in endpoints if each["name"] == name)


def window(days: float) -> tuple[str, str]:
    """Return the last days up to now, as the service's timestamps."""
    now = datetime.now(UTC)
    return (now - timedelta(days=days)).isoformat(), now.isoformat()


@contextmanager
def _running(process: Process, url: str) -> Iterator[Peer]:
    try:
        until(lambda: _listens(url), seconds=30)
        yield Peer(url, {})
    finally:
        process.kill()


def _listens(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=2).close()
    except urllib.error.HTTPError:
        return True  # 404 is an answer
    except OSError:
        return False
    return True


def _for_djangos_cursor(statement: Statement) -> Statement:
    """Return the statement with %(name)s in place of $1: Django's cursor knows no numbers."""
    return Statement(re.sub(r"\$(\d+)", r"%(argument_\1)s", statement.sql.replace("%", "%%")), statement.arguments)
