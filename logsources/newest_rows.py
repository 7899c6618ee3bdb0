"""The time of the newest row of each log source, without reading its table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from psycopg import Connection

from logsources.catalogue import partitions_by_table
from logsources.index_walks import End, row_at
from logsources.partitions import default_partition_name


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
