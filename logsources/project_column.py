"""Where a log table's column `project` comes from, as the table itself says.

Loads fill the column. A table of an earlier version generates it from metadata until `upgrade_log_tables` has changed
the table; its loads leave the column out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from psycopg import Connection, sql

from logsources.tables import ROW_FIELD, parent

_READ: Final = """
    SELECT attgenerated <> '', description FROM pg_attribute
    LEFT JOIN pg_description ON classoid = 'pg_class'::regclass AND objoid = attrelid AND objsubid = attnum
    WHERE attrelid = {name}::regclass AND attname = 'project'"""
# A query that names a table locks it against every ALTER and DROP until the end of its transaction. As part of the one
# statement, which stays prepared, this costs a load 80 us; with a LOCK TABLE before it 170.
_HOLD: Final = " AND NOT EXISTS (SELECT 1 FROM ONLY {table})"


@dataclass(frozen=True, slots=True)
class ProjectColumn:
    """`path` leads to the project inside metadata, None if it is a field of the row."""

    path: str | None
    is_generated: bool


def read_project_column(conn: Connection[Any], name: str) -> ProjectColumn:
    """Return where the column comes from. Raises psycopg.errors.UndefinedTable."""
    return _ask(conn, name, also=sql.SQL(""))


def hold_project_column(conn: Connection[Any], name: str) -> ProjectColumn:
    """Do the same for a load: the column stays as it is until the end of the transaction."""
    return _ask(conn, name, also=sql.SQL(_HOLD).format(table=parent(name)))


def _ask(conn: Connection[Any], name: str, *, also: sql.Composable) -> ProjectColumn:
    row = conn.execute(sql.SQL(_READ).format(name=sql.Literal(parent(name).as_string(None))) + also).fetchone()
    is_generated, comment = row or (False, None)
    return ProjectColumn(None if comment == ROW_FIELD else comment, bool(is_generated))
