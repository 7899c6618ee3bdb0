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
from endpoints.errors import DatabaseUnavailable
from endpoints.exploring.catalogue import catalogue
from endpoints.exploring.exploring import InvalidExploration, explored_columns
from endpoints.results.outcomes import Column
from logsources.catalogue import SAMPLE_ROWS, partitions_by_table
from logsources.connections import owner_connection
from logsources.index_walks import End, projects_of
from logsources.metadata_paths import MetadataPath
from logsources.models import LogSource
from logsources.newest_rows import row_of_source
from logsources.partitions import default_partition_name

__all__ = ["MAX_PROJECTS", "SAMPLE_ROWS", "Fields", "source_fields"]

MAX_PROJECTS: Final = 500
PROJECTS_SECONDS: Final = 1.0
_FILLED_PARTITIONS: Final = 3  # whose projects are told

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a source as LQL knows them; paths and projects as far as recent rows have them."""

    columns: tuple[Column, ...]
    paths: tuple[MetadataPath, ...] = ()
    projects: tuple[str, ...] = ()
    newest: datetime | None = None


def source_fields(source: str, *, every_project: bool) -> Fields:
    """Return what can be named in a query; without `every_project` nothing that rows of other projects would tell.

    What the log database does not tell in time is left out. Raises InvalidExploration.
    """
    if not LogSource.objects.filter(name=source).exists():
        raise InvalidExploration("source", "There is no log source of this name.")
    columns = explored_columns(every_project=every_project)
    if not every_project:
        return Fields(columns)
    projects, newest = _projects_and_newest(source)
    return Fields(columns, _paths(source), projects, newest)


def _paths(source: str) -> tuple[MetadataPath, ...]:
    try:
        return next((one.metadata_paths for one in catalogue() if one.name == source), ())
    except DatabaseUnavailable:
        return ()


def _projects_and_newest(source: str) -> tuple[tuple[str, ...], datetime | None]:
    """Return the projects of the newest partitions that hold rows, and the time of the newest row.

    Of the projects the first MAX_PROJECTS in alphabetical order.
    """
    found: set[str] = set()
    newest: datetime | None = None
    try:
        with answer_within(PROJECTS_SECONDS), owner_connection() as connection:
            # Else the server would go on when nobody waits any more.
            connection.execute("SELECT set_config('statement_timeout', %s, false)", [f"{PROJECTS_SECONDS}s"])
            partitions = partitions_by_table(connection).get(source, ())
            newest = row_of_source(connection, source, partitions, End.NEWEST)
            for projects in islice(_projects_by_partition(connection, source, partitions), _FILLED_PARTITIONS):
                found.update(projects)
    except psycopg.Error as error:
        logger.warning("projects_not_listed", log_source=source, sqlstate=error.sqlstate)
    return tuple(sorted(found)[:MAX_PROJECTS]), newest


def _projects_by_partition(connection: Connection[Any], source: str, partitions: Sequence[str]) -> Iterator[list[str]]:
    """Yield the projects of each partition that has any, the newest day first, the partition of other days last."""
    default = default_partition_name(source)
    for partition in sorted(partitions, key=lambda name: (name != default, name), reverse=True):
        projects = projects_of(connection, partition, most=MAX_PROJECTS)
        if projects:
            yield projects
