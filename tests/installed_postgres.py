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

from config.embedded.places import EmbeddedServerError, find_place
from config.embedded.postgres_server import PostgresServer
from config.embedded.running import prepare_databases
from config.embedded.state import LOGS_OWNER, SERVICE_OWNER


@contextmanager
def installed_postgres(programs: Path, settings: Mapping[str, str]) -> Iterator[tuple[PostgresServer, dict[str, str]]]:
    """Run a cluster of these programs with these settings; yield it, and the variables that name its databases.

    It listens on a Unix socket alone. As root it runs as the account of the embedded servers, since PostgreSQL
    refuses root.
    """
    if not (programs / "postgres").exists():
        raise pytest.UsageError(f"There is no program postgres in {programs}: apt install postgresql-15 brings one.")
    # Not below .local: the path of a Unix socket holds at most 107 bytes.
    root = Path(tempfile.mkdtemp(prefix="postgres-"))
    root.chmod(0o755)
    server = PostgresServer(find_place(root), programs=programs)
    try:
        yield server, _start(server, settings)
    finally:
        server.stop()
        shutil.rmtree(server.place.folder, ignore_errors=True)
        shutil.rmtree(root, ignore_errors=True)


def _start(server: PostgresServer, settings: Mapping[str, str]) -> dict[str, str]:
    place, password = server.place, secrets.token_hex(24)
    # Not as the embedded cluster is made: its locale provider came with PostgreSQL 17.
    initdb: list[str | Path] = [server.program("initdb"), "--pgdata", place.make_folder(server.data), "--auth"]
    initdb += ["scram-sha-256", "--username", "postgres"]
    initdb += ["--pwfile", place.write_file(place.folder / "password", password)]
    initdb += ["--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync"]
    made = place.run(initdb)
    if made.returncode != 0:
        raise pytest.UsageError(f"initdb failed: {made.stderr.strip() or made.stdout.strip()}")
    options = {**settings, "listen_addresses": "", "jit": "off"}
    with (server.data / "postgresql.auto.conf").open("a", encoding="utf-8") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in options.items())
    try:
        sockets = server.start()
    except EmbeddedServerError as error:
        raise pytest.UsageError(str(error)) from error
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
