"""Makes a log table fit its source: finds the difference between the actual and the wanted shape and applies it.

The actual shape is read from the log database itself, never from an earlier save: so the next save completes a change
that was interrupted half-way.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import ValidationError
from psycopg import Connection, sql

from logsources import covering, partitions, rolling, tables
from logsources.roles import DRAFT_SCHEMAS, LOGS_SCHEMA
from logsources.rolling import RolledSource
from logsources.tables import ColumnType, ExtractedColumnShape, TableShape
from logsources.topology import FOR_COORDINATOR_ALONE, FOR_EVERY_NODE, Topology, read_topology

# An operator's DDL waits this long for running loads and queries, then gives up with a message.
DDL_LOCK_TIMEOUT = "10s"


def fit_table(conn: Connection[Any], source: RolledSource) -> None:
    """Create or alter the table until it has the source's shape; a table with that shape stays as it is.

    Raises ValidationError if the project would move in a table with rows, psycopg.Error if PostgreSQL refuses.
    """
    shape = source.shape
    with conn.transaction():
        rolling.take_turn(conn, shape.name)
        rolling.set_lock_timeout(conn, DDL_LOCK_TIMEOUT)
        topology = read_topology(conn)
        existing = read_shape(conn, shape.name)
        if existing is not None and existing.project_path != shape.project_path:
            _drop_empty_table(conn, shape.name)
            existing = None
        if existing is None:
            statements = [*tables.create_table(shape, topology), *tables.distribute_table(shape.name, topology)]
        else:
            statements = _alterations(conn, existing, shape, topology)
        if statements:
            drop_sandbox_schemas(conn, DRAFT_SCHEMAS)
        for statement in statements:
            conn.execute(statement)
    # Large partitions get theirs by rolling, because a person waits for this save.
    covering.fit_covering_indexes(conn, shape, up_to_bytes=covering.SMALL_PARTITION_BYTES)
    # Without these first partitions, all rows of a new table would go to the default partition until the next roll.
    rolling.roll_source(conn, source, today=partitions.utc_day(datetime.now(UTC)))


def drop_table(conn: Connection[Any], name: str) -> None:
    """Drop a table with every row; raises psycopg.errors.DependentObjectsStillExist if a view reads it."""
    with conn.transaction():
        rolling.take_turn(conn, name)
        rolling.set_lock_timeout(conn, DDL_LOCK_TIMEOUT)
        drop_sandbox_schemas(conn, DRAFT_SCHEMAS)
        conn.execute(tables.drop_table(name))


def drop_sandbox_schemas(conn: Connection[Any], beginning: str) -> None:
    """Drop the sandbox schemas whose names begin so, inside the caller's transaction.

    Views of drafts (DRAFT_SCHEMAS) would keep a table from changing, and would not have its new columns; the next try
    of a draft makes them anew.
    """
    found = conn.execute(
        "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s) AND pg_has_role(nspowner, 'USAGE')",
        (beginning,),
    ).fetchall()
    if found:
        conn.execute(FOR_COORDINATOR_ALONE)
        for (name,) in found:
            conn.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))
        conn.execute(FOR_EVERY_NODE)  # the caller goes on to change tables


def _drop_empty_table(conn: Connection[Any], name: str) -> None:
    conn.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(tables.parent(name)))
    row = conn.execute(sql.SQL("SELECT EXISTS (SELECT 1 FROM {})").format(tables.parent(name))).fetchone()
    if row is not None and row[0]:
        raise ValidationError(
            {"project_path": f"Table {name} contains rows, so its project path cannot change. Create a new source."}
        )
    conn.execute(tables.drop_table(name))


def _alterations(
    conn: Connection[Any], existing: TableShape, wanted: TableShape, topology: Topology
) -> list[sql.Composed]:
    have = {(column.name, column.path, column.type): column for column in existing.columns}
    want = {(column.name, column.path, column.type): column for column in wanted.columns}
    dropped = [column.name for key, column in have.items() if key not in want]
    added = [column for key, column in want.items() if key not in have]
    statements = tables.alter_columns(wanted.name, dropped=dropped, added=added)
    for key in have.keys() & want.keys():
        if want[key].indexed and not have[key].indexed:
            statements.append(tables.create_index(wanted.name, want[key]))
        if have[key].indexed and not want[key].indexed:
            statements += [tables.drop_index(index) for index in _indexes_of(conn, wanted.name, column=have[key].name)]
    if not is_secured(conn, wanted.name, topology):
        statements += tables.secure_table(wanted.name, topology)
    return statements


def is_secured(conn: Connection[Any], name: str, topology: Topology) -> bool:
    """Tell whether a log table has row security, and for each of its readers the policy and the right to read."""
    policies = tables.policy_names(topology)
    row = conn.execute(
        "SELECT relrowsecurity AND %s = (SELECT count(*) FROM pg_policy,"
        " to_regrole(replace(polname, '_rows', '')) AS reader WHERE polrelid = pg_class.oid AND polname = ANY(%s)"
        " AND polroles = ARRAY[reader::oid] AND has_table_privilege(reader, pg_class.oid, 'SELECT'))"
        " FROM pg_class WHERE oid = to_regclass(%s)",
        (len(policies), policies, f"{LOGS_SCHEMA}.{name}"),
    ).fetchone()
    return row is not None and bool(row[0])


def read_shape(conn: Connection[Any], name: str) -> TableShape | None:
    """Return the shape of the table in the log database, None if there is no table."""
    rows = conn.execute(
        "SELECT attname, col_description(attrelid, attnum) FROM pg_attribute"
        " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
        (f"{LOGS_SCHEMA}.{name}",),
    ).fetchall()
    if not rows:
        return None
    descriptions: dict[str, str] = {column: description or "" for column, description in rows}
    project = descriptions.pop("project", "")
    covered = covering.covered_columns(conn, name)
    columns = []
    for column, description in descriptions.items():
        column_type, separator, path = description.partition(" from ")
        if column not in tables.BASE_COLUMNS and separator:
            indexed = bool(_indexes_of(conn, name, column=column))
            columns.append(
                ExtractedColumnShape(column, path, ColumnType(column_type), indexed, covered=column in covered)
            )
    return TableShape(name, None if project == tables.ROW_FIELD else project, tuple(columns))


def _indexes_of(conn: Connection[Any], name: str, *, column: str) -> list[str]:
    rows = conn.execute(
        "SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
        " JOIN pg_attribute ON attrelid = indrelid AND attname = %s"
        " WHERE indrelid = to_regclass(%s) AND indkey::text = attnum::text",
        (column, f"{LOGS_SCHEMA}.{name}"),
    )
    return [index for (index,) in rows]
