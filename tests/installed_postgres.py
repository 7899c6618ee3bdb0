"""A new cluster of a PostgreSQL that the machine has, gone again at the end; the embedded one has one version alone."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from config.embedded.places import Place, find_place
from config.embedded.postgres_server import ADDRESS_SPACE_KIB
from config.embedded.running import prepare_databases
from config.embedded.state import LOGS_OWNER, SERVICE_OWNER


@contextmanager
def installed_postgres(programs: Path, settings: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Run a cluster of these programs with these settings; yield the variables that name its databases.

    It listens on a Unix socket alone. As root it runs as the account of the embedded servers, since PostgreSQL
    refuses root.
    """
    if not (programs / "postgres").exists():
        raise pytest.UsageError(f"There is no program postgres in {programs}: apt install postgresql-15 brings one.")
    # Not below .local: the path of a Unix socket holds at most 107 bytes.
    root = Path(tempfile.mkdtemp(prefix="postgres-"))
    root.chmod(0o755)
    place = find_place(root)
    try:
        yield _start(place, programs, settings)
    finally:
        place.run([programs / "pg_ctl", "--pgdata", place.folder / "data", "--mode", "immediate", "--silent", "stop"])
        shutil.rmtree(place.folder, ignore_errors=True)
        shutil.rmtree(root, ignore_errors=True)


def _start(place: Place, programs: Path, settings: Mapping[str, str]) -> dict[str, str]:
    password = secrets.token_hex(24)
    data, sockets = place.make_folder(place.folder / "data"), place.make_folder(place.folder / "run")
    initdb: list[str | Path] = [programs / "initdb", "--pgdata", data, "--username", "postgres", "--auth"]
    initdb += ["scram-sha-256", "--pwfile", place.write_file(place.folder / "password", password)]
    initdb += ["--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync"]
    _run(place, initdb)
    options = {**settings, "listen_addresses": "", "unix_socket_directories": str(sockets), "jit": "off"}
    with (data / "postgresql.auto.conf").open("a", encoding="utf-8") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in options.items())
    # The limit of one process' memory that the embedded server has (config.embedded.postgres_server).
    start = 'ulimit -v "$1"; shift; exec "$@"'
    server: list[str | Path] = [programs / "pg_ctl", "--pgdata", data, "--log", place.open_log("log"), "--silent"]
    _run(place, ["/bin/sh", "-c", start, "sh", str(ADDRESS_SPACE_KIB), *server, "--wait", "start"])
    superuser_url = f"postgresql://postgres:{password}@/postgres?host={sockets}"
    servers = prepare_databases(superuser_url)
    allow_test_databases(superuser_url)
    return {**servers.environment(), "LOGS_SUPERUSER_URL": str(servers.superuser_url)}


def allow_test_databases(superuser_url: str) -> None:
    """Let both owners make and drop the databases of a test run, for which Django connects to `postgres`."""
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute(f"ALTER ROLE {SERVICE_OWNER} CREATEDB")
        connection.execute(f"ALTER ROLE {LOGS_OWNER} CREATEDB")
        connection.execute(f"GRANT CONNECT ON DATABASE postgres TO {SERVICE_OWNER}, {LOGS_OWNER}")


def _run(place: Place, command: list[str | Path]) -> None:
    made = place.run(command)
    if made.returncode != 0:
        raise pytest.UsageError(f"{command[0]} failed: {made.stderr.strip() or made.stdout.strip()}")
