"""Gives a log table of an earlier version today's shape, while loads and queries go on.

=========  ====================================================  ==============================
           project                                               key
=========  ====================================================  ==============================
earlier    generated from metadata in some sources; may be NULL  (id, timestamp)
today      filled by loads; NOT NULL, '' for rows without one    (id, project, timestamp)
=========  ====================================================  ==============================

1. The column is no longer generated, and a CHECK, not validated yet, refuses new rows without a project. This locks
   the table for a moment.
2. Partition by partition, NULL becomes '', the CHECK is validated, and the index of the new key is built: loads and
   queries go on.
3. The indexes become the key. This locks the table for a moment too, because all that had to be read has been read.

Each step looks at what is there, so a run that was interrupted is completed by the next one. In between, loads and
queries work: `project_column` tells loads what to write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, Final

from psycopg import Connection, errors, sql

from logsources import covering, rolling, table_changes
from logsources.roles import DRAFT_SCHEMAS, LOGS_SCHEMA
from logsources.tables import KEY_COLUMNS, parent

_CHECK: Final = "project_is_known"
_KEY: Final = "$key"  # ends the name of a partition's index until it becomes the key; no source has a `$` in its name
_TABLE: Final = """
SELECT attgenerated <> '', attnotnull, conname, array(
    SELECT attname::text FROM unnest(conkey) WITH ORDINALITY AS part (number, place)
    JOIN pg_attribute ON attrelid = conrelid AND attnum = number ORDER BY place)
FROM pg_attribute AS project JOIN pg_constraint ON conrelid = attrelid AND contype = 'p'
WHERE attrelid = to_regclass(%(table)s) AND attname = 'project'
"""
_PARTITIONS: Final = """
SELECT child.relname, pg_relation_size(child.oid), coalesce(convalidated, false) AND coalesce(indisvalid, false)
FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
LEFT JOIN pg_constraint ON conrelid = child.oid AND conname = %(check)s
LEFT JOIN pg_index ON indexrelid = to_regclass(format('%%I.%%I', %(schema)s::text, child.relname || %(key)s::text))
WHERE inhparent = to_regclass(%(table)s) ORDER BY 1 DESC
"""

Report = Callable[[str, float], None]  # the step, and its seconds


class UpgradeRefused(Exception):
    """The table cannot be upgraded now; the message tells the operator what to do."""


@dataclass(frozen=True, slots=True)
class UpgradeStep:
    """One change: what it does in words. `take` tells whether it could do it; if not, the steps are planned anew."""

    summary: str
    take: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class _Partition:
    name: str
    bytes: int
    is_ready: bool  # for the new key


def upgrade_table(conn: Connection[Any], name: str, *, report: Report) -> int:
    """Bring the table into today's shape and return the number of steps. `conn` is in autocommit.

    Raises UpgradeRefused, and psycopg.Error, such as LockNotAvailable if a load or query is in the way for long; what
    is done stays done.
    """
    taken = 0
    with covering.building_alone(conn, name) as is_alone:
        steps = upgrade_steps(conn, name)
        if steps and not is_alone:
            raise UpgradeRefused(f"Another session builds indexes of {name}; run the command again later.")
        while steps:
            for step in steps:
                started = monotonic()
                if step.take():
                    report(step.summary, monotonic() - started)
                    taken += 1
            steps = upgrade_steps(conn, name)
    return taken


def upgrade_steps(conn: Connection[Any], name: str) -> list[UpgradeStep]:
    """Return the remaining steps; none for a table that has today's shape, or that is not there.

    Raises UpgradeRefused before the migration of the log database.
    """
    found = conn.execute(_TABLE, {"table": _qualified(name)}).fetchone()
    if found is None:
        return []
    is_generated, is_not_null, key_name, key = found
    if tuple(key) == KEY_COLUMNS and is_not_null and not is_generated:
        return []
    _require_fail_closed_tenant(conn)
    steps = []
    if is_generated or not _has_check(conn, name):
        steps.append(
            UpgradeStep(
                f"{name}: loads fill the column project", partial(_require_project, conn, name, drop=is_generated)
            )
        )
    steps += [
        UpgradeStep(
            f"{partition.name}: rows checked, new key's index built ({partition.bytes / 1024**2:,.0f} MiB of rows)",
            partial(_prepare_partition, conn, partition.name),
        )
        for partition in _partitions(conn, name)
        if not partition.is_ready
    ]
    new_key = f"{name}: the key is ({', '.join(KEY_COLUMNS)})"
    return [*steps, UpgradeStep(new_key, partial(_replace_key, conn, name, old_key=key_name))]


def _qualified(name: str) -> str:
    return sql.Identifier(LOGS_SCHEMA, name).as_string(None)


def _require_fail_closed_tenant(conn: Connection[Any]) -> None:
    """Make sure that the empty tenant sees nothing, before any row has the empty text for its project."""
    with conn.transaction():
        conn.execute("SELECT set_config('logs.tenant', '=', true)")
        row = conn.execute("SELECT logs_private.tenant() IS NULL").fetchone()
    if row != (True,):
        raise UpgradeRefused("Run `manage.py migrate --database logs` first; after a restore, `manage.py repair_logs`.")


def _has_check(conn: Connection[Any], name: str) -> bool:
    row = conn.execute(
        "SELECT EXISTS (SELECT 1 FROM pg_constraint WHERE conrelid = to_regclass(%s) AND conname = %s)",
        (_qualified(name), _CHECK),
    ).fetchone()
    return row is not None and bool(row[0])


def _partitions(conn: Connection[Any], name: str) -> list[_Partition]:
    """Return the partitions, the newest first."""
    names = {"table": _qualified(name), "check": _CHECK, "key": _KEY, "schema": LOGS_SCHEMA}
    return [_Partition(*row) for row in conn.execute(_PARTITIONS, names)]


def _require_project(conn: Connection[Any], name: str, *, drop: bool) -> bool:
    # In one statement: a load that still left the project out would otherwise store NULL.
    actions = sql.SQL("ALTER COLUMN project DROP EXPRESSION, " if drop else "") + sql.SQL(
        "ADD CONSTRAINT {} CHECK (project IS NOT NULL) NOT VALID"
    ).format(sql.Identifier(_CHECK))
    with conn.transaction():
        rolling.take_turn(conn, name)
        rolling.execute_in_short_turns(conn, sql.SQL("ALTER TABLE {} {}").format(parent(name), actions))
    return True


def _prepare_partition(conn: Connection[Any], partition: str) -> bool:
    table, check, index = parent(partition), sql.Identifier(_CHECK), f"{partition}{_KEY}"
    statements = [
        sql.SQL("UPDATE {} SET project = '' WHERE project IS NULL").format(table),
        sql.SQL("ALTER TABLE {} VALIDATE CONSTRAINT {}").format(table, check),
        # The remains of an interrupted build are invalid.
        sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(parent(index)),
        sql.SQL("CREATE UNIQUE INDEX CONCURRENTLY {} ON {} ({})").format(sql.Identifier(index), table, _key_columns()),
    ]
    try:
        for statement in statements:
            conn.execute(statement)
    except errors.UndefinedTable:
        return False  # its retention ended meanwhile
    return True


def _replace_key(conn: Connection[Any], name: str, *, old_key: str) -> bool:
    """Make the partitions' indexes the key; return False, and change nothing, if a partition came in between."""
    table = parent(name)
    with conn.transaction():
        rolling.take_turn(conn, name)  # partitions are created in turns: no other comes now
        partitions = _partitions(conn, name)
        if not all(partition.is_ready for partition in partitions):
            return False
        table_changes.drop_sandbox_schemas(conn, DRAFT_SCHEMAS)
        rolling.execute_in_short_turns(conn, sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(table))
        # PostgreSQL concludes from the validated CHECK of each partition that no row has to be read for NOT NULL.
        for action in (
            sql.SQL("ALTER COLUMN project SET NOT NULL"),
            sql.SQL("DROP CONSTRAINT {}").format(sql.Identifier(_CHECK)),
            sql.SQL("DROP CONSTRAINT {}").format(sql.Identifier(old_key)),
        ):
            conn.execute(sql.SQL("ALTER TABLE {} {}").format(table, action))
        for partition in partitions:
            conn.execute(
                sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} PRIMARY KEY USING INDEX {}").format(
                    parent(partition.name),
                    sql.Identifier(f"{partition.name}_pkey"),
                    sql.Identifier(f"{partition.name}{_KEY}"),
                )
            )
        # Builds nothing: each partition has its part of the key.
        conn.execute(
            sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} PRIMARY KEY ({})").format(
                table, sql.Identifier(old_key), _key_columns()
            )
        )
    return True


def _key_columns() -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, KEY_COLUMNS))
