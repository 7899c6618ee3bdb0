"""Connections of the log database's owner, for DDL and loading."""

from __future__ import annotations

from typing import Any, Final

import psycopg
from django.db import connections
from psycopg.rows import TupleRow

from config.deadlines import BoundedConnection, answer_within

LOGS_ALIAS = "logs"
CONNECTED_WITHIN_SECONDS: Final = 5.0  # a server that hangs accepts connections but does not answer

# Options that Django's backend understands but libpq does not.
_DJANGO_OPTIONS = frozenset({"assume_role", "isolation_level", "pool", "server_side_binding"})


def owner_parameters() -> dict[str, Any]:
    """Return the connection parameters of the log database's owner for libpq.

    The database is the one that Django's alias `logs` names at this moment, which may be a test database.
    """
    settings = connections[LOGS_ALIAS].settings_dict
    parameters: dict[str, Any] = {
        name: value for name, value in settings["OPTIONS"].items() if name not in _DJANGO_OPTIONS
    }
    for keyword, setting in (
        ("dbname", "NAME"),
        ("user", "USER"),
        ("password", "PASSWORD"),
        ("host", "HOST"),
        ("port", "PORT"),
    ):
        if settings[setting]:
            parameters[keyword] = settings[setting]
    return parameters


def owner_connection() -> psycopg.Connection[TupleRow]:
    """Return a new autocommit connection as the log database's owner, to be used as a context manager.

    It is never Django's own connection: changes are committed here even if a surrounding `atomic` block fails. The
    session's time zone is UTC. Raises psycopg.OperationalError if the server cannot be reached within
    CONNECTED_WITHIN_SECONDS.
    """
    with answer_within(CONNECTED_WITHIN_SECONDS):
        connection = BoundedConnection.connect(**owner_parameters(), autocommit=True)
        try:
            # Not a start-up option: poolers such as PgBouncer refuse those.
            connection.execute("SET TIME ZONE 'UTC'")
        except BaseException:
            connection.close()
            raise
    return connection
