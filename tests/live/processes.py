"""The processes of an installation under test, each in a process group of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from config.embedded.postgres_server import PostgresServer
from tests.files import PROJECT
from tests.live.calls import until


class Process:
    """A Python program, its output in a log file."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                cwd=PROJECT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def id(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill its whole group at once, stopped members too."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class OperatorError(Exception):
    """What the operator wanted was refused or failed."""


class Console:
    """The operator's process, see `tests/live/console.py`."""

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self._turn = threading.Lock()
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.live.console"],
                cwd=PROJECT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                text=True,
            )

    def do(self, command: str, **options: Any) -> Any:
        """Do it and return its result once it has returned there. Raises OperatorError with what it raised."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._turn:
            self._process.stdin.write(json.dumps({"do": command, "with": options}) + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline() or '{"error": "the console is gone, see its log"}')
        if "error" in answer:
            raise OperatorError(answer["error"])
        return answer["result"]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def web_server(port: int, *, workers: int, threads: int) -> list[str]:
    """The web server as the demo and the image start it."""
    return ["config.serve", "--port", str(port), "--workers", str(workers), "--threads", str(threads)]


def celery(*arguments: str) -> list[str]:
    return ["celery", "-A", "config", "--quiet", *arguments]


# --- Any process ------------------------------------------------------------------------------------------------------
def children(parent: int) -> list[int]:
    """Return the processes whose parent this is, none when it is gone."""
    try:
        return [int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    except OSError:
        return []


def command_line(process: int) -> list[str]:
    """Return a process's arguments; none if it is gone or a zombie."""
    try:
        raw = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return []
    return [os.fsdecode(part) for part in raw.rstrip(b"\0").split(b"\0") if part]


def is_running(process: int) -> bool:
    """Tell whether this process exists and is no zombie."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    # The state follows the name, which is in parentheses and may contain any character (proc(5)).
    return fields.rpartition(")")[2].split()[0] not in {"Z", "X"}


def process_in(file: Path) -> int | None:
    """Return the running process that a pid file names on its first line."""
    try:
        process = int(file.read_text(encoding="utf-8").partition("\n")[0])
    except FileNotFoundError:
        return None
    return process if is_running(process) else None


def postmaster(server: PostgresServer) -> int | None:
    return process_in(server.data / "postmaster.pid")


def redis_process(root: Path) -> int | None:
    return process_in(root / "redis" / "redis.pid")


def kill(processes: Sequence[int]) -> None:
    """Kill processes, and wait until they are gone."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    until(lambda: not any(map(is_running, processes)), seconds=10, pause=0.01)


@contextmanager
def frozen(processes: Sequence[int]) -> Iterator[None]:
    """Stop processes, and let them go on at the end."""
    try:
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)
        yield
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)
