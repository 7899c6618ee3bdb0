"""The log database for Django: which database an operation uses, the owner's connections, advisory locks, checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum, unique
from typing import Any, Final

import psycopg
from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connections
from psycopg.rows import TupleRow

from config.deadlines import BoundedConnection, answer_within
from config.setting_values import DEFAULT_PORT, each_server

# --- Connections ------------------------------------------------------------------------------------------------------
# Connections of the log database's owner, for DDL and loading.
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


# --- Lock spaces ------------------------------------------------------------------------------------------------------
# The advisory locks that the service takes in the log database: one space for each purpose, a key for each log
# source.
#
# PostgreSQL keeps locks of two four-byte keys apart from those of one eight-byte key, which publishing takes.
@unique
class LockSpace(IntEnum):
    """The first of two keys, a number that nobody else uses; the second is `hashtext` of the log source's name."""

    ROLLING = 1_819_240_308  # to create, fill or drop partitions; loads that need one wait
    UNTIMED_ROWS = 1_819_240_309  # a load of rows without timestamps, which looks for them before it stores them
    BUILDING = 1_819_240_310  # to build covering indexes, which takes minutes: nobody waits for it


# --- Router -----------------------------------------------------------------------------------------------------------
# Chooses the database of an operation.
class LogDatabaseRouter:
    """All models are in the default database; the log database takes only migrations that name it.

    A migration for the log database says so with `hints={"target_db": "logs"}`: it runs under
    `migrate --database logs` and is skipped on the default database; all others run the other way round.
    """

    def allow_migrate(self, db: str, app_label: str, model_name: str | None = None, **hints: object) -> bool:
        target = hints.get("target_db", "default")
        if target == "default":
            return db != LOGS_ALIAS
        return db == target


# --- Checks -----------------------------------------------------------------------------------------------------------
_Server = tuple[str, str]


def _servers(parameters: Mapping[str, Any], host: str, port: str) -> set[_Server]:
    servers = each_server({"host": parameters.get(host) or "", "port": parameters.get(port) or DEFAULT_PORT})
    return {(server["host"], server["port"]) for server in servers}


@register(Tags.database)
def check_log_database(
    app_configs: Sequence[AppConfig] | None = None, databases: Sequence[str] | None = None, **kwargs: object
) -> list[CheckMessage]:
    """Report URLs that leave row security without effect, or the two databases without a border."""
    if not databases or LOGS_ALIAS not in databases:
        return []
    owner = connections[LOGS_ALIAS].settings_dict
    state = connections["default"].settings_dict
    gate: Mapping[str, Any] = settings.LOGS_GATE
    messages: list[CheckMessage] = []
    if not gate.get("user"):
        messages.append(Error("LOGS_GATE_URL names no user.", hint=_GATE_HINT, id="logsources.E001"))
    elif gate["user"] == owner["USER"]:
        messages.append(
            Error(
                "The gate login owns the log database: row policies do not restrict it.",
                hint=_GATE_HINT,
                id="logsources.E002",
            )
        )
    if not _servers(owner, "HOST", "PORT") <= _servers(gate, "host", "port"):
        messages.append(
            Warning(
                "LOGS_GATE_URL does not name the servers of LOGS_DATABASE_URL.",
                hint="Right for a standby or a pooler of that server; otherwise nobody reads the loaded rows.",
                id="logsources.W001",
            )
        )
    if (_servers(state, "HOST", "PORT"), state["NAME"]) == (_servers(owner, "HOST", "PORT"), owner["NAME"]):
        messages.append(
            Warning(
                "DATABASE_URL and LOGS_DATABASE_URL name the same database.",
                hint="Give Django's tables a database of their own, so that the gate login cannot even connect to it.",
                id="logsources.W002",
            )
        )
    return messages


_GATE_HINT = "Give LOGS_GATE_URL a login of its own; the migration of the log database creates it."
