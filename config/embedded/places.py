"""The files of the private servers, the account that runs them, and their processes.

PostgreSQL refuses to run as root. So root runs both servers as a separate system account, which must be able to reach
the files; access to foreign folders is never opened up for it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)

SERVER_ACCOUNT = "log-endpoints"
# For root, if the account cannot look into the project's folder (below /root, for example). Not /var/tmp:
# systemd-tmpfiles deletes old files there, a database's rarely written ones first.
OUTSIDE_FOLDER = Path("/var/lib/log-query-endpoints")
LOG_LIMIT_BYTES = 10 * 1024 * 1024


class EmbeddedServerError(RuntimeError):
    """A private server cannot be created or started; the text says why, with the last lines of the server's log."""


@dataclass(frozen=True, slots=True)
class Account:
    """The system account that runs the servers."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of an installation's server files, and the account that runs the servers (None: the current user)."""

    folder: Path
    account: Account | None
    name: str  # Unique to the installation; marks its processes and its folders elsewhere.

    def run(self, command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
        """Run a command to its end as the servers' account, with an environment of its own."""
        account = self.account
        return subprocess.run(  # noqa: S603  # fixed programs, arguments made here
            [str(part) for part in command],
            # The caller's PG* variables and locale must not reach the server; its folder may be out of reach.
            env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
            cwd="/",
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
            umask=0o077,
            start_new_session=True,  # Ctrl-C in the caller's terminal must not reach the servers.
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )

    def reaches(self, path: Path) -> bool:
        """Tell whether the servers' account can enter this folder, or execute this file."""
        return self.run(["/bin/sh", "-c", 'test -x "$1"', "sh", path]).returncode == 0

    def give(self, path: Path) -> None:
        """Make the servers' account the owner of a file or folder of ours."""
        if self.account is not None:
            os.chown(path, self.account.uid, self.account.gid, follow_symlinks=False)

    def make_folder(self, folder: Path) -> Path:
        """Make a folder that only the servers' account can use."""
        folder.mkdir(mode=0o700, exist_ok=True)
        self.give(folder)
        return folder

    def write_file(self, path: Path, text: str = "") -> Path:
        """Write a file that only the servers' account can use."""
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        self.give(path)
        return path

    def open_log(self, name: str) -> Path:
        """Return a log file that the account can append to; a large one is put aside first, replacing the last one."""
        log = self.folder / name
        if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
            log.replace(log.with_name(f"{name}.1"))
        return log if log.exists() else self.write_file(log)


def find_place(root: Path) -> Place:
    """Return the folder of this root's server files: inside it, or outside if the servers' account cannot enter it.

    Raises EmbeddedServerError if root has no system account to run them.
    """
    name = f"endpoints-{hashlib.sha256(os.fsencode(root)).hexdigest()[:12]}"
    if os.geteuid() != 0:
        return Place(folder=root, account=None, name=name)
    place = Place(folder=root, account=_server_account(), name=name)
    if place.reaches(root):
        return place
    return Place(folder=_make_folders(OUTSIDE_FOLDER / name), account=place.account, name=name)


def make_root(root: Path) -> Path:
    """Make the root folder with its parents, open to pass through, and return its real path."""
    return _make_folders(root).resolve()


def socket_folder(place: Place, name: str = "run") -> Path:
    """Make the folder of a PostgreSQL's socket, below the temporary folder if its path is too long in the place.

    A socket's whole path has to fit 107 bytes (sockaddr_un, unix(7)); PostgreSQL stops at 103 on some systems.
    """
    if _socket_path_fits(place.folder / name):
        return place.make_folder(place.folder / name)
    for parent in (Path(tempfile.gettempdir()), Path("/tmp")):  # noqa: S108  # ownership is checked below
        folder = parent / f"{place.name}-{os.geteuid()}"
        if _socket_path_fits(folder / name) and place.reaches(parent):
            return place.make_folder(_own_folder(folder) / name)
    raise EmbeddedServerError(f"Every folder has a path that is too long for a socket; tried {tempfile.gettempdir()}.")


def reachable_program(place: Place, packages: Path, program: str, *, trees: Sequence[str]) -> Path:
    """Return a program of a wheel, or a copy of it if the servers' account cannot execute it there.

    `program` and the `trees` it needs are paths below `packages` (site-packages). A copy keeps their layout: programs
    find the libraries that came with their wheel by a relative path.
    """
    original = packages / program
    if place.reaches(original):
        return original
    copy = place.folder / "programs"
    copied = copy / program
    if not copied.exists() or copied.stat().st_mtime_ns != original.stat().st_mtime_ns:
        for tree in trees:
            if (packages / tree).exists():
                _replace_tree(packages / tree, copy / tree)
        logger.info("The account %s cannot enter %s: copied %s to %s.", SERVER_ACCOUNT, packages, program, copy)
    if not place.reaches(copied):
        raise EmbeddedServerError(f"The account {SERVER_ACCOUNT} cannot execute {copied}; is {copy} mounted noexec?")
    return copied


def command_line(process_id: int) -> list[str]:
    """Return a process's arguments; none if it is gone or a zombie.

    cmdline, unlike cwd and exe, is readable across accounts without a capability (proc(5)).
    """
    try:
        raw = Path(f"/proc/{process_id}/cmdline").read_bytes()
    except OSError:
        return []
    return [os.fsdecode(part) for part in raw.rstrip(b"\0").split(b"\0") if part]


def is_running(process_id: int) -> bool:
    """Tell whether this process exists and is not a zombie. An empty command line is no sign: exec() shows one too."""
    try:
        stat_line = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    # The state follows the name, which is in parentheses and may contain any character (proc(5)).
    return stat_line.rpartition(")")[2].split()[0] not in {"Z", "X"}


def processes_titled(prefix: str) -> Iterator[int]:
    """Yield the processes whose title, which they set themselves, has this beginning."""
    for entry in os.listdir("/proc"):
        if entry.isdigit() and " ".join(command_line(int(entry))).startswith(prefix):
            yield int(entry)


def last_lines(log: Path, *, count: int = 8) -> str:
    """Return the end of a log for an error message."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 8192))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-count:])


def _server_account() -> Account:
    try:
        entry = pwd.getpwnam(SERVER_ACCOUNT)
    except KeyError:
        useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
        if useradd is None:
            raise EmbeddedServerError(
                f"PostgreSQL does not run as root, and useradd is missing, which would create an account: add a user "
                f"{SERVER_ACCOUNT}, or run this as another user."
            ) from None
        arguments = ["--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", SERVER_ACCOUNT]
        made = subprocess.run([useradd, *arguments], capture_output=True, text=True, check=False)  # noqa: S603
        # 9: the name was taken by another start at the same moment.
        if made.returncode not in {0, 9}:
            raise EmbeddedServerError(f"Cannot make the account {SERVER_ACCOUNT}: {made.stderr.strip()}") from None
        entry = pwd.getpwnam(SERVER_ACCOUNT)
    return Account(uid=entry.pw_uid, gid=entry.pw_gid)


def _make_folders(folder: Path) -> Path:
    if not folder.is_dir():
        _make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
        # The umask may have closed it; root's servers run as another account and must be able to pass through.
        folder.chmod(0o755)
    return folder


def _replace_tree(source: Path, target: Path) -> None:
    _make_folders(target.parent)
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    # Development files are a third of PostgreSQL's wheel.
    shutil.copytree(source, partial, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a"))
    shutil.rmtree(target, ignore_errors=True)
    partial.replace(target)


def _own_folder(folder: Path) -> Path:
    """Make a folder in a place where anyone can write; refuse one that somebody else created there."""
    try:
        folder.mkdir(mode=0o711)
        folder.chmod(0o711)
    except FileExistsError:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise EmbeddedServerError(f"{folder} is not a private folder of this user; remove it.") from None
    return folder


def _socket_path_fits(folder: Path) -> bool:
    return len(os.fsencode(folder / ".s.PGSQL.5432")) <= 103
