"""systemctl on the machine of `tests/live/debian.py`: starts what the units there name, as systemd would start it.

Of a unit it takes ExecStart, User, WorkingDirectory, EnvironmentFile, LimitNOFILE and LimitDATA. A service gets the
variables of its file and nothing of the shell's. Restarts, the watchdog and the sandboxing of systemd are not played;
`systemd-analyze verify` reads every unit, where the machine has it. Run as `python -m tests.live.systemctl FOLDER …`.
"""

from __future__ import annotations

import configparser
import json
import os
import pwd
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.live.processes import is_running

START_SECONDS: Final = 60
STOP_SECONDS: Final = 40
OURS: Final = "log-query-endpoints-"
# The service of each package that has one.
PACKAGES: Final = {
    "curl": None, "git": None, "nginx-light": "nginx", "openssl": None, "postgresql": "postgresql",
    "python3-venv": None, "redis-server": "redis-server",
}  # fmt: skip
_BYTES: Final = {"K": 1024, "M": 1024**2, "G": 1024**3}


@dataclass(frozen=True, slots=True)
class Service:
    """A program with what systemd gives it, and how to see that it is up."""

    command: Sequence[str]
    account: str
    folder: str = "/"
    variables: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[int, int] = field(default_factory=dict)
    is_up: Callable[[], bool] = lambda: True


class Machine:
    """The services of one machine; each has its process id in a file, which outlives this program."""

    def __init__(self, root: Path) -> None:
        self.root = root
        state: dict[str, Any] = json.loads((root / "machine.json").read_text(encoding="utf-8"))
        self.ports: dict[str, int] = state["ports"]
        self.accounts: dict[str, str] = state["accounts"]
        self._programs: dict[str, str] = {"redis": state["redis"], "postgres": state["postgres"]}

    def installed(self, *options: str) -> None:
        for package in (each for each in options if not each.startswith("-")):
            assert package in PACKAGES, f"Nobody has looked whether Debian has the package {package}."
            service = PACKAGES[package]
            if service:
                self.start(service)

    def daemon_reload(self) -> None:
        units = sorted(str(path) for path in (self.root / "etc/systemd/system").glob("*.service"))
        if units and shutil.which("systemd-analyze"):
            subprocess.run(["systemd-analyze", "verify", "--man=no", *units], check=True)

    def start(self, name: str) -> None:
        name = name.removesuffix(".service")
        service = self._service(name)
        with (self.root / "log" / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                service.command,
                cwd=service.folder,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", **service.variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=service.account if os.geteuid() == 0 else None,
                group=_group(service.account) if os.geteuid() == 0 else None,
                extra_groups=[] if os.geteuid() == 0 else None,
                preexec_fn=lambda: _limit(service.limits),
            )
        self._process_file(name).write_text(str(process.pid), encoding="ascii")
        deadline = time.monotonic() + START_SECONDS
        while not service.is_up():
            assert process.poll() is None, (
                f"{name} has ended: {(self.root / 'log' / f'{name}.log').read_text()[-3000:]}"
            )
            assert time.monotonic() < deadline, f"{name} does not start"
            time.sleep(0.05)

    def stop(self, name: str, number: int = signal.SIGTERM) -> None:
        """Stop the main process, and then kill what is left of its group, as KillMode=mixed does."""
        with suppress(FileNotFoundError, ProcessLookupError):
            process = int(self._process_file(name).read_text(encoding="ascii"))
            # PostgreSQL would wait for every client to leave.
            os.kill(process, signal.SIGINT if name == "postgresql" and number == signal.SIGTERM else number)
            deadline = time.monotonic() + STOP_SECONDS
            while is_running(process) and time.monotonic() < deadline:
                time.sleep(0.05)
            os.killpg(process, signal.SIGKILL)

    def reload(self, name: str) -> None:
        assert name == "nginx", name
        os.kill(int(self._process_file(name).read_text(encoding="ascii")), signal.SIGHUP)
        # The new configuration is in force once a worker that has it listens on its port.
        deadline = time.monotonic() + START_SECONDS
        while not self._listens("https"):
            assert time.monotonic() < deadline, "nginx has not taken the new configuration"
            time.sleep(0.05)

    def kill(self) -> None:
        for file in (self.root / "run").glob("*.process"):
            self.stop(file.stem, signal.SIGKILL)

    # --- Services -----------------------------------------------------------------------------------------------------
    def _service(self, name: str) -> Service:
        if name.startswith(OURS):
            return self._ours(name)
        if name == "postgresql":
            command = [self._programs["postgres"], "-D", f"{self.root}/lib/postgresql"]
            limits = self._limits(self.root / "etc/systemd/system/postgresql@.service.d/memory.conf")
            return Service(command, self.accounts["postgres"], limits=limits, is_up=self._postgres_answers)
        if name == "redis-server":
            command = [self._programs["redis"], f"{self.root}/etc/redis/redis.conf"]
            return Service(command, self.accounts["root"], is_up=lambda: self._listens("redis"))
        assert name == "nginx", name
        command = [f"{self.root}/programs/nginx", "-g", "daemon off;"]
        return Service(command, self.accounts["root"], is_up=lambda: self._listens("http"))

    def _ours(self, name: str) -> Service:
        path = self.root / "etc/systemd/system" / f"{name}.service"
        unit = _read_unit(path)
        variables = {}
        for line in Path(unit["EnvironmentFile"]).read_text(encoding="utf-8").splitlines():
            variable, _, value = line.partition("=")
            variables[variable] = value
        is_web = name.endswith("-web")
        return Service(
            shlex.split(unit["ExecStart"]),
            self.accounts[unit["User"]],
            folder=unit["WorkingDirectory"],
            variables=variables,
            limits=self._limits(path),
            is_up=(lambda: self._listens("web")) if is_web else (lambda: True),
        )

    def _limits(self, path: Path) -> dict[int, int]:
        if not path.exists():
            return {}
        unit = _read_unit(path)
        names = {"LimitNOFILE": resource.RLIMIT_NOFILE, "LimitDATA": resource.RLIMIT_DATA}
        return {number: _number(unit[name]) for name, number in names.items() if name in unit}

    def _process_file(self, name: str) -> Path:
        return self.root / "run" / f"{name}.process"

    def _listens(self, port: str) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.ports[port])) == 0

    def _postgres_answers(self) -> bool:
        place = ["-h", f"{self.root}/run/postgresql", "-p", str(self.ports["postgres"])]
        ready = Path(self._programs["postgres"]).with_name("pg_isready")
        return subprocess.run([ready, *place], stdout=subprocess.DEVNULL, check=False).returncode == 0


def _read_unit(path: Path) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(path, encoding="utf-8")
    return parser["Service"]


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else int(text[:-1]) * _BYTES[text[-1]]


def _limit(limits: Mapping[int, int]) -> None:
    for name, value in limits.items():
        resource.setrlimit(name, (value, value))


def _group(account: str) -> int:
    return pwd.getpwnam(account).pw_gid


def main(folder: str, action: str, *arguments: str) -> None:
    machine = Machine(Path(folder))
    names = [each for each in arguments if not each.startswith("-")]
    if action == "installed":
        machine.installed(*arguments)
    elif action == "daemon-reload":
        machine.daemon_reload()
    elif action == "kill":
        machine.kill()
    else:
        assert action in ("enable", "restart", "reload", "stop"), action
        for name in names:
            if action == "reload":
                machine.reload(name)
                continue
            machine.stop(name)
            if action != "stop":
                machine.start(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
