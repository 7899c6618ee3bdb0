"""Where a table says that its project comes from, a load must read it from too."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg import Connection, errors

from logsources.storing import ProjectMoved, TableCopy
from logsources.tables import TableShape, create_table

pytestmark = [pytest.mark.django_db(databases=["default", "logs"]), pytest.mark.sql]
NAME = "stored_rows"
PATHS = (None, "project_ref", "tenant.ref")


@pytest.mark.parametrize("made", PATHS)
@pytest.mark.parametrize("loaded", PATHS)
def test_a_load_reads_the_project_where_the_table_has_it(
    logs: Connection[Any], made: str | None, loaded: str | None
) -> None:
    for statement in create_table(TableShape(NAME, made)):
        logs.execute(statement)
    if made == loaded:
        TableCopy(logs, TableShape(NAME, loaded))
    else:
        with pytest.raises(ProjectMoved):
            TableCopy(logs, TableShape(NAME, loaded))


def test_a_table_that_does_not_say_it_takes_no_load(logs: Connection[Any]) -> None:
    for statement in create_table(TableShape(NAME, None)):
        logs.execute(statement)
    logs.execute(f"COMMENT ON COLUMN logs.{NAME}.project IS NULL")
    with pytest.raises(ProjectMoved):
        TableCopy(logs, TableShape(NAME, None))


def test_a_missing_table_is_an_error_of_postgresql(logs: Connection[Any]) -> None:
    with pytest.raises(errors.UndefinedTable):
        TableCopy(logs, TableShape("no_such_table", None))
