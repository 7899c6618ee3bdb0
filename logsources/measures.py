"""The size and the time span of each log source, without reading its table.

Rows are estimated from PostgreSQL's statistics: rows per page at the last ANALYZE or VACUUM, times the current pages.
On a cluster, sizes, estimates and index walks are those of the shards.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from functools import partial
from typing import Any, Final, LiteralString

import psycopg
from psycopg import Connection, sql

from config.deadlines import answer_within
from logsources.databases import owner_connection
from logsources.introspection import partitions_by_table, sample_rows
from logsources.partitions import default_partition_name, partition_day
from logsources.roles import LOGS_SCHEMA
from logsources.shards import Piece, filled_partitions, query_pieces, query_workers
from logsources.topology import Topology, read_topology


# --- Index walks ------------------------------------------------------------------------------------------------------
# Reads the edges of a partition's index (project, timestamp DESC), without reading the partition.
#
# It walks from project to project; each has its newest row first and its oldest last. That takes a few page reads per
# project, while min(timestamp) and max(timestamp) would read every row.
class End(StrEnum):
    """One end of a partition's time span."""

    OLDEST = "oldest"
    NEWEST = "newest"

    def furthest(self, *moments: datetime) -> datetime:
        """Return the moment nearest to this end, of at least one."""
        return max(moments) if self is End.NEWEST else min(moments)


# Oldest: reads the same index backwards, so projects come in descending order.
_STEPS: Final[dict[End, tuple[LiteralString, LiteralString, LiteralString]]] = {
    End.NEWEST: ("project, timestamp DESC", ">", "max"),
    End.OLDEST: ("project DESC, timestamp", "<", "min"),
}
_EDGE: Final = """
WITH RECURSIVE edge (project, timestamp) AS (
    (SELECT project, timestamp FROM {partition} WHERE project IS NOT NULL ORDER BY {order} LIMIT 1)
    UNION ALL
    SELECT following.project, following.timestamp
    FROM edge, LATERAL (
        SELECT project, timestamp FROM {partition} WHERE project {beyond} edge.project ORDER BY {order} LIMIT 1
    ) AS following
), without_project (timestamp) AS (
    SELECT timestamp FROM {partition} WHERE project IS NULL ORDER BY {order} LIMIT 1
), both_kinds (timestamp) AS (
    SELECT timestamp FROM edge UNION ALL SELECT timestamp FROM without_project
)
SELECT to_json({furthest}(timestamp)) FROM both_kinds
"""
_PROJECTS: Final = """
WITH RECURSIVE found (project) AS (
    (SELECT project FROM {partition} WHERE project > '' ORDER BY project LIMIT 1)
    UNION ALL
    SELECT (SELECT project FROM {partition} WHERE project > found.project ORDER BY project LIMIT 1)
    FROM found WHERE project IS NOT NULL
)
SELECT project FROM found WHERE project IS NOT NULL LIMIT {most}
"""


def rows_at(conn: Connection[Any], topology: Topology, partitions: Sequence[str], end: End) -> dict[str, datetime]:
    """Return the time of the newest or oldest row by partition, of those that have rows. Raises psycopg.Error."""
    found: dict[str, datetime] = {}
    for partition, moments in query_pieces(conn, topology, partitions, partial(_edge, end=end)):
        for moment in (datetime.fromisoformat(text) for text in moments if text is not None):
            found[partition] = end.furthest(found.get(partition, moment), moment)
    return found


def _edge(table: Piece, *, end: End) -> sql.Composed:
    order, beyond, furthest = map(sql.SQL, _STEPS[end])
    return sql.SQL(_EDGE).format(partition=table.name, order=order, beyond=beyond, furthest=furthest)


def projects_of(conn: Connection[Any], topology: Topology, partition: str, *, most: int) -> list[str]:
    """Return the projects with rows in a partition, in alphabetical order, at most `most`.

    Rows without a project, which have the empty text there, count for none.
    """
    pieces = query_pieces(conn, topology, [partition], partial(_projects, most=most))
    return sorted(project for _, projects in pieces for project in projects)[:most]


def _projects(table: Piece, *, most: int) -> sql.Composed:
    return sql.SQL(_PROJECTS).format(partition=table.name, most=sql.Literal(most))


# --- Newest rows ------------------------------------------------------------------------------------------------------
# The time of the newest row of each log source, without reading its table.
def newest_rows(conn: Connection[Any], names: Sequence[str]) -> dict[str, datetime | None]:
    """Return the time of the newest row by log source, None if there is no row. Raises psycopg.Error."""
    topology = read_topology(conn)
    partitions = partitions_by_table(conn)
    filled = set(filled_partitions(conn, topology, [one for name in names for one in partitions.get(name, ())]))
    return {
        name: row_of_source(
            conn, topology, name, [one for one in partitions.get(name, ()) if one in filled], End.NEWEST
        )
        for name in names
    }


def row_of_source(
    conn: Connection[Any], topology: Topology, name: str, partitions: Sequence[str], end: End
) -> datetime | None:
    """Return the time of the newest or oldest row in these partitions of a source, None if they are empty.

    The caller may leave empty partitions out of `partitions`: each costs a query. Raises psycopg.Error.
    """
    default = default_partition_name(name)
    days = sorted((partition for partition in partitions if partition != default), reverse=end is End.NEWEST)
    rest = [default] if default in partitions else []
    # Days follow each other: the row is in the first partition with rows, or in the default partition.
    found = rows_at(conn, topology, [*days[:1], *rest], end)
    for day in days[1:]:
        if found.keys() - rest:
            break
        found |= rows_at(conn, topology, [day], end)
    return end.furthest(*found.values()) if found else None


# --- Measures ---------------------------------------------------------------------------------------------------------
SPAN_MILLISECONDS: Final = 400  # per source; it takes a few page reads for every project
# Rows of a table `c` are estimated like PostgreSQL's planner does: rows per page when they were last counted, times the
# pages of today. Without a count, they are the rows seen to be written, which a crash makes PostgreSQL forget.
_SIZES: Final = sql.SQL("""
    LATERAL (SELECT pg_relation_size(c.oid) / current_setting('block_size')::int AS pages) AS heap,
    LATERAL (SELECT pg_total_relation_size(c.oid) AS bytes, (CASE
        WHEN pages = 0 THEN 0
        WHEN c.reltuples >= 0 AND c.relpages > 0 THEN round(c.reltuples::float8 / c.relpages * pages)
        ELSE nullif(pg_stat_get_live_tuples(c.oid), 0) END)::bigint AS rows) AS size""")
_PARTITIONS: Final = sql.SQL("""
SELECT parent.relname, c.relname, bytes, rows
FROM pg_inherits JOIN pg_class AS parent ON parent.oid = inhparent JOIN pg_class AS c ON c.oid = inhrelid, {sizes}
WHERE parent.relkind = 'p' AND parent.relnamespace = to_regnamespace(%s) AND parent.relname = ANY(%s)
ORDER BY 1, 2
""").format(sizes=_SIZES)
_SHARDS: Final = sql.SQL("""
SELECT jsonb_agg(jsonb_build_array(partition, bytes, rows))
FROM (
    SELECT partition, sum(bytes) AS bytes, CASE WHEN count(rows) = count(*) THEN sum(rows) END AS rows
    FROM shards JOIN pg_class AS c ON c.oid = shard, {sizes} GROUP BY partition
) AS measured
""").format(sizes=_SIZES)


@dataclass(frozen=True, slots=True)
class MeasuredPartition:
    """A partition: its UTC day, None for the default one; `rows` is None if PostgreSQL has not counted."""

    name: str
    day: date | None
    bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class Measure:
    """A log source: its partitions, and the times of its oldest and newest row if `span_known`."""

    partitions: tuple[MeasuredPartition, ...]
    oldest: datetime | None = None
    newest: datetime | None = None
    span_known: bool = True

    @property
    def bytes(self) -> int:
        """The size on disk, indexes and TOAST included."""
        return sum(partition.bytes for partition in self.partitions)

    @property
    def rows(self) -> int | None:
        """The approximate number of rows; None if PostgreSQL has counted in no partition with rows."""
        counted = [partition.rows for partition in self.partitions if partition.rows is not None]
        return sum(counted) if any(counted) or self.is_counted else None

    @property
    def is_counted(self) -> bool:
        """Whether `rows` includes the rows of every partition."""
        return all(partition.rows is not None for partition in self.partitions)

    @property
    def filled(self) -> tuple[MeasuredPartition, ...]:
        """The partitions with rows, as far as PostgreSQL knows."""
        return tuple(partition for partition in self.partitions if partition.rows != 0)


def measure_sources(conn: Connection[Any], names: Sequence[str]) -> dict[str, Measure]:
    """Return the measure of each source that has a table. Raises psycopg.Error.

    A span that takes longer than SPAN_MILLISECONDS is not known.
    """
    topology = read_topology(conn)
    measured = _measured_partitions(conn, topology, names)
    return {name: _with_span(conn, topology, name, partitions) for name, partitions in measured.items()}


def _measured_partitions(
    conn: Connection[Any], topology: Topology, names: Sequence[str]
) -> Mapping[str, list[MeasuredPartition]]:
    found = conn.execute(_PARTITIONS, [LOGS_SCHEMA, list(names)]).fetchall()
    shards = _measured_shards(conn, [name for _, name, _, _ in found]) if topology.is_distributed else {}
    measured: dict[str, list[MeasuredPartition]] = {}
    for source, name, size, rows in found:
        size, rows = shards.get(name, (size, rows))
        measured.setdefault(source, []).append(MeasuredPartition(name, partition_day(source, name), size, rows))
    return measured


def _measured_shards(conn: Connection[Any], partitions: Sequence[str]) -> dict[str, tuple[int, int | None]]:
    """Return bytes and rows of each partition that has shards; rows are None if they are not counted in each shard."""
    measured: dict[str, tuple[int, int | None]] = {}
    for partition, size, rows in query_workers(conn, partitions, _SHARDS):
        others_size, others_rows = measured.get(partition, (0, 0))
        is_counted = rows is not None and others_rows is not None
        measured[partition] = (others_size + size, others_rows + rows if is_counted else None)
    return measured


def _with_span(
    conn: Connection[Any], topology: Topology, name: str, partitions: Iterable[MeasuredPartition]
) -> Measure:
    measure = Measure(tuple(partitions))
    filled = [partition.name for partition in measure.filled]
    try:
        with conn.transaction():
            conn.execute("SELECT set_config('statement_timeout', %s, true)", [f"{SPAN_MILLISECONDS}ms"])
            oldest, newest = (row_of_source(conn, topology, name, filled, end) for end in (End.OLDEST, End.NEWEST))
    except (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable):
        # Too many projects to walk through, or the table is being altered at this moment.
        return Measure(measure.partitions, span_known=False)
    return Measure(measure.partitions, oldest, newest)


# --- Inspection -------------------------------------------------------------------------------------------------------
# The view of the log tables for operators, with a time limit whatever the log database does.
ANSWER_SECONDS: Final = 2.0  # a person waits for the page; anything that takes longer is shown as unknown
SAMPLES: Final = 5

logger = logging.getLogger(__name__)


def inspect_sources(names: Sequence[str]) -> dict[str, Measure] | None:
    """Return the measure of each source that has a table; None if the log database does not answer in time."""
    try:
        with _bounded_connection() as conn:
            return measure_sources(conn, names)
    except psycopg.Error:
        logger.warning("Log sources not measured", exc_info=True)
        return None


def inspect_rows(name: str) -> list[dict[str, Any]] | None:
    """Return the SAMPLES rows loaded last, the last one first; None if the log database does not answer in time."""
    try:
        with _bounded_connection() as conn:
            return sample_rows(conn, name, partitions_by_table(conn).get(name, ()), rows=SAMPLES)
    except psycopg.Error:
        logger.warning("Rows not sampled", exc_info=True, extra={"source": name})
        return None


@contextmanager
def _bounded_connection() -> Iterator[Connection[Any]]:
    with answer_within(ANSWER_SECONDS), owner_connection() as conn:
        # For a locked table: PostgreSQL gives up before the connection has to be closed.
        conn.execute("SELECT set_config('statement_timeout', %s, false)", [f"{ANSWER_SECONDS * 0.8}s"])
        yield conn
