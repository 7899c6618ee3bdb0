"""The two databases and their logins, created alike on every server that the project prepares itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, LiteralString

from config.embedded.state import (
    LOGS_DATABASE,
    LOGS_GATE,
    LOGS_OWNER,
    SERVICE_DATABASE,
    SERVICE_OWNER,
    Secrets,
    Servers,
    database_urls,
)

if TYPE_CHECKING:
    import psycopg

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
        _ensure_login(connection, SERVICE_OWNER, passwords.service_owner, options="NOSUPERUSER NOCREATEROLE")
        _ensure_login(connection, LOGS_OWNER, passwords.logs_owner, options="NOSUPERUSER CREATEROLE")
        gate_options = f"NOSUPERUSER NOCREATEROLE NOCREATEDB NOINHERIT CONNECTION LIMIT {GATE_CONNECTION_LIMIT}"
        _ensure_login(connection, LOGS_GATE, passwords.logs_gate, options=gate_options)
        if connection.info.server_version >= 160000:
            # The owner limits the gate for its database; up to PostgreSQL 15, CREATEROLE is enough for that.
            connection.execute(f"GRANT {LOGS_GATE} TO {LOGS_OWNER} WITH ADMIN TRUE, INHERIT FALSE, SET FALSE")
        _ensure_database(connection, SERVICE_DATABASE, SERVICE_OWNER, visitors=[])
        _ensure_database(connection, LOGS_DATABASE, LOGS_OWNER, visitors=[LOGS_GATE])
        connection.execute("REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC")
        host, port = connection.info.host, connection.info.port
    servers = database_urls(passwords, host=host, port=port)
    # The superuser's password belongs to the caller and stays as it is.
    return replace(servers, superuser_url=make_conninfo(superuser_url, dbname=LOGS_DATABASE))


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
