"""Covering indexes: extracted columns kept together with the time, so that queries can count without reading rows.

A B-tree entry has at most 2,704 bytes (PostgreSQL, "B-Tree Indexes"); a longer one would make a load fail. So there are
two indexes, and each row is in one of them::

    edge_logs$cov    (timestamp) INCLUDE (project, request_path, request_url)  if the covered texts are short
    edge_logs$rest   (timestamp)                                               if they are long

`project` is there for the row policies. A query that repeats both conditions in a UNION ALL is answered from the first
index and from the few rows of the second.

The parent's indexes are the model: a new partition gets the same. Existing partitions get theirs one by one; CREATE
INDEX CONCURRENTLY lets loads and readers continue.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from psycopg import Connection, errors, sql

from logsources import rolling
from logsources.databases import LockSpace
from logsources.roles import LOGS_SCHEMA
from logsources.rolling import PartitionAction, PartitionChange
from logsources.tables import ColumnType, TableShape, covered_names, parent
from logsources.topology import read_topology

logger = logging.getLogger(__name__)

MAX_COVERED_BYTES: Final = 1_200  # of all covered texts together; 1,020 bytes of project and 20 numbers also fit
SMALL_PARTITION_BYTES: Final = 8 * 1024 * 1024  # indexed in some 20 ms; a load may wait so long
# The wait for loads and queries that began before the index; the next roll tries again.
BUILD_LOCK_TIMEOUT: Final = "60s"
_COMMENT: Final = "covers "
# The longest name of a partition has 58 of 63 bytes; no source has a `$` in its name.
_COVERING, _REST = "$cov", "$rest"
_WITHOUT_INDEX: Final[LiteralString] = """
SELECT child.relname, {relation_size}(child.oid)
FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
WHERE inhparent = to_regclass(%(table)s) AND NOT EXISTS (
    SELECT 1 FROM pg_index JOIN pg_inherits AS attached ON attached.inhrelid = indexrelid
    WHERE indrelid = child.oid AND attached.inhparent = to_regclass(%(index)s))
ORDER BY child.relname DESC
"""


@dataclass(frozen=True, slots=True)
class _Index:
    suffix: str
    definition: sql.Composable  # the text after ON table


def fit_covering_indexes(
    conn: Connection[Any], shape: TableShape, *, up_to_bytes: int | None = None
) -> list[PartitionChange]:
    """Create, replace or drop the covering indexes until they fit the shape; `conn` is in autocommit.

    With `up_to_bytes`, larger partitions are left for a later call without it. If a load or query is in the way for
    long, the call ends and the next one completes it. Nothing is built while another session builds.
    Raises psycopg.Error.
    """
    _fit_parent(conn, shape)
    indexed: dict[str, None] = {}
    with building_alone(conn, shape.name) as is_alone:
        missing = [
            (partition, index, size)
            for index in (_indexes(shape) if is_alone else ())
            for partition, size in _partitions_without(conn, shape.name, index)
            if up_to_bytes is None or size <= up_to_bytes
        ]
        try:
            for partition, index, size in missing:
                _build(conn, shape.name, partition, index, concurrently=size > SMALL_PARTITION_BYTES)
                indexed[partition] = None
        except (errors.LockNotAvailable, errors.UndefinedTable) as error:
            logger.info(
                "Partition not indexed: it is busy or gone", extra={"partition": partition, "reason": str(error)}
            )
    return [PartitionChange(shape.name, partition, PartitionAction.INDEXED) for partition in indexed]


def covered_columns(conn: Connection[Any], name: str) -> tuple[str, ...]:
    """Return the extracted columns in the table's covering index, in the order of their names."""
    comment = _comments(conn, name).get(_COVERING, "")
    return tuple(comment.removeprefix(_COMMENT).split(", ")) if comment else ()


def _comments(conn: Connection[Any], name: str) -> dict[str, str]:
    """Return the comments of the table's covering indexes, by suffix; other comments are not ours."""
    rows = conn.execute(
        "SELECT suffix, obj_description(to_regclass(index), 'pg_class') FROM unnest(%s::text[], %s::text[])"
        " AS wanted (suffix, index)",
        ([_COVERING, _REST], [_qualified(name + suffix) for suffix in (_COVERING, _REST)]),
    )
    return {suffix: comment for suffix, comment in rows if comment and comment.startswith(_COMMENT)}


def _qualified(name: str) -> str:
    return f'{LOGS_SCHEMA}."{name}"'


def _indexes(shape: TableShape) -> list[_Index]:
    covered = covered_names(shape)
    if not covered:
        return []
    covering = sql.SQL("(timestamp) INCLUDE ({})").format(
        sql.SQL(", ").join(map(sql.Identifier, ("project", *covered)))
    )
    texts = [column.name for column in shape.columns if column.type is ColumnType.TEXT and column.name in covered]
    if not texts:
        return [_Index(_COVERING, covering)]
    # NULL counts as short, so that the conditions are exact opposites. Queries repeat them word for word.
    length = sql.SQL(" + ").join(
        sql.SQL("coalesce(octet_length({}), 0)").format(sql.Identifier(text)) for text in sorted(texts)
    )
    limit = sql.Literal(MAX_COVERED_BYTES)
    return [
        _Index(_COVERING, covering + sql.SQL(" WHERE {} <= {}").format(length, limit)),
        _Index(_REST, sql.SQL("(timestamp) WHERE {} > {}").format(length, limit)),
    ]


def _fit_parent(conn: Connection[Any], shape: TableShape) -> None:
    comment = _COMMENT + ", ".join(covered_names(shape))
    indexes = _indexes(shape)
    # Check both: PostgreSQL drops the one that contains a dropped column.
    if _comments(conn, shape.name) == {index.suffix: comment for index in indexes}:
        return
    with conn.transaction():
        rolling.take_turn(conn, shape.name)
        for suffix in (_COVERING, _REST):
            rolling.execute_in_short_turns(
                conn, sql.SQL("DROP INDEX IF EXISTS {}").format(parent(f"{shape.name}{suffix}"))
            )
        for index in indexes:
            name = f"{shape.name}{index.suffix}"
            rolling.execute_in_short_turns(conn, _create(name, sql.SQL("ONLY {}").format(parent(shape.name)), index))
            conn.execute(sql.SQL("COMMENT ON INDEX {} IS {}").format(parent(name), sql.Literal(comment)))


def _create(name: str, table: sql.Composable, index: _Index, *, concurrently: bool = False) -> sql.Composed:
    return sql.SQL("CREATE INDEX {}{} ON {} {}").format(
        sql.SQL("CONCURRENTLY " if concurrently else ""), sql.Identifier(name), table, index.definition
    )


def _partitions_without(conn: Connection[Any], name: str, index: _Index) -> Sequence[tuple[str, int]]:
    """Return the partitions without this index and their bytes, the newest first."""
    names = {"table": _qualified(name), "index": _qualified(name + index.suffix)}
    relation_size = sql.SQL(read_topology(conn).relation_size)
    return conn.execute(sql.SQL(_WITHOUT_INDEX).format(relation_size=relation_size), names).fetchall()


def _build(conn: Connection[Any], name: str, partition: str, index: _Index, *, concurrently: bool) -> None:
    own = f"{partition}{index.suffix}"
    attach = sql.SQL("ALTER INDEX {} ATTACH PARTITION {}").format(parent(f"{name}{index.suffix}"), parent(own))
    create = _create(own, parent(partition), index, concurrently=concurrently)
    # The remains of an interrupted build are invalid or not attached.
    conn.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(parent(own)))
    if concurrently:
        conn.execute(create)
    with conn.transaction():
        rolling.change_shard_after_shard(conn)
        if not concurrently:
            rolling.execute_in_short_turns(conn, create)
        rolling.execute_in_short_turns(conn, attach)


@contextmanager
def building_alone(conn: Connection[Any], name: str) -> Iterator[bool]:
    """Keep other builders of the source away; yield False if one is already at work."""
    key = (LockSpace.BUILDING.value, name)
    row = conn.execute("SELECT pg_try_advisory_lock(%s, hashtext(%s))", key).fetchone()
    is_alone = row is not None and bool(row[0])
    try:
        conn.execute(sql.SQL("SET lock_timeout = {}").format(sql.Literal(BUILD_LOCK_TIMEOUT)))
        yield is_alone
    finally:
        if is_alone and not conn.closed:
            conn.execute("SELECT pg_advisory_unlock(%s, hashtext(%s))", key)
        if not conn.closed:
            conn.execute("RESET lock_timeout")
