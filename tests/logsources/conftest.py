"""The log database of the tests: tables that a test makes in schema logs are dropped after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connections
from psycopg import Connection, sql
from psycopg.types.json import Jsonb

from tests.conftest import OwnerSession

NOON = datetime(2025, 6, 2, 12, tzinfo=UTC)
InsertRow = Callable[..., None]


def _table_names(conn: Connection[Any]) -> set[str]:
    tables = conn.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'logs'::regnamespace AND relkind IN ('p', 'r')"
        " AND NOT relispartition"
    )
    return {name for (name,) in tables}


@pytest.fixture
def logs(db: None, owner_session: OwnerSession) -> Iterator[Connection[Any]]:
    """A connection of the owner."""
    with owner_session.lent() as conn:
        before = _table_names(conn)
        yield conn
        for name in _table_names(conn) - before:
            conn.execute(sql.SQL("DROP TABLE {} CASCADE").format(sql.Identifier("logs", name)))


@pytest.fixture
def gate(logs: Connection[Any]) -> Iterator[Connection[Any]]:
    """A connection of the gate login, in autocommit and without a role."""
    dbname = connections["logs"].settings_dict["NAME"]
    with psycopg.connect(**{**settings.LOGS_GATE, "dbname": dbname}, autocommit=True) as conn:
        yield conn


@pytest.fixture
def insert(logs: Connection[Any]) -> InsertRow:
    """Insert a row into a log table."""

    def insert_row(
        table: str,
        *,
        id: str = "1",
        timestamp: datetime = NOON,
        metadata: object = None,
        project: str = "",
        conn: Connection[Any] = logs,
    ) -> None:
        values: dict[str, object] = {
            "id": id,
            "project": project,
            "timestamp": timestamp,
            "event_message": "GET | 200",
            "metadata": Jsonb([{}] if metadata is None else metadata),
        }
        conn.execute(
            sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
                sql.Identifier("logs", table),
                sql.SQL(", ").join(map(sql.Identifier, values)),
                sql.SQL(", ").join(sql.Placeholder() * len(values)),
            ),
            list(values.values()),
        )

    return insert_row
