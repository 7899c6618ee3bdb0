"""Whether a database has the tables of this version: what comes before everything that would change one.

Until 0.1.0 nothing is kept for the tables of another version, so their numbers must be the same. Django's database has
them in the names of the migrations that it recorded, the log database in a comment on its schema `logs_private`. A
database without any of our tables is as good as one with the right ones.
"""

from __future__ import annotations

from typing import Any, Final

from django.db import connections
from django.db.migrations.loader import MigrationLoader
from psycopg import Connection, sql

from logsources.databases import LOGS_ALIAS, owner_connection
from logsources.roles import PRIVATE_SCHEMA

# Of everything that migrations and saved log sources make in the log database; tests/logsources/test_schema_numbers.py
# tells when to raise it.
LOG_SCHEMA: Final = "schema 1"
_APPLICATIONS: Final = ("endpoints", "logsources")
_NUMBER: Final = """
    SELECT coalesce((
        SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = 'logs_private'
    ), 'none')
    WHERE EXISTS (SELECT FROM pg_namespace WHERE nspname = 'logs_private')
        OR EXISTS (SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = 'logs')"""
_DEMO: Final = "the demo's own databases are in the folder .local: move it away"


def number_log_schema(conn: Connection[Any]) -> None:
    """Note in the log database that it has what this version makes there."""
    comment = sql.SQL("COMMENT ON SCHEMA {} IS {}").format(sql.Identifier(PRIVATE_SCHEMA), sql.Literal(LOG_SCHEMA))
    conn.execute(comment)


def read_log_schema(conn: Connection[Any]) -> str | None:
    """Return what the log database says that it has, "none" if it says nothing; None if nothing of ours is there."""
    found = conn.execute(_NUMBER).fetchone()
    return str(found[0]) if found else None


def told_of_another_log_schema(conn: Connection[Any]) -> str:
    """Return in one sentence what to do about a log database of another version; "" for any other."""
    found = read_log_schema(conn)
    if found in (None, LOG_SCHEMA):
        return ""
    return (
        f"The log database was made by another version ({found}, not {LOG_SCHEMA}): let LOGS_DATABASE_URL and "
        "LOGS_GATE_URL name a new, empty one, or drop its schemas logs, logs_private, log_functions and sandbox_…; "
        "docs/production.md (Databases of another version) says how to take rows along, and " + _DEMO + "."
    )


def told_of_another_version(alias: str) -> str:
    """Return in one sentence what to do about a database with the tables of another version; "" for any other."""
    if alias == LOGS_ALIAS:
        with owner_connection() as conn:
            return told_of_another_log_schema(conn)
    loader = MigrationLoader(connections[alias])
    unknown = sorted(
        f"{application}.{name}"
        for application, name in loader.applied_migrations
        if application in _APPLICATIONS and (application, name) not in loader.disk_migrations
    )
    if not unknown:
        return ""
    return (
        f"Django's database was made by another version (it recorded {unknown[0]}): let DATABASE_URL name a new, empty "
        "one; docs/production.md (Databases of another version) says how to take endpoints along, and " + _DEMO + "."
    )
