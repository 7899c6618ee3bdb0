"""A Debian 12 in one folder, on which docs/production.md is followed: its paths, ports, accounts and services.

Real are the shell, pip, git, openssl, curl, Debian's PostgreSQL 15 (with peer on the socket, scram and TLS on TCP),
Redis, Debian's nginx with its own configuration, and every program of the service. Replaced are, for this machine's
sake: paths such as /srv and /etc, which lie below the folder; ports; and by programs of the same name first on PATH
`apt-get` and `adduser`, which change nothing, `runuser`, which knows only accounts that were added, and `systemctl`
(`tests/live/systemctl.py`), because systemd does not run in containers.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final

from config.embedded.postgres_server import account
from config.embedded.redis_server import redis_program
from tests.files import PROJECT
from tests.live.installation import free_port

POSTGRES_PROGRAMS: Final = Path("/usr/lib/postgresql/15/bin")
REPOSITORY: Final = "https://git.example.org/log-query-endpoints.git"  # as on the page
STEPS_SECONDS: Final = 900
_IGNORED: Final = (".git", ".venv", ".local", ".*_cache", ".hypothesis", "__pycache__", "staticfiles", "node_modules")
_MOVED: Final = re.compile(r"(?<![\w./-])/(etc|srv|run|usr/local/sbin|var/log|var/lib/nginx)/")
_PORTS: Final = {
    "127.0.0.1:5432": "postgres", "127.0.0.1:6379": "redis", "127.0.0.1:8000": "web", "--port 8000": "web",
    "127.0.0.1:443": "https", "listen 443": "https", "listen 80": "http",
}  # fmt: skip
_REDIS: Final = """\
bind 127.0.0.1 -::1
port {port}
dir {folder}
save 3600 1 300 100
daemonize no
"""
_DEFAULT_SITE: Final = "server {{ listen 127.0.0.1:{port} default_server; return 404; }}\n"


class DebianMachine:
    """The machine, as apt leaves it; use it as a context manager."""

    def __init__(self) -> None:
        # Not pytest's folders: they are closed to other accounts, and a socket's path has at most 107 bytes.
        self.root = Path(tempfile.mkdtemp(prefix="debian-"))
        self.root.chmod(0o755)
        self.ports = {name: free_port() for name in ("postgres", "redis", "web", "https", "http")}
        me = getpass.getuser()
        is_root = os.geteuid() == 0
        # As root the embedded servers' account, which this machine has anyway.
        entry = account()
        service = entry.pw_name if entry else me
        self.accounts = {"root": me, "postgres": "postgres" if is_root else me, "service": service}
        self._redis_program = redis_program()

    def __enter__(self) -> DebianMachine:
        for name in (
            "srv",
            "run/postgresql",
            "etc/redis",
            "etc/ssl",
            "etc/systemd/system",
            "usr/local/sbin",
            "log",
            "lib",
        ):
            (self.root / name).mkdir(parents=True)
        self._make_postgres()
        self._make_redis()
        self._make_nginx()
        self._make_repository()
        self._make_programs()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._systemctl("kill")
        shutil.rmtree(self.root, ignore_errors=True)

    # --- What the page's reader does ----------------------------------------------------------------------------------
    def paste(self, commands: str) -> str:
        """Run commands in a new root shell, which ends at the first failure, and return what it printed."""
        script = self.root / "pasted.sh"
        script.write_text(f"set -euo pipefail\n{self.moved(commands)}", encoding="utf-8")
        ended = subprocess.run(
            ["/bin/bash", script],
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=STEPS_SECONDS,
            check=False,
        )
        assert ended.returncode == 0, f"{ended.stdout[-6000:]}\n{self.logs()}"
        return ended.stdout

    def empty_servers(self) -> None:
        """Give the machine a new PostgreSQL cluster and an empty Redis, as apt leaves them; both are stopped."""
        shutil.rmtree(self.root / "lib" / "postgresql")
        self._make_postgres()
        shutil.rmtree(self.root / "lib" / "redis")
        self._make_redis()

    def moved(self, text: str) -> str:
        """Return a text with the paths and ports of this machine."""
        text = _MOVED.sub(rf"{self.root}/\1/", text)
        for written, name in _PORTS.items():
            here = written.replace("listen ", "listen 127.0.0.1:").rstrip("0123456789") + str(self.ports[name])
            text = re.sub(rf"{re.escape(written)}\b", here, text)
        return text

    def path(self, name: str) -> Path:
        return Path(self.moved(name))

    def logs(self) -> str:
        """Return the ends of what the services wrote."""
        found = sorted((self.root / "log").glob("*.log"))
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-2000:]}" for path in found)

    @property
    def environment(self) -> dict[str, str]:
        """Root's, with nothing of the test run; pip and uv stay as this machine has configured them."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(("PIP_", "UV_")) or "proxy" in name.lower()
        }
        return {
            **kept,
            "PATH": f"{self.root}/programs:{self.root}/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.root),
            "LANG": "C.UTF-8",
            # git finds the page's repository here, and psql the cluster, as on a machine with one of each.
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": f"url.{self.root}/repository.insteadOf",
            "GIT_CONFIG_VALUE_0": REPOSITORY,
            "GIT_CONFIG_KEY_1": "safe.directory",
            "GIT_CONFIG_VALUE_1": "*",
            "PGHOST": f"{self.root}/run/postgresql",
            "PGPORT": str(self.ports["postgres"]),
        }

    # --- What apt has left --------------------------------------------------------------------------------------------
    def _make_postgres(self) -> None:
        data = self.root / "lib" / "postgresql"
        data.mkdir()
        self._give(data, "postgres")
        self._give(self.root / "run" / "postgresql", "postgres")
        # A machine without locales gets a cluster in SQL_ASCII.
        options = ["--auth-local=peer", "--auth-host=scram-sha-256", "--encoding=SQL_ASCII", "--locale=C", "--no-sync"]
        self._as("postgres", [POSTGRES_PROGRAMS / "initdb", "--pgdata", data, "--username=postgres", *options])
        # Debian's clusters speak TLS with a certificate of the machine.
        for name in ("key.pem", "certificate.pem"):
            (data / name).touch()
            self._give(data / name, "postgres")
            (data / name).chmod(0o600)
        files: list[str | Path] = ["-keyout", data / "key.pem", "-out", data / "certificate.pem"]
        subject = ["-subj", "/CN=debian", "-days", "2"]
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, *files],
            check=True,
            capture_output=True,
        )
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.ports["postgres"]),
            "unix_socket_directories": f"{self.root}/run/postgresql",
            "ssl": "on",
            "ssl_cert_file": f"{data}/certificate.pem",
            "ssl_key_file": f"{data}/key.pem",
            "fsync": "off",
        }
        with (data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        if os.geteuid() != 0:
            (data / "pg_hba.conf").write_text(
                "local all postgres peer map=me\nlocal all all peer\nhost all all 127.0.0.1/32 scram-sha-256\n"
            )
            (data / "pg_ident.conf").write_text(f"me {getpass.getuser()} postgres\n")

    def _make_redis(self) -> None:
        folder = self.root / "lib" / "redis"
        folder.mkdir()
        redis = _REDIS.format(port=self.ports["redis"], folder=folder)
        (self.root / "etc" / "redis" / "redis.conf").write_text(redis, encoding="utf-8")

    def _make_nginx(self) -> None:
        folder = self.root / "etc" / "nginx"
        shutil.copytree(
            "/etc/nginx", folder, symlinks=True, ignore=shutil.ignore_patterns("sites-*", "modules-enabled")
        )
        for name in ("sites-available", "sites-enabled", "modules-enabled"):
            (folder / name).mkdir()
        (self.root / "run").chmod(0o755)
        (self.root / "var" / "log" / "nginx").mkdir(parents=True)
        bodies = self.root / "lib" / "nginx"
        bodies.mkdir()
        text = (folder / "nginx.conf").read_text(encoding="utf-8")
        # Where Debian has compiled in folders of root's.
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        paths = "".join(f"\t{kind}_temp_path {bodies}/{kind};\n" for kind in kinds)
        text = text.replace("http {\n", f"http {{\n{paths}", 1)
        text = text.replace("/run/nginx.pid", f"{self.root}/run/nginx.pid")
        (folder / "nginx.conf").write_text(self.moved(text), encoding="utf-8")
        default = folder / "sites-available" / "default"
        default.write_text(_DEFAULT_SITE.format(port=self.ports["http"]), encoding="utf-8")
        (folder / "sites-enabled" / "default").symlink_to("../sites-available/default")

    def _make_repository(self) -> None:
        """This tree as it is, committed or not; its files for a machine know where this one has its folders."""
        repository = self.root / "repository"
        shutil.copytree(PROJECT, repository, symlinks=True, ignore=shutil.ignore_patterns(*_IGNORED))
        for path in (repository / "deploy").rglob("*"):
            if path.is_file():
                path.write_text(self.moved(path.read_text(encoding="utf-8")), encoding="utf-8")
        author = ["-c", "user.name=Reader", "-c", "user.email=reader@example.org"]
        for command in (["init", "--quiet"], ["add", "--all"], [*author, "commit", "--quiet", "--message", "As it is"]):
            subprocess.run(["git", "-C", repository, *command], env=self.environment, check=True)

    def _make_programs(self) -> None:
        folder = self.root / "programs"
        folder.mkdir()
        state = {
            "root": str(self.root),
            "ports": self.ports,
            "accounts": self.accounts,
            "redis": str(self._redis_program),
            "postgres": str(POSTGRES_PROGRAMS / "postgres"),
        }
        (self.root / "machine.json").write_text(json.dumps(state), encoding="utf-8")
        python = (
            f"cd {shlex.quote(str(PROJECT))} && exec {shlex.quote(sys.executable)} -m tests.live.systemctl {self.root}"
        )
        scripts = {
            # On Debian a package's service runs when apt-get returns.
            "apt-get": f'[ "$1" = install ] || exit 0\nshift\n{python} installed "$@"',
            "adduser": f'for name; do :; done\necho "$name" >> {self.root}/added',
            "systemctl": f'{python} "$@"',
            "nginx": f'exec /usr/sbin/nginx -e {self.root}/log/nginx.log -c {self.root}/etc/nginx/nginx.conf "$@"',
            "runuser": _runuser(self.accounts, self.root),
        }
        for name, script in scripts.items():
            (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            (folder / name).chmod(0o755)

    def _systemctl(self, *arguments: str) -> None:
        program = self.root / "programs" / "systemctl"
        if program.exists():
            subprocess.run([program, *arguments], env=self.environment, check=True, timeout=60)

    def _as(self, account: str, command: list[str | Path]) -> None:
        is_other = self.accounts[account] != getpass.getuser()
        whole = ["runuser", "-u", self.accounts[account], "--", *command] if is_other else command
        ended = subprocess.run(whole, cwd="/", capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr

    def _give(self, path: Path, account: str) -> None:
        if os.geteuid() == 0:
            shutil.chown(path, self.accounts[account])


def _runuser(accounts: dict[str, str], root: Path) -> str:
    """Return runuser for accounts that exist: Debian's own, and those that adduser has added."""
    cases = "\n".join(
        f"    {name}) account={here}; {'' if name != 'service' else f'grep -qx service {root}/added'} ;;"
        for name, here in accounts.items()
    )
    run = 'exec /usr/sbin/runuser -u "$account" -- "$@"' if os.geteuid() == 0 else 'exec "$@"'
    return f'set -e\n[ "$1" = -u ] && [ "$3" = -- ]\ncase "$2" in\n{cases}\n    *) exit 1 ;;\nesac\nshift 3\n{run}'
