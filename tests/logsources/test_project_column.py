"""The column project as a load finds it: where it comes from, and that it stays so until the load ends."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from psycopg import Connection, errors

from logsources.databases import owner_connection
from logsources.project_column import ProjectColumn, hold_project_column, read_project_column
from logsources.tables import TableShape, create_table
from tests.logsources.older_tables import make_older_table

pytestmark = pytest.mark.django_db(databases=["default", "logs"])
TABLE = "columned_rows"


@pytest.mark.parametrize("path", [None, "project_ref", "tenant.ref"])
@pytest.mark.parametrize("read", [read_project_column, hold_project_column])
def test_tells_where_the_project_comes_from(logs: Connection[Any], path: str | None, read: Any) -> None:
    for statement in create_table(TableShape(TABLE, path)):
        logs.execute(statement)
    make_older_table(logs, "older_rows", path)
    assert read(logs, TABLE) == ProjectColumn(path, is_generated=False)
    assert read(logs, "older_rows") == ProjectColumn(path, is_generated=path is not None)


@pytest.mark.parametrize("read", [read_project_column, hold_project_column])
def test_a_missing_table_is_an_error_of_postgresql(logs: Connection[Any], read: Any) -> None:
    with pytest.raises(errors.UndefinedTable):
        read(logs, "no_such_table")


def test_nothing_changes_the_table_until_the_transaction_ends(logs: Connection[Any]) -> None:
    make_older_table(logs, TABLE, "project_ref", datetime.now(UTC).date())
    logs.execute("SET lock_timeout = '10ms'")
    with owner_connection() as load:
        for _ in range(12):  # PostgreSQL keeps the plan after some times, and locks the table all the same
            with load.transaction():
                hold_project_column(load, TABLE)
                with pytest.raises(errors.LockNotAvailable):
                    logs.execute(f"ALTER TABLE logs.{TABLE} ALTER COLUMN project DROP EXPRESSION")
                assert load.execute(
                    "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation IN"
                    " (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass(%s))",
                    (f"logs.{TABLE}",),
                ).fetchone() == (0,)
        logs.execute(f"ALTER TABLE logs.{TABLE} ALTER COLUMN project DROP EXPRESSION")
