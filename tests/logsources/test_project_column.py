"""The column project as a load finds it: where it comes from, and that it stays so until the load ends."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from psycopg import Connection, errors

from logsources.databases import owner_connection
from logsources.project_column import ProjectColumn, hold_table, read_project_column
from logsources.tables import TableShape, create_table
from tests.logsources.older_tables import make_older_table

pytestmark = [pytest.mark.django_db(databases=["default", "logs"]), pytest.mark.sql]
TABLE = "columned_rows"


@pytest.mark.parametrize("path", [None, "project_ref", "tenant.ref"])
def test_tells_where_the_project_comes_from(logs: Connection[Any], path: str | None) -> None:
    for statement in create_table(TableShape(TABLE, path)):
        logs.execute(statement)
    make_older_table(logs, "older_rows", path)
    assert read_project_column(logs, TABLE) == ProjectColumn(path, is_generated=False)
    assert read_project_column(logs, "older_rows") == ProjectColumn(path, is_generated=path is not None)


def test_a_missing_table_is_an_error_of_postgresql(logs: Connection[Any]) -> None:
    with pytest.raises(errors.UndefinedTable):
        read_project_column(logs, "no_such_table")


def test_nothing_changes_the_table_until_the_transaction_ends(logs: Connection[Any]) -> None:
    make_older_table(logs, TABLE, "project_ref", datetime.now(UTC).date())
    logs.execute("SET lock_timeout = '10ms'")
    with owner_connection() as load:
        with load.transaction():
            load.execute(hold_table(TABLE))
            with pytest.raises(errors.LockNotAvailable):
                logs.execute(f"ALTER TABLE logs.{TABLE} ALTER COLUMN project DROP EXPRESSION")
            assert load.execute(
                "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation IN"
                " (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass(%s))",
                (f"logs.{TABLE}",),
            ).fetchone() == (0,)
        logs.execute(f"ALTER TABLE logs.{TABLE} ALTER COLUMN project DROP EXPRESSION")
