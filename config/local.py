"""Sets manage.py up if the environment names no servers: with the embedded ones and a secret key of its own.

No Django: all of this happens before the settings load.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from io import TextIOWrapper
from pathlib import Path
from types import FrameType

from config import embedded
from config.embedded.state import write_private_json

DATABASE_VARIABLES = ("DATABASE_URL", "LOGS_DATABASE_URL", "LOGS_GATE_URL")
DEMO_ADDRESS = "127.0.0.1"
DEMO_PORT = 8000
# Commands that only read and write files, including `check` if it names no database. Not makemigrations, which compares
# with the applied migrations, and not spectacular, whose document lists the stored endpoints.
COMMANDS_WITHOUT_SERVERS = frozenset(
    {
        *("check", "collectstatic", "compilemessages", "diffsettings", "findstatic", "help"),
        *("makemessages", "startapp", "startproject", "version"),
    }
)


class LocalSetupError(Exception):
    """The command cannot run in this situation; the text is one line for its user."""


@dataclass(frozen=True, slots=True)
class LocalSecrets:
    """The secrets that the demo creates once and shows on every run."""

    secret_key: str = field(repr=False)
    admin_password: str = field(repr=False)
    access_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What a command line says of the demo's servers."""

    port: int
    replicas: int


def ensure_local_secrets(root: Path) -> LocalSecrets:
    """Return the secrets kept in this folder's demo.json; create them on first use."""
    try:
        return LocalSecrets(**json.loads((root / "demo.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        made = LocalSecrets(secret_key=secrets.token_urlsafe(50), admin_password=secrets.token_urlsafe(12))
        keep_local_secrets(root, made)
        return made


def keep_local_secrets(root: Path, values: LocalSecrets) -> None:
    """Write the secrets; only their owner can read them."""
    write_private_json(root / "demo.json", asdict(values))


@contextmanager
def servers_for(arguments: Sequence[str], project: Path) -> Iterator[None]:
    """While a management command runs, give it the servers that it needs and that the environment does not name.

    `arguments` are sys.argv's. Raises LocalSetupError before anything is started, EmbeddedServerError if a server
    cannot be started.
    """
    command = arguments[1] if len(arguments) > 1 else "help"
    needs_postgres = not _names_databases()
    needs_redis = not os.environ.get("REDIS_URL")
    replicas = 0
    if command == "demo" and (demo := _read_demo_options(arguments)):
        _refuse_taken_port(demo.port)
        if demo.replicas > 0 and not needs_postgres:
            raise LocalSetupError("--replicas is for the embedded PostgreSQL, but DATABASE_URL names another one.")
        replicas = demo.replicas
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=True)  # each step is told when it begins, also to a file or a pipe
    if not needs_servers(arguments):
        if needs_postgres:
            # Nothing that it signs outlives the command.
            os.environ.setdefault("SECRET_KEY", secrets.token_urlsafe(50))
        yield
    elif not needs_postgres and not needs_redis:
        yield
    else:
        root = embedded.local_folder(project)
        if command == "demo":
            sys.stdout.write("Starting PostgreSQL and Redis …\n")
        signal.signal(signal.SIGTERM, _exit)  # so that leaving the block stops the servers
        with embedded.using(root, postgres=needs_postgres, redis=needs_redis, replicas=replicas) as servers:
            os.environ.update(servers.environment())
            if needs_postgres:
                _set_local_defaults(root)
            yield


def needs_servers(arguments: Sequence[str]) -> bool:
    """Tell whether this command line of manage.py works on a database or Redis."""
    if len(arguments) < 2 or {"-h", "--help", "--version"} & set(arguments[1:]):
        return False
    command = arguments[1]
    if command == "check" and any(argument.startswith("--database") for argument in arguments):
        return True
    return not command.startswith("-") and command not in COMMANDS_WITHOUT_SERVERS


def port_is_taken(port: int) -> bool:
    """Tell whether another program listens on the port of the demo's web server."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((DEMO_ADDRESS, port))
        except OSError:
            return True
    return False


def _names_databases() -> bool:
    given = [name for name in DATABASE_VARIABLES if os.environ.get(name)]
    missing = [name for name in DATABASE_VARIABLES if name not in given]
    if given and missing:
        raise LocalSetupError(f"{', '.join(given)} is set, so {' and '.join(missing)} must be set too.")
    return not missing


def _set_local_defaults(root: Path) -> None:
    os.environ.setdefault("SECRET_KEY", ensure_local_secrets(root).secret_key)
    os.environ.setdefault("ALLOWED_HOSTS", "127.0.0.1,localhost")
    # The demo is on loopback and has no certificate.
    os.environ.setdefault("HTTPS_ONLY", "false")
    os.environ.setdefault("ENDPOINTS_PUBLIC_SCHEMA", "true")
    os.environ.setdefault("ENDPOINTS_METRICS_LOOPBACK", "true")


def _read_demo_options(arguments: Sequence[str]) -> DemoOptions | None:
    """Read what the demo's servers need to know; None if an option is no number, which the command itself explains."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("--port", type=int, default=DEMO_PORT)
    parser.add_argument("--replicas", type=int, default=0)
    try:
        read = parser.parse_known_args(list(arguments[2:]))[0]
    except argparse.ArgumentError:
        return None
    return DemoOptions(port=read.port, replicas=read.replicas)


def _refuse_taken_port(port: int) -> None:
    """Check the port of the demo at once: before servers, migrations and rows."""
    if not 0 < port < 65536:
        raise LocalSetupError(f"{port} is not a port number (1 to 65535).")
    if port_is_taken(port):
        raise LocalSetupError(
            f"Port {port} is used by another program: stop it, or choose another port (make demo PORT={port + 1})."
        )


def _exit(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)
