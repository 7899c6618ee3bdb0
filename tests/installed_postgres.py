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

from config.embedded.postgres_server import EmbeddedServerError, PostgresServer
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
    server = PostgresServer(root, programs=programs)
    try:
        yield server, _start(server, settings)
    finally:
        server.stop()
        shutil.rmtree(root, ignore_errors=True)


def _start(server: PostgresServer, settings: Mapping[str, str]) -> dict[str, str]:
    password = secrets.token_hex(24)
    try:
        # Not as the embedded cluster is made: its locale provider came with PostgreSQL 17.
        server.initialise(password, settings, locale=("--locale=C.UTF-8",))
        server.start()
    except EmbeddedServerError as error:
        raise pytest.UsageError(str(error)) from error
    superuser_url = f"postgresql://postgres:{password}@/postgres?host={server.sockets}"
    servers = prepare_databases(superuser_url)
    allow_test_databases(superuser_url)
    return {**servers.environment(), "LOGS_SUPERUSER_URL": str(servers.superuser_url)}


def allow_test_databases(superuser_url: str) -> None:
    """Let both owners make and drop the databases of a test run, for which Django connects to `postgres`."""
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute(f"ALTER ROLE {SERVICE_OWNER} CREATEDB")
        connection.execute(f"ALTER ROLE {LOGS_OWNER} CREATEDB")
        connection.execute(f"GRANT CONNECT ON DATABASE postgres TO {SERVICE_OWNER}, {LOGS_OWNER}")
