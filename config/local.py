"""Sets manage.py up if the environment names no servers: with the embedded ones and a secret key of its own.

No Django: all of this happens before the settings load.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path

from config import embedded
from config.embedded.state import load_secrets

DATABASE_VARIABLES = ("DATABASE_URL", "LOGS_DATABASE_URL", "LOGS_GATE_URL")
DEMO_ADDRESS = "127.0.0.1"
DEMO_PORT = 8000
# Commands that only read and write files, including `check` if it names no database. Not makemigrations, which compares
# with the applied migrations, and not spectacular, whose document lists the stored endpoints.
COMMANDS_WITHOUT_SERVERS = frozenset(
    ("check", "collectstatic", "compilemessages", "diffsettings", "findstatic", "help", "makemessages", "version")
)


@contextmanager
def servers_for(arguments: Sequence[str], project: Path) -> Iterator[None]:
    """While a management command runs, give it the servers that it needs and that the environment does not name.

    `arguments` are sys.argv's. Where the command cannot run, raises SystemExit with one line for its user before
    anything is started. Raises EmbeddedServerError.
    """
    given = [name for name in DATABASE_VARIABLES if os.environ.get(name)]
    missing = [name for name in DATABASE_VARIABLES if name not in given]
    if given and missing:
        sys.exit(f"manage.py: {', '.join(given)} is set, so {' and '.join(missing)} must be set too.")
    needs_redis = not os.environ.get("REDIS_URL")
    is_demo = arguments[1:2] == ["demo"] and needs_servers(arguments)
    replicas = _prepare_demo(arguments[2:], has_postgres=not missing) if is_demo else 0
    if not needs_servers(arguments) or not (missing or needs_redis):
        if missing:
            # Nothing that it signs outlives the command.
            os.environ.setdefault("SECRET_KEY", secrets.token_urlsafe(50))
        yield
        return
    root = embedded.local_folder(project)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # leaving the block stops the servers
    with embedded.using(root, postgres=bool(missing), redis=needs_redis, replicas=replicas) as servers:
        os.environ.update(servers.environment(), ENDPOINTS_LOCAL_DIR=str(root))
        if missing and (kept := load_secrets(root)):
            os.environ.setdefault("SECRET_KEY", kept.secret_key)
            os.environ.setdefault("ALLOWED_HOSTS", "127.0.0.1,localhost")
            # The demo is on loopback and has no certificate.
            os.environ.setdefault("HTTPS_ONLY", "false")
            os.environ.setdefault("ENDPOINTS_PUBLIC_SCHEMA", "true")
            os.environ.setdefault("ENDPOINTS_METRICS_LOOPBACK", "true")
        yield


def needs_servers(arguments: Sequence[str]) -> bool:
    """Tell whether this command line of manage.py works on a database or Redis."""
    if len(arguments) < 2 or {"-h", "--help", "--version"} & set(arguments[1:]):
        return False
    is_on_files = arguments[1].startswith("-") or arguments[1] in COMMANDS_WITHOUT_SERVERS
    return not is_on_files or any(argument.startswith("--database") for argument in arguments)


def _prepare_demo(options: Sequence[str], *, has_postgres: bool) -> int:
    """Refuse what would fail after servers, migrations and rows, and return how many standbys are wanted."""
    parser = argparse.ArgumentParser(prog="manage.py demo", add_help=False)
    parser.add_argument("--port", type=int, default=DEMO_PORT)
    parser.add_argument("--replicas", type=int, default=0)
    read, _ = parser.parse_known_args(options)
    if not 0 < read.port < 65536:
        sys.exit(f"manage.py: {read.port} is not a port number (1 to 65535).")
    try:
        socket.create_server((DEMO_ADDRESS, read.port)).close()
    except OSError:
        sys.exit(
            f"manage.py: Port {read.port} is used by another program: stop it, or choose another port "
            f"(make demo PORT={read.port + 1})."
        )
    if read.replicas > 0 and has_postgres:
        sys.exit("manage.py: --replicas is for the embedded PostgreSQL, but DATABASE_URL names another one.")
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # each step is told when it begins, also to a file or a pipe
    sys.stdout.write("Starting PostgreSQL and Redis …\n")
    return max(int(read.replicas), 0)
