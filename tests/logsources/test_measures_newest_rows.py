"""The newest row of a log source, whichever partition and project it belongs to, found without reading the table."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from logsources.measures import newest_rows
from tests.moments import now

pytestmark = [pytest.mark.django_db, pytest.mark.sql]


@pytest.mark.parametrize(
    "ages",
    [
        {"a": 0.1, "b": 3},
        {"z": 0.1, "a": 3},
        {"": 0.1, "a": 3},
        {"": 50, "a": 26},
        {"a": -24},  # tomorrow's partition
        {"a": 24 * 365, "b": 24 * 400},  # without a day of their own
        {"a": -24 * 365, "b": 1},
    ],
)
def test_finds_the_newest_of_all(
    insert_rows: Any, log_database: psycopg.Connection[Any], ages: dict[str, float]
) -> None:
    rows = [{"timestamp": now() - timedelta(hours=hours), "project": project} for project, hours in ages.items()]
    insert_rows("edge_logs", rows)
    newest = now() - timedelta(hours=min(ages.values()))
    assert newest_rows(log_database, ["edge_logs"]) == {"edge_logs": newest}


def test_an_empty_source_and_an_unknown_one_have_none(log_database: psycopg.Connection[Any]) -> None:
    assert newest_rows(log_database, ["auth_logs", "no_such_logs"]) == {"auth_logs": None, "no_such_logs": None}
    assert newest_rows(log_database, []) == {}


def test_a_large_partition_is_not_read(log_database: psycopg.Connection[Any]) -> None:
    log_database.execute(
        "INSERT INTO logs.edge_logs (id, project, timestamp, event_message, metadata)"
        " SELECT n::text, 'p' || n %% 7, %s - n * interval '1 millisecond', repeat('x', 200), '[]'"
        " FROM generate_series(0, 20000) AS n",
        [now()],
    )
    log_database.execute("ANALYZE logs.edge_logs")
    before = _rows_read(log_database)
    assert newest_rows(log_database, ["edge_logs"]) == {"edge_logs": now()}
    assert _rows_read(log_database) - before < 1000


def _rows_read(connection: psycopg.Connection[Any]) -> int:
    connection.execute("SELECT pg_stat_force_next_flush()")
    connection.execute("SELECT pg_stat_clear_snapshot()")
    row = connection.execute(
        "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables WHERE schemaname = 'logs'"
    ).fetchone()
    assert row is not None
    return int(row[0])
