"""Where a log table's column `project` comes from, as the table itself says.

Loads fill the column. A table of an earlier version generates it from metadata until `upgrade_log_tables` has changed
the table; its loads leave the column out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from psycopg import Connection, sql

from logsources.tables import ROW_FIELD, parent
from logsources.topology import ONE_SERVER, Topology

_READ: Final = """
    SELECT attgenerated <> '', description FROM pg_attribute
    LEFT JOIN pg_description ON classoid = 'pg_class'::regclass AND objoid = attrelid AND objsubid = attnum
    WHERE attrelid = {name}::regclass AND attname = 'project'"""


@dataclass(frozen=True, slots=True)
class ProjectColumn:
    """`path` leads to the project inside metadata, None if it is a field of the row."""

    path: str | None
    is_generated: bool


def hold_table(name: str, topology: Topology = ONE_SERVER) -> sql.Composed:
    """Return the statement after which the table stays as it is until the end of the transaction.

    On a cluster it is held at the coordinator, where every change begins: LOCK would go to every node, and one that is
    down would stop the loads of all projects.
    """
    if topology.is_distributed:
        relation = sql.Literal(parent(name).as_string(None))
        return sql.SQL("SELECT lock_relation_if_exists({}, 'ACCESS SHARE')").format(relation)
    # A query over ONLY the parent would do the same, but Citus then locks every partition: no day could be attached.
    return sql.SQL("LOCK TABLE ONLY {} IN ACCESS SHARE MODE").format(parent(name))


def read_project_column(conn: Connection[Any], name: str) -> ProjectColumn:
    """Return where the column comes from. Raises psycopg.errors.UndefinedTable."""
    row = conn.execute(sql.SQL(_READ).format(name=sql.Literal(parent(name).as_string(None)))).fetchone()
    is_generated, comment = row or (False, None)
    return ProjectColumn(None if comment == ROW_FIELD else comment, bool(is_generated))
