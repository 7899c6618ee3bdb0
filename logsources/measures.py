"""The size and the time span of each log source, without reading its table.

Rows are estimated from PostgreSQL's statistics: rows per page at the last ANALYZE or VACUUM, times the current pages.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any, Final, LiteralString

import psycopg
from psycopg import Connection, sql

from config.deadlines import answer_within
from logsources.databases import owner_connection
from logsources.introspection import partitions_by_table, sample_rows
from logsources.partitions import default_partition_name, partition_day
from logsources.roles import LOGS_SCHEMA


# --- Index walks ------------------------------------------------------------------------------------------------------
# Reads the edges of a partition's index (project, timestamp DESC), without reading the partition.
#
# It walks from project to project; each has its newest row first and its oldest last. That takes a few page reads per
# project, while min(timestamp) and max(timestamp) would read every row.
class End(StrEnum):
    """One end of a partition's time span."""

    OLDEST = "oldest"
    NEWEST = "newest"


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
SELECT {furthest}(timestamp) FROM both_kinds
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


def row_at(conn: Connection[Any], partition: str, end: End) -> datetime | None:
    """Return the time of the newest or oldest row of a partition, None if it is empty. Raises psycopg.Error."""
    order, beyond, furthest = _STEPS[end]
    query = sql.SQL(_EDGE).format(
        partition=sql.Identifier(LOGS_SCHEMA, partition),
        order=sql.SQL(order),
        beyond=sql.SQL(beyond),
        furthest=sql.SQL(furthest),
    )
    row = conn.execute(query).fetchone()
    moment: datetime | None = row[0] if row else None
    return moment


def projects_of(conn: Connection[Any], partition: str, *, most: int) -> list[str]:
    """Return the projects with rows in a partition, in the order of the index, at most `most`.

    Rows without a project, which have the empty text there, count for none.
    """
    query = sql.SQL(_PROJECTS).format(partition=sql.Identifier(LOGS_SCHEMA, partition), most=sql.Literal(most))
    return [project for (project,) in conn.execute(query)]


# --- Newest rows ------------------------------------------------------------------------------------------------------
# The time of the newest row of each log source, without reading its table.
def newest_rows(conn: Connection[Any], names: Sequence[str]) -> dict[str, datetime | None]:
    """Return the time of the newest row by log source, None if there is no row. Raises psycopg.Error."""
    partitions = partitions_by_table(conn)
    return {name: row_of_source(conn, name, partitions.get(name, ()), End.NEWEST) for name in names}


def row_of_source(conn: Connection[Any], name: str, partitions: Sequence[str], end: End) -> datetime | None:
    """Return the time of the newest or oldest row in these partitions of a source, None if they are empty.

    The caller may leave empty partitions out of `partitions`: each costs a query. Raises psycopg.Error.
    """
    default = default_partition_name(name)
    days = sorted((partition for partition in partitions if partition != default), reverse=end is End.NEWEST)
    # Days follow each other: the row is in the first partition with rows, or in the default partition.
    of_days = next((found for day in days if (found := row_at(conn, day, end))), None)
    of_rest = row_at(conn, default, end) if default in partitions else None
    moments = [moment for moment in (of_days, of_rest) if moment is not None]
    if not moments:
        return None
    return max(moments) if end is End.NEWEST else min(moments)


# --- Measures ---------------------------------------------------------------------------------------------------------
SPAN_MILLISECONDS: Final = 400  # per source; it takes a few page reads for every project
_PARTITIONS: Final = """
SELECT parent.relname, child.relname, pg_total_relation_size(child.oid),
       pg_relation_size(child.oid) / current_setting('block_size')::int, child.relpages, child.reltuples,
       pg_stat_get_live_tuples(child.oid)
FROM pg_inherits JOIN pg_class AS parent ON parent.oid = inhparent JOIN pg_class AS child ON child.oid = inhrelid
WHERE parent.relkind = 'p' AND parent.relnamespace = to_regnamespace(%s) AND parent.relname = ANY(%s)
ORDER BY 1, 2
"""


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
    return {name: _with_span(conn, name, partitions) for name, partitions in _measured_partitions(conn, names).items()}


def _measured_partitions(conn: Connection[Any], names: Sequence[str]) -> Mapping[str, list[MeasuredPartition]]:
    measured: dict[str, list[MeasuredPartition]] = {}
    for source, name, size, pages, analyzed_pages, analyzed_rows, live_rows in conn.execute(
        _PARTITIONS, [LOGS_SCHEMA, list(names)]
    ):
        rows = _estimate(pages, analyzed_pages=analyzed_pages, analyzed_rows=analyzed_rows, live_rows=live_rows)
        measured.setdefault(source, []).append(MeasuredPartition(name, partition_day(source, name), size, rows))
    return measured


def _estimate(pages: int, *, analyzed_pages: int, analyzed_rows: float, live_rows: int) -> int | None:
    """Return the approximate number of rows, estimated like PostgreSQL's planner; None if nothing is known."""
    if pages == 0:
        return 0
    if analyzed_rows >= 0 and analyzed_pages > 0:
        return round(analyzed_rows / analyzed_pages * pages)
    # Counted as rows are written, and forgotten in a crash.
    return live_rows or None


def _with_span(conn: Connection[Any], name: str, partitions: Iterable[MeasuredPartition]) -> Measure:
    measure = Measure(tuple(partitions))
    filled = [partition.name for partition in measure.filled]
    try:
        with conn.transaction():
            conn.execute("SELECT set_config('statement_timeout', %s, true)", [f"{SPAN_MILLISECONDS}ms"])
            oldest, newest = (row_of_source(conn, name, filled, end) for end in (End.OLDEST, End.NEWEST))
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
    """Return up to SAMPLES recently loaded rows, newest first; None if the log database does not answer in time."""
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
