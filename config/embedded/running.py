"""Starting, sharing and stopping the private servers of one root folder.

A flock file keeps processes from disturbing each other; its locks vanish with their process, so even kill -9 leaves
nothing to clean up. Whoever starts or stops the servers holds it alone, every user of them shares it. A user that
leaves asks for it alone; only the last one gets it, and stops the servers.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, LiteralString

from config.embedded.postgres_server import ACCOUNT, EmbeddedServerError, PostgresServer, account, is_open
from config.embedded.redis_server import RedisServer
from config.embedded.state import (
    LOGS_DATABASE,
    LOGS_GATE,
    LOGS_OWNER,
    SERVICE_DATABASE,
    SERVICE_OWNER,
    Secrets,
    Servers,
    database_urls,
    keep,
    known_urls,
    load_secrets,
    standbys,
)
from config.processes import held_signals

if TYPE_CHECKING:
    import psycopg

GATE_CONNECTION_LIMIT = 40  # of the server's 100: the pools of the web processes never starve the owners
# For root, if its account cannot enter the project's folder (below /root, for example). Not /var/tmp:
# systemd-tmpfiles deletes old files there, a database's rarely written ones first.
OUTSIDE_FOLDER = Path("/var/lib/log-query-endpoints")
TURN_SECONDS = 5.0
Settings = Mapping[str, str]
NO_SETTINGS: Settings = {}


# --- Databases --------------------------------------------------------------------------------------------------------
# The two databases and their logins, created alike on every server that the project prepares itself.
def prepare_databases(superuser_url: str, secrets: Secrets | None = None) -> Servers:
    """Create missing roles and databases, set the passwords, and return the URLs.

    `superuser_url` is a psycopg conninfo or URL that reaches any database of a server with PostgreSQL 15 or later;
    without `secrets` it creates new passwords. Afterwards only the superuser can reach a database that is not its own.
    Raises psycopg.Error.
    """
    import psycopg  # Slow to import, and not needed to find running servers.
    from psycopg.conninfo import make_conninfo

    passwords = secrets or Secrets()
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        prepare_logins(connection, passwords)
        _ensure_database(connection, SERVICE_DATABASE, SERVICE_OWNER)
        _ensure_database(connection, LOGS_DATABASE, LOGS_OWNER)
        connection.execute(f"GRANT CONNECT ON DATABASE {LOGS_DATABASE} TO {LOGS_GATE}")
        connection.execute("REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC")
        host, port = connection.info.host, connection.info.port
    servers = database_urls(passwords, host=host, port=port)
    # The superuser's password belongs to the caller and stays as it is.
    return replace(servers, superuser_url=make_conninfo(superuser_url, dbname=LOGS_DATABASE))


def prepare_logins(connection: psycopg.Connection[tuple[object, ...]], passwords: Secrets) -> None:
    """Create the missing logins and set their passwords. `connection` is a superuser's. Raises psycopg.Error."""
    from psycopg import sql

    gate_options: LiteralString = f"NOCREATEROLE NOCREATEDB NOINHERIT CONNECTION LIMIT {GATE_CONNECTION_LIMIT}"
    for name, password, options in (
        (SERVICE_OWNER, passwords.service_owner, "NOCREATEROLE"),
        (LOGS_OWNER, passwords.logs_owner, "CREATEROLE"),
        (LOGS_GATE, passwords.logs_gate, gate_options),
    ):
        known = connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [name]).rowcount
        # Hashed here: the server never sees the password, not even in a log of failed statements.
        verifier = connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
        verb: LiteralString = "ALTER" if known else "CREATE"
        statement = sql.SQL(f"{verb} ROLE {name} LOGIN NOSUPERUSER {options} PASSWORD {{}}")
        connection.execute(statement.format(sql.Literal(verifier)))
    if connection.info.server_version >= 160000:
        # The owner limits the gate for its database; up to PostgreSQL 15, CREATEROLE is enough for that.
        connection.execute(f"GRANT {LOGS_GATE} TO {LOGS_OWNER} WITH ADMIN TRUE, INHERIT FALSE, SET FALSE")


def _ensure_database(
    connection: psycopg.Connection[tuple[object, ...]], name: LiteralString, owner: LiteralString
) -> None:
    if connection.execute("SELECT FROM pg_database WHERE datname = %s", [name]).rowcount == 0:
        # template0: a user's own server may have another encoding, or additions in template1.
        connection.execute(f"CREATE DATABASE {name} OWNER {owner} TEMPLATE template0 ENCODING 'UTF8'")
    connection.execute(f"REVOKE ALL ON DATABASE {name} FROM PUBLIC")


# --- Running ----------------------------------------------------------------------------------------------------------
def local_folder(project: Path) -> Path:
    """Return the root folder of a checkout's servers: ENDPOINTS_LOCAL_DIR, or `.local` in it.

    For root, whose PostgreSQL runs as an account that may be unable to enter the checkout, it is another one then.
    """
    if given := os.environ.get("ENDPOINTS_LOCAL_DIR"):
        return Path(given).absolute()
    if os.geteuid() == 0 and not is_open(project):
        return OUTSIDE_FOLDER / hashlib.sha256(os.fsencode(project)).hexdigest()[:12]
    return project / ".local"


def ensure_running(
    root: Path, *, postgres: bool = True, redis: bool = True, replicas: int = 0, settings: Settings = NO_SETTINGS
) -> Servers:
    """Create and start the servers that are not running yet, and return the URLs of the requested ones.

    `replicas` is how many standbys PostgreSQL gets, each a new copy of it. `settings` are PostgreSQL's own, used when
    the cluster is created. Only for whoever is alone in the folder, see `using`. Raises EmbeddedServerError.
    """
    before = os.umask(0o022)  # root's PostgreSQL runs as another account and must be able to pass through
    try:
        root.mkdir(parents=True, exist_ok=True)
        if postgres and account() and not is_open(root.resolve()):
            raise EmbeddedServerError(
                f"PostgreSQL does not run as root, and its account {ACCOUNT} cannot enter {root}: name another folder "
                "(ENDPOINTS_LOCAL_DIR), or run this as another user."
            )
        secrets = load_secrets(root)
        if secrets is None and (root / "postgres").exists():
            raise EmbeddedServerError(
                f"{root / 'postgres'} exists, but the file with its passwords is missing ({root / 'secrets.json'}): "
                "put that file back, or remove the folder to start again."
            )
        secrets = secrets or Secrets()
        keep(root, secrets)
        if postgres:
            _ensure_postgres(root, secrets, settings)
            count = replicas
            while PostgresServer(root, f"standby{count + 1}").is_running():
                count += 1  # of another user
            secrets = replace(secrets, databases_prepared=True, standbys=count)
            keep(root, secrets)
            for standby in standbys(root, replicas):
                if not standby.is_running():
                    standby.follow(PostgresServer(root), secrets.superuser)
        server = RedisServer(root, secrets.redis)
        if redis and not server.is_running(secrets.redis_port):
            keep(root, replace(secrets, redis_port=server.start(secrets.redis_port)))
    except OSError as error:  # A full disk, a read-only folder.
        raise EmbeddedServerError(f"The servers in {root} cannot be started: {error}") from error
    finally:
        os.umask(before)
    return _urls(root, postgres=postgres, redis=redis)


def stop(root: Path) -> None:
    """Stop every server, even if they are in use; nothing is lost, and nothing happens if none runs."""
    secrets = load_secrets(root)
    if secrets is not None:
        RedisServer(root, secrets.redis).stop(secrets.redis_port)
        # Standbys first: a primary's shutdown waits until they have everything.
        for server in (*standbys(root, secrets.standbys), PostgresServer(root)):
            server.stop()


@contextmanager
def using(
    root: Path, *, postgres: bool = True, redis: bool = True, replicas: int = 0, settings: Settings = NO_SETTINGS
) -> Iterator[Servers]:
    """Use the servers and start them if needed, as `ensure_running` does; the last user stops them on leaving.

    Signals that ask for an end wait while servers are started or stopped. Raises EmbeddedServerError.
    """
    before = os.umask(0o022)
    root.mkdir(parents=True, exist_ok=True)
    os.umask(before)
    with (root / "in-use.lock").open("a") as lock:
        try:
            with held_signals():
                deadline = time.monotonic() + TURN_SECONDS
                while not (is_alone := _is_alone(lock)):
                    fcntl.flock(lock, fcntl.LOCK_SH)  # waits while they are started or stopped
                    if _all_run(root, postgres, redis, replicas):
                        break
                    fcntl.flock(lock, fcntl.LOCK_UN)
                    if time.monotonic() > deadline:
                        raise EmbeddedServerError(
                            f"Another command uses {root}, and not all the servers that this one needs: end it first."
                        )
                    time.sleep(0.05)
                if is_alone:
                    ensure_running(root, postgres=postgres, redis=redis, replicas=replicas, settings=settings)
                    fcntl.flock(lock, fcntl.LOCK_SH)
                servers = _urls(root, postgres=postgres, redis=redis)
            yield servers
        finally:
            with held_signals():
                if _is_alone(lock):
                    stop(root)


def _is_alone(lock: IO[str]) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _all_run(root: Path, postgres: bool, redis: bool, replicas: int) -> bool:
    secrets = load_secrets(root) or Secrets()
    servers = (PostgresServer(root), *standbys(root, replicas)) if postgres else ()
    is_redis_fine = not redis or RedisServer(root, secrets.redis).is_running(secrets.redis_port)
    return is_redis_fine and all(server.is_running() for server in servers)


def _urls(root: Path, *, postgres: bool, redis: bool) -> Servers:
    known = known_urls(root) or Servers()
    if not redis:
        known = replace(known, redis_url=None)
    return known if postgres else Servers(redis_url=known.redis_url)


def _ensure_postgres(root: Path, secrets: Secrets, settings: Settings) -> None:
    import psycopg  # Slow to import, and known_urls() does not need it.

    server = PostgresServer(root)
    is_new = not server.exists()
    if is_new:
        server.initialise(secrets.superuser, settings)
    if not server.is_running():
        server.start()
    if is_new or not secrets.databases_prepared:
        url = database_urls(secrets, host=str(server.sockets), port=5432).superuser_url
        try:
            prepare_databases(psycopg.conninfo.make_conninfo(str(url), dbname="postgres"), secrets)
        except psycopg.Error as error:
            raise EmbeddedServerError(f"The databases cannot be made: {error}") from error
