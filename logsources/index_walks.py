"""Reads the edges of a partition's index (project, timestamp DESC), without reading the partition.

It walks from project to project; each has its newest row first and its oldest last. That takes a few page reads per
project, while min(timestamp) and max(timestamp) would read every row.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Final, LiteralString

from psycopg import Connection, sql

from logsources.roles import LOGS_SCHEMA


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
    (SELECT project FROM {partition} WHERE project IS NOT NULL ORDER BY project LIMIT 1)
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
    """Return the projects with rows in a partition, in the order of the index, at most `most`."""
    query = sql.SQL(_PROJECTS).format(partition=sql.Identifier(LOGS_SCHEMA, partition), most=sql.Literal(most))
    return [project for (project,) in conn.execute(query)]
