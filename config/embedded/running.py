"""Starting, sharing and stopping the private servers of one root folder.

Two flock files keep processes from disturbing each other; both locks vanish with their process, so even kill -9 leaves
nothing to clean up:

- start.lock, exclusive: held while servers are being created, started or stopped.
- in-use.lock, shared: held by every user of the servers. A user that leaves asks for it exclusively; only the last one
  gets it, and stops the servers.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, LiteralString

from config.embedded.places import EmbeddedServerError, find_place, make_root
from config.embedded.postgres_server import NO_SETTINGS, PostgresServer
from config.embedded.redis_server import RedisServer
from config.embedded.standbys import ensure_standbys, made_standbys
from config.embedded.state import (
    LOGS_DATABASE,
    LOGS_GATE,
    LOGS_OWNER,
    SERVICE_DATABASE,
    SERVICE_OWNER,
    Listening,
    Secrets,
    Servers,
    database_urls,
    draw_secrets,
    load_listening,
    load_secrets,
    record_listening,
    urls,
)

if TYPE_CHECKING:
    import psycopg


# --- Databases --------------------------------------------------------------------------------------------------------
# The two databases and their logins, created alike on every server that the project prepares itself.
GATE_CONNECTION_LIMIT = 40  # of the server's 100: the pools of the web processes never starve the owners


def prepare_databases(superuser_url: str, secrets: Secrets | None = None) -> Servers:
    """Create missing roles and databases, set the passwords, and return the URLs.

    `superuser_url` is a psycopg conninfo or URL that reaches any database of a server with PostgreSQL 15 or later;
    without `secrets` it creates new passwords. Afterwards only the superuser can reach a database that is not its own.
    Raises psycopg.Error.
    """
    import psycopg  # Slow to import, and not needed to find running servers.
    from psycopg.conninfo import make_conninfo

    passwords = secrets or Secrets.random()
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        prepare_logins(connection, passwords)
        _ensure_database(connection, SERVICE_DATABASE, SERVICE_OWNER, visitors=[])
        _ensure_database(connection, LOGS_DATABASE, LOGS_OWNER, visitors=[LOGS_GATE])
        connection.execute("REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC")
        host, port = connection.info.host, connection.info.port
    servers = database_urls(passwords, host=host, port=port)
    # The superuser's password belongs to the caller and stays as it is.
    return replace(servers, superuser_url=make_conninfo(superuser_url, dbname=LOGS_DATABASE))


def prepare_logins(connection: psycopg.Connection[tuple[object, ...]], passwords: Secrets) -> None:
    """Create the missing logins and set their passwords. `connection` is a superuser's. Raises psycopg.Error."""
    _ensure_login(connection, SERVICE_OWNER, passwords.service_owner, options="NOSUPERUSER NOCREATEROLE")
    _ensure_login(connection, LOGS_OWNER, passwords.logs_owner, options="NOSUPERUSER CREATEROLE")
    gate_options = f"NOSUPERUSER NOCREATEROLE NOCREATEDB NOINHERIT CONNECTION LIMIT {GATE_CONNECTION_LIMIT}"
    _ensure_login(connection, LOGS_GATE, passwords.logs_gate, options=gate_options)
    if connection.info.server_version >= 160000:
        # The owner limits the gate for its database; up to PostgreSQL 15, CREATEROLE is enough for that.
        connection.execute(f"GRANT {LOGS_GATE} TO {LOGS_OWNER} WITH ADMIN TRUE, INHERIT FALSE, SET FALSE")


def _ensure_login(
    connection: psycopg.Connection[tuple[object, ...]], name: str, password: str, *, options: LiteralString
) -> None:
    from psycopg import sql

    known = connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [name]).rowcount
    # Hashed here: the server never sees the password, not even in a log of failed statements.
    verifier = connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
    statement = sql.SQL("{verb} ROLE {name} LOGIN {options} PASSWORD {verifier}").format(
        verb=sql.SQL("ALTER" if known else "CREATE"),
        name=sql.Identifier(name),
        options=sql.SQL(options),
        verifier=sql.Literal(verifier),
    )
    connection.execute(statement)


def _ensure_database(
    connection: psycopg.Connection[tuple[object, ...]], name: str, owner: str, *, visitors: Sequence[str]
) -> None:
    from psycopg import sql

    database = sql.Identifier(name)
    if connection.execute("SELECT FROM pg_database WHERE datname = %s", [name]).rowcount == 0:
        # template0: a user's own server may have another encoding, or additions in template1.
        create = "CREATE DATABASE {database} OWNER {owner} TEMPLATE template0 ENCODING 'UTF8'"
        connection.execute(sql.SQL(create).format(database=database, owner=sql.Identifier(owner)))
    connection.execute(sql.SQL("REVOKE ALL ON DATABASE {database} FROM PUBLIC").format(database=database))
    for visitor in visitors:
        grant = sql.SQL("GRANT CONNECT ON DATABASE {database} TO {visitor}")
        connection.execute(grant.format(database=database, visitor=sql.Identifier(visitor)))


# --- Running ----------------------------------------------------------------------------------------------------------
logger = logging.getLogger(__name__)


def local_folder(project: Path) -> Path:
    """Return the root folder of a checkout's servers: ENDPOINTS_LOCAL_DIR, or `.local` in it."""
    return Path(os.environ.get("ENDPOINTS_LOCAL_DIR") or project / ".local").absolute()


def known_urls(root: Path) -> Servers | None:
    """Return the URLs of an installation without starting or touching anything; None before its first start."""
    secrets = load_secrets(root)
    return None if secrets is None else urls(secrets, load_listening(root))


def ensure_running(
    root: Path,
    *,
    postgres: bool = True,
    redis: bool = True,
    replicas: int = 0,
    settings: Mapping[str, str] = NO_SETTINGS,
) -> Servers:
    """Create and start the servers that are not running yet, and return the URLs of the requested ones.

    `replicas` is how many standbys PostgreSQL gets; more that run already stay up and are named too. `settings` are
    PostgreSQL's own, used when the cluster is created. Raises EmbeddedServerError.
    """
    root = make_root(root)
    try:
        with _locked(root / "start.lock", fcntl.LOCK_EX):
            secrets = load_secrets(root) or _first_secrets(root)
            listening = load_listening(root)
            if postgres:
                listening = _ensure_postgres(root, secrets, listening, settings=settings)
                listening = _ensure_standbys(root, secrets, listening, replicas)
            if redis:
                listening = _ensure_redis(root, secrets, listening)
    except OSError as error:  # A full disk, a read-only folder.
        raise EmbeddedServerError(f"The servers in {root} cannot be started: {error}") from error
    if not postgres:
        listening = replace(listening, postgres_socket_folder=None)
    return urls(secrets, listening if redis else replace(listening, redis_port=None))


def stop(root: Path) -> None:
    """Stop every server, even if they are in use; nothing is lost, and nothing happens if none runs."""
    root = root.resolve()
    secrets = load_secrets(root)
    if secrets is None:
        return
    with _locked(root / "start.lock", fcntl.LOCK_EX):
        place = find_place(root)
        # Standbys first: a primary's shutdown waits until they have everything.
        for server in (*made_standbys(place), PostgresServer(place)):
            server.stop()
        RedisServer(place, secrets.redis).stop(load_listening(root).redis_port)


@contextmanager
def using(
    root: Path,
    *,
    postgres: bool = True,
    redis: bool = True,
    replicas: int = 0,
    settings: Mapping[str, str] = NO_SETTINGS,
) -> Iterator[Servers]:
    """Use the servers and start them if needed, as `ensure_running` does; the last user stops them on leaving.

    Raises EmbeddedServerError.
    """
    root = make_root(root)
    # This waits while the previous last user stops the servers.
    with _locked(root / "in-use.lock", fcntl.LOCK_SH) as lock:
        try:
            yield ensure_running(root, postgres=postgres, redis=redis, replicas=replicas, settings=settings)
        finally:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass  # Somebody else still uses them, and will stop them.
            else:
                stop(root)


def _first_secrets(root: Path) -> Secrets:
    data = PostgresServer(find_place(root)).data
    if data.exists():
        raise EmbeddedServerError(
            f"{data} exists, but the file with its passwords is missing ({root / 'secrets.json'}): put that file back, "
            "or remove the folder to start again."
        )
    return draw_secrets(root)


def _prepare_databases(superuser_url: str, secrets: Secrets) -> None:
    import psycopg  # Slow to import, and known_urls() does not need it.

    try:
        prepare_databases(superuser_url, secrets)
    except psycopg.Error as error:
        raise EmbeddedServerError(f"The databases cannot be made: {error}") from error


def _ensure_postgres(root: Path, secrets: Secrets, listening: Listening, *, settings: Mapping[str, str]) -> Listening:
    place = find_place(root)
    server = PostgresServer(place)
    if server.process_id() is None:
        if place.folder != root:
            logger.warning("The account that runs PostgreSQL cannot enter %s: its files are in %s.", root, place.folder)
        if not server.exists():
            server.initialise(secrets.superuser, settings=settings)
            listening = record_listening(root, listening, databases_prepared=False)
        listening = record_listening(root, listening, postgres_socket_folder=str(server.start()))
    if not listening.databases_prepared:
        _prepare_databases(_superuser_url(secrets, listening), secrets)
        listening = record_listening(root, listening, databases_prepared=True)
    return listening


def _ensure_standbys(root: Path, secrets: Secrets, listening: Listening, count: int) -> Listening:
    folders = ensure_standbys(find_place(root), _superuser_url(secrets, listening), count)
    return record_listening(root, listening, standby_socket_folders=folders)


def _superuser_url(secrets: Secrets, listening: Listening) -> str:
    """Return the URL of the database that every cluster has, even before `logs` is created."""
    return str(urls(secrets, listening).superuser_url).replace("@/logs?", "@/postgres?")


def _ensure_redis(root: Path, secrets: Secrets, listening: Listening) -> Listening:
    server = RedisServer(find_place(root), secrets.redis)
    if server.process_id(listening.redis_port) is not None:
        return listening
    return record_listening(root, listening, redis_port=server.start(listening.redis_port))


@contextmanager
def _locked(path: Path, operation: int) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, operation)
        yield descriptor
    finally:
        os.close(descriptor)
