"""Daily partitions of the log tables: created ahead, filled from the default partition, dropped when expired.

The locks hold up neither readers nor loads, and no row is lost:

1. An advisory lock per log source, for one transaction per partition: two rollers, or a roller and a load, take turns.
2. SHARE ROW EXCLUSIVE on the default partition: no new row arrives while its rows move. Readers and loads into other
   partitions continue; loading handles the check violations that `tables.lock_for_partitions` describes.
3. ACCESS EXCLUSIVE, taken by ATTACH and DROP at the end: waits for it are short, because each makes every later reader
   wait too, and readers give up after their own lock_timeout.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any

from psycopg import Connection, errors, sql

from logsources import partitions, tables
from logsources.databases import LockSpace
from logsources.partitions import DAYS_AHEAD, DayWindow
from logsources.roles import LOGS_SCHEMA
from logsources.tables import TableShape
from logsources.topology import read_topology

logger = logging.getLogger(__name__)

TURN_LOCK_TIMEOUT = "60s"  # for another roller's partition; moving a million rows takes some 10 s
TURN_LOCK_TIMEOUT_BEFORE_LOAD = "2s"  # shorter than a roller may wait for the same load that waits for it
LOAD_LOCK_TIMEOUT = "5s"  # for loads that are writing to the default partition
LOAD_LOCK_TIMEOUT_BEFORE_LOAD = "500ms"  # a load does not wait: its rows can go to the default partition instead
EXCLUSIVE_LOCK_TIMEOUT = "400ms"  # under the readers' lock_timeout of 1 s
EXCLUSIVE_ATTEMPTS = 40  # with pauses some 30 s: longer than any statement of a reader
EXCLUSIVE_PAUSE_SECONDS = 0.3


class PartitionAction(StrEnum):
    CREATED = "created"
    DROPPED = "dropped"
    EMPTIED = "emptied"
    INDEXED = "indexed"


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """One change made by rolling; `rows` were moved into a created partition or deleted from an emptied one."""

    source_name: str
    partition_name: str
    action: PartitionAction
    rows: int = 0


@dataclass(frozen=True, slots=True)
class RolledSource:
    """The facts about a log source that rolling and loading need."""

    shape: TableShape
    retention_days: int | None
    default_project: str = ""  # of loaded rows that name none


def take_turn(conn: Connection[Any], source_name: str, *, timeout: str = TURN_LOCK_TIMEOUT) -> None:
    """Wait for the table's turn, which lasts as long as this transaction; raises psycopg.errors.LockNotAvailable."""
    change_shard_after_shard(conn)
    set_lock_timeout(conn, timeout)
    conn.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (LockSpace.ROLLING.value, source_name))


def change_shard_after_shard(conn: Connection[Any]) -> None:
    """Let a transaction that changes tables change the shards of a cluster one by one, until its end."""
    # By default Citus changes them side by side. It refuses this for the long names that our indexes may have on a
    # shard, or gets into a deadlock with itself. One server knows no such setting, and keeps it.
    conn.execute("SET LOCAL citus.multi_shard_modify_mode = 'sequential'")


def set_lock_timeout(conn: Connection[Any], timeout: str) -> None:
    """Set how long to wait for locks until the end of the transaction."""
    # Not set_config(): the workers of a cluster, where the tables are, hear of SET LOCAL alone.
    conn.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(timeout)))


def partition_days(conn: Connection[Any], source_name: str) -> frozenset[date]:
    """Return the days that have a partition in the table."""
    rows = conn.execute(
        "SELECT child.relname FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid"
        " JOIN pg_class parent ON parent.oid = inhparent"
        " WHERE parent.relname = %s AND parent.relnamespace = %s::regnamespace",
        (source_name, LOGS_SCHEMA),
    )
    days = (partitions.partition_day(source_name, name) for (name,) in rows)
    return frozenset(day for day in days if day is not None)


def roll_source(
    conn: Connection[Any], source: RolledSource, *, today: date, days_ahead: int = DAYS_AHEAD
) -> list[PartitionChange]:
    """Create, fill and drop one table's partitions, each change in its own transaction. `conn` is in autocommit."""
    name = source.shape.name
    window = partitions.partition_window(today, source.retention_days, days_ahead=days_ahead)
    existing = partition_days(conn, name)
    needed = set(partitions.needed_days(today, days_ahead=days_ahead)) | _days_in_default(conn, name, window)
    changes = []
    for day in sorted(needed - existing):
        change = place_day(conn, name, day)
        if change is not None:
            changes.append(change)
    expired = partitions.expired_days(existing, today, retention_days=source.retention_days)
    changes += [_drop_day(conn, name, day) for day in expired]
    if source.retention_days is not None:
        first_kept = partitions.first_kept_day(today, source.retention_days)
        deleted = conn.execute(tables.delete_expired_rows(name, first_kept)).rowcount
        if deleted:
            default = partitions.default_partition_name(name)
            changes.append(PartitionChange(name, default, PartitionAction.EMPTIED, deleted))
    return changes


def place_day(conn: Connection[Any], name: str, day: date) -> PartitionChange | None:
    """Give the day a partition and move its rows there; None if somebody else was quicker."""
    with conn.transaction():
        take_turn(conn, name)
        if day in partition_days(conn, name):
            return None
        set_lock_timeout(conn, LOAD_LOCK_TIMEOUT)
        _execute(conn, tables.lock_for_partitions(name))
        _execute(conn, tables.create_day_table(name, day))
        moved = conn.execute(tables.move_rows(name, day)).rowcount
        execute_in_short_turns(conn, tables.attach_day_table(name, day))
        _execute(conn, tables.drop_local_rows(partitions.partition_name(name, day), read_topology(conn)))
    return PartitionChange(name, partitions.partition_name(name, day), PartitionAction.CREATED, rows=moved)


def prepare_days(conn: Connection[Any], source: RolledSource, *, days: Iterable[date], today: date) -> list[date]:
    """Create the partitions that a load of these days wants, and return their days.

    A day gets none if it is outside the source's window, already has rows in the default partition, or the locks are
    not available at once: its rows go to the default partition, and rolling moves them later.
    """
    name = source.shape.name
    window = partitions.partition_window(today, source.retention_days)
    missing = sorted({day for day in days if day in window} - partition_days(conn, name))
    made = []
    for day in missing:
        try:
            if _create_empty_day(conn, name, day):
                made.append(day)
        except errors.LockNotAvailable:
            logger.info("Partition not made before a load: the table is busy", extra={"source": name, "day": str(day)})
            break
    return made


def _create_empty_day(conn: Connection[Any], name: str, day: date) -> bool:
    lower, upper = partitions.day_bounds(day)
    with conn.transaction():
        take_turn(conn, name, timeout=TURN_LOCK_TIMEOUT_BEFORE_LOAD)
        if day in partition_days(conn, name):
            return False
        set_lock_timeout(conn, LOAD_LOCK_TIMEOUT_BEFORE_LOAD)
        _execute(conn, tables.lock_for_partitions(name))
        in_default = conn.execute(
            sql.SQL("SELECT EXISTS (SELECT 1 FROM {} WHERE timestamp >= %s AND timestamp < %s)").format(
                tables.parent(partitions.default_partition_name(name))
            ),
            (lower, upper),
        ).fetchone()
        if in_default is not None and in_default[0]:
            return False
        _execute(conn, tables.create_day_table(name, day))
        set_lock_timeout(conn, EXCLUSIVE_LOCK_TIMEOUT)
        conn.execute(tables.attach_day_table(name, day))
    return True


def _days_in_default(conn: Connection[Any], name: str, window: DayWindow) -> set[date]:
    rows = conn.execute(
        sql.SQL(
            "SELECT DISTINCT (timestamp AT TIME ZONE 'UTC')::date FROM {} WHERE timestamp >= %s AND timestamp < %s"
        ).format(tables.parent(partitions.default_partition_name(name))),
        (partitions.start_of_day(window.first), partitions.day_bounds(window.last)[1]),
    )
    return {day for (day,) in rows}


def _drop_day(conn: Connection[Any], name: str, day: date) -> PartitionChange:
    with conn.transaction():
        take_turn(conn, name)
        execute_in_short_turns(conn, tables.drop_day_table(name, day))
    return PartitionChange(name, partitions.partition_name(name, day), PartitionAction.DROPPED)


def _execute(conn: Connection[Any], statements: Iterable[sql.Composed]) -> None:
    for statement in statements:
        conn.execute(statement)


def execute_in_short_turns(conn: Connection[Any], statement: sql.Composed) -> None:
    """Run a statement that locks readers out; let them through between attempts."""
    set_lock_timeout(conn, EXCLUSIVE_LOCK_TIMEOUT)
    for attempt in range(1, EXCLUSIVE_ATTEMPTS + 1):
        try:
            with conn.transaction():
                conn.execute(statement)
            return
        except errors.LockNotAvailable:
            if attempt == EXCLUSIVE_ATTEMPTS:
                raise
            time.sleep(EXCLUSIVE_PAUSE_SECONDS)
