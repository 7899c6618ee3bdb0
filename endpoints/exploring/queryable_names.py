"""What a query over a log source can name: its columns, the paths inside its metadata, its projects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final

import psycopg
import structlog
from psycopg import Connection

from config.deadlines import answer_within
from endpoints.calling.catalogue import catalogue
from endpoints.errors import DatabaseUnavailable
from endpoints.exploring.exploring import InvalidExploration, explored_columns
from endpoints.results.outcomes import Column
from logsources.databases import owner_connection
from logsources.introspection import MetadataPath, partitions_by_table
from logsources.measures import End, projects_of, row_of_source
from logsources.models import LogSource
from logsources.partitions import default_partition_name
from logsources.shards import filled_partitions
from logsources.topology import Topology, read_topology

MAX_PROJECTS: Final = 500
PROJECTS_SECONDS: Final = 1.0
_FILLED_PARTITIONS: Final = 3  # whose projects are listed

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a source as LQL knows them; paths and projects as far as recent rows have them."""

    columns: tuple[Column, ...]
    paths: tuple[MetadataPath, ...] = ()
    projects: tuple[str, ...] = ()
    newest: datetime | None = None


def source_fields(source: str, *, every_project: bool) -> Fields:
    """Return the names for a query; without `every_project` none that only rows of other projects reveal.

    What the log database does not return in time is left out. Raises InvalidExploration.
    """
    if not LogSource.objects.filter(name=source).exists():
        raise InvalidExploration("source", "There is no log source with this name.")
    columns = explored_columns(every_project=every_project)
    if not every_project:
        return Fields(columns)
    projects, newest = _projects_and_newest(source)
    return Fields(columns, _explored_paths(source), projects, newest)


def _explored_paths(source: str) -> tuple[MetadataPath, ...]:
    try:
        return next((one.metadata_paths for one in catalogue() if one.name == source), ())
    except DatabaseUnavailable:
        return ()


def _projects_and_newest(source: str) -> tuple[tuple[str, ...], datetime | None]:
    """Return the projects of the newest partitions that contain rows, and the time of the newest row.

    Of the projects the first MAX_PROJECTS in alphabetical order.
    """
    found: set[str] = set()
    newest: datetime | None = None
    try:
        with answer_within(PROJECTS_SECONDS), owner_connection() as connection:
            # Otherwise the server would continue when nobody waits any more.
            connection.execute("SELECT set_config('statement_timeout', %s, false)", [f"{PROJECTS_SECONDS}s"])
            topology = read_topology(connection)
            partitions = filled_partitions(connection, topology, partitions_by_table(connection).get(source, ()))
            newest = row_of_source(connection, topology, source, partitions, End.NEWEST)
            by_partition = _projects_by_partition(connection, topology, source, partitions)
            for projects in islice(by_partition, _FILLED_PARTITIONS):
                found.update(projects)
    except psycopg.Error as error:
        logger.warning("projects_not_listed", log_source=source, sqlstate=error.sqlstate)
    return tuple(sorted(found)[:MAX_PROJECTS]), newest


def _projects_by_partition(
    connection: Connection[Any], topology: Topology, source: str, partitions: Sequence[str]
) -> Iterator[list[str]]:
    """Yield the projects of each partition that has any, the newest day first, the partition of other days last."""
    default = default_partition_name(source)
    for partition in sorted(partitions, key=lambda name: (name != default, name), reverse=True):
        projects = projects_of(connection, topology, partition, most=MAX_PROJECTS)
        if projects:
            yield projects
