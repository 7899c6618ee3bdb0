"""Starting, sharing and stopping the private servers of one root folder.

Locks of two files (flock) keep processes from disturbing each other; they vanish with their process, so even kill -9
leaves nothing to clean up. Whoever starts or stops servers holds `turn.lock`, every user of them shares `in-use.lock`.
A user that leaves asks for that one alone; only the last one gets it, and stops the servers.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from config.embedded import state
from config.embedded.postgres_server import EmbeddedServerError, PostgresServer, is_open
from config.embedded.redis_server import RedisServer
from config.embedded.state import Secrets, Servers
from config.processes import held_signals

if TYPE_CHECKING:
    import psycopg

# For root, if its account cannot enter the project's folder (below /root, for example). Not /var/tmp:
# systemd-tmpfiles deletes old files there, a database's rarely written ones first.
OUTSIDE_FOLDER = Path("/var/lib/log-query-endpoints")
Settings = Mapping[str, str]
NO_SETTINGS: Settings = {}


def prepare_databases(superuser_url: str, secrets: Secrets | None = None) -> Servers:
    """Create missing roles and databases, set the passwords, and return the URLs.

    `superuser_url` is a psycopg conninfo or URL of a server with PostgreSQL 15 or later; without `secrets` it creates
    new passwords. Afterwards only the superuser can reach a database that is not its own. Raises psycopg.Error.
    """
    import psycopg  # Slow to import, and not needed to find running servers.
    from psycopg.conninfo import make_conninfo

    passwords = secrets or Secrets()
    with psycopg.connect(superuser_url, dbname="postgres", autocommit=True) as connection:
        prepare_logins(connection, passwords)
        for name, owner in ((state.SERVICE_DATABASE, state.SERVICE_OWNER), (state.LOGS_DATABASE, state.LOGS_OWNER)):
            if not connection.execute("SELECT FROM pg_database WHERE datname = %s", [name]).rowcount:
                # template0: a user's own server may have another encoding, or additions in template1.
                connection.execute(f"CREATE DATABASE {name} OWNER {owner} TEMPLATE template0 ENCODING 'UTF8'")
            connection.execute(f"REVOKE ALL ON DATABASE {name} FROM PUBLIC")
        connection.execute(f"GRANT CONNECT ON DATABASE {state.LOGS_DATABASE} TO {state.LOGS_GATE}")
        connection.execute("REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC")
        host, port = connection.info.host, connection.info.port
    servers = state.database_urls(passwords, host=host, port=port)
    # The superuser's password belongs to the caller and stays as it is.
    return replace(servers, superuser_url=make_conninfo(superuser_url, dbname=state.LOGS_DATABASE))


def prepare_logins(connection: psycopg.Connection[tuple[object, ...]], passwords: Secrets) -> None:
    """Create the missing logins and set their passwords. `connection` is a superuser's. Raises psycopg.Error."""
    from psycopg import sql

    for name, password, options in (
        (state.SERVICE_OWNER, passwords.service_owner, "NOCREATEROLE"),
        (state.LOGS_OWNER, passwords.logs_owner, "CREATEROLE"),
        # Of the server's 100 connections: the pools of the web processes never starve the owners.
        (state.LOGS_GATE, passwords.logs_gate, "NOCREATEROLE NOCREATEDB NOINHERIT CONNECTION LIMIT 40"),
    ):
        if not connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [name]).rowcount:
            connection.execute(f"CREATE ROLE {name}")
        # Hashed here: the server never sees the password, not even in a log of failed statements.
        verifier = connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
        statement = sql.SQL(f"ALTER ROLE {name} LOGIN NOSUPERUSER {options} PASSWORD {{}}")
        connection.execute(statement.format(sql.Literal(verifier)))
    if connection.info.server_version >= 160000:
        # The owner limits the gate for its database; up to PostgreSQL 15, CREATEROLE is enough for that.
        connection.execute(f"GRANT {state.LOGS_GATE} TO {state.LOGS_OWNER} WITH ADMIN TRUE, INHERIT FALSE, SET FALSE")


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
    the cluster is created. Nobody else may do so in the folder meanwhile, see `using`. Raises EmbeddedServerError.
    """
    import psycopg  # Slow to import, and known_urls() does not need it.

    before = os.umask(0o022)  # root's PostgreSQL runs as another account and must be able to pass through
    try:
        root.mkdir(parents=True, exist_ok=True)
        secrets = state.load_secrets(root) or Secrets()
        state.keep(root, secrets)
        if postgres:
            primary = PostgresServer(root)
            if not primary.is_running():
                if not primary.data.exists():
                    primary.initialise(secrets.superuser, settings)
                primary.start()
                prepare_databases(str(state.urls(root, secrets).superuser_url), secrets)
            count = replicas
            while PostgresServer(root, f"standby{count + 1}").is_running():
                count += 1  # of another user
            secrets = replace(secrets, standbys=count)
            state.keep(root, secrets)
            for standby in state.standbys(root, replicas):
                if not standby.is_running():
                    standby.follow(primary, secrets.superuser)
        server = RedisServer(root, secrets.redis)
        if redis and not server.is_running(secrets.redis_port):
            secrets = replace(secrets, redis_port=server.start(secrets.redis_port))
            state.keep(root, secrets)
    except (OSError, psycopg.Error) as error:  # A full disk, a read-only folder, other passwords.
        raise EmbeddedServerError(f"The servers in {root} cannot be started: {error}") from error
    finally:
        os.umask(before)
    return state.urls(root, secrets, postgres=postgres, redis=redis)


def stop(root: Path) -> None:
    """Stop every server, even if they are in use; nothing is lost, and nothing happens if none runs."""
    secrets = state.load_secrets(root)
    if secrets is not None:
        RedisServer(root, secrets.redis).stop(secrets.redis_port)
        # Standbys first: a primary's shutdown waits until they have everything.
        for server in (*state.standbys(root, secrets.standbys), PostgresServer(root)):
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
    with (root / "turn.lock").open("a") as turn, (root / "in-use.lock").open("a") as users:
        try:
            with held_signals():
                fcntl.flock(turn, fcntl.LOCK_EX)
                fcntl.flock(users, fcntl.LOCK_SH)
                servers = ensure_running(root, postgres=postgres, redis=redis, replicas=replicas, settings=settings)
                fcntl.flock(turn, fcntl.LOCK_UN)
            yield servers
        finally:
            with held_signals(), suppress(BlockingIOError):  # others use them
                fcntl.flock(turn, fcntl.LOCK_EX)
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                stop(root)
