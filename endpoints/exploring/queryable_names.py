"""What an operator can write into a stored query: log tables, their columns, and the paths inside their metadata."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from time import monotonic
from typing import Any, Final

import psycopg
import structlog
from django.db import OperationalError
from psycopg import Connection, errors

from config.deadlines import answer_within
from endpoints.errors import DatabaseUnavailable
from endpoints.exploring.exploring import InvalidExploration, explored_columns
from endpoints.log_database.shared_work import SharedWork
from endpoints.results.outcomes import Column
from logsources.databases import owner_connection
from logsources.introspection import (
    SAMPLE_ROWS,
    MetadataPath,
    columns_by_table,
    common_paths,
    partitions_by_table,
    recent_metadata,
)
from logsources.measures import End, projects_of, row_of_source
from logsources.models import LogSource, ProjectLocation
from logsources.partitions import default_partition_name
from logsources.roles import LOGS_SCHEMA
from logsources.shards import WorkerFailed, filled_partitions
from logsources.topology import Topology, read_topology

KEPT_SECONDS: Final = 60.0
READ_SECONDS: Final = 5.0  # people type in these pages meanwhile

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CatalogueColumn:
    """A column of a log table; `path` is where in the metadata an extracted one comes from, "" for the others."""

    name: str
    type: str
    path: str


@dataclass(frozen=True, slots=True)
class CatalogueSource:
    """A log source as the editor completes it."""

    name: str
    holds: str
    project: str
    columns: tuple[CatalogueColumn, ...]
    metadata_paths: tuple[MetadataPath, ...]

    @property
    def table(self) -> str:
        """The table's qualified name."""
        return f"{LOGS_SCHEMA}.{self.name}"

    def column_of(self, path: str) -> str:
        """Return the extracted column with the same value as a path, "" if there is none."""
        return next((column.name for column in self.columns if path and column.path == path), "")


@dataclass(frozen=True, slots=True)
class _Kept:
    read_at: float  # time.monotonic()
    sources: tuple[CatalogueSource, ...]


_kept: _Kept | None = None


def catalogue() -> tuple[CatalogueSource, ...]:
    """Return every log source, at most a minute old. Raises DatabaseUnavailable if that takes too long."""
    kept = _kept
    if kept is None or monotonic() - kept.read_at >= KEPT_SECONDS:
        kept = _reading.result()
    return kept.sources


def forget_catalogue() -> None:
    """Make the next caller read it again."""
    global _kept
    _kept = None
    _reading.forget()


def _read_and_keep() -> _Kept:
    global _kept
    read_at = monotonic()
    try:
        with answer_within(READ_SECONDS):
            kept = _Kept(read_at, tuple(_read()))
    except (psycopg.OperationalError, OperationalError) as error:
        raise DatabaseUnavailable from error
    _kept = kept
    return kept


# One request at a time reads the tables.
_reading = SharedWork("catalogue", _read_and_keep, seconds=READ_SECONDS)


def _read() -> list[CatalogueSource]:
    sources = LogSource.objects.prefetch_related("extracted_columns")
    with owner_connection() as connection:
        columns, partitions = columns_by_table(connection), partitions_by_table(connection)
        return [
            CatalogueSource(
                name=source.name,
                holds=source.holds,
                project=_project(source),
                columns=_columns(source, columns.get(source.name, ())),
                metadata_paths=_paths(connection, source.name, partitions.get(source.name, ())),
            )
            for source in sources
        ]


def _project(source: LogSource) -> str:
    if source.project_location == ProjectLocation.METADATA:
        return f"`{source.project_path}` inside metadata"
    return "row field `project`"


def _columns(source: LogSource, columns: tuple[tuple[str, str], ...]) -> tuple[CatalogueColumn, ...]:
    paths = {column.name: column.path for column in source.extracted_columns.all()}
    return tuple(CatalogueColumn(name, type_, paths.get(name, "")) for name, type_ in columns)


def _paths(connection: Connection[Any], table: str, partitions: tuple[str, ...]) -> tuple[MetadataPath, ...]:
    try:
        return common_paths(recent_metadata(connection, table, partitions))
    except (errors.QueryCanceled, errors.LockNotAvailable, errors.UndefinedTable, WorkerFailed) as error:
        # Busy, or a partition dropped at this moment: completion without paths is better than none.
        logger.warning("metadata_not_sampled", table=table, sqlstate=error.sqlstate)
        return ()


# --- Explored fields --------------------------------------------------------------------------------------------------
# What a query over a log source can name: its columns, the paths inside its metadata, its projects.
__all__ = ["MAX_PROJECTS", "SAMPLE_ROWS", "Fields", "source_fields"]

MAX_PROJECTS: Final = 500
PROJECTS_SECONDS: Final = 1.0
_FILLED_PARTITIONS: Final = 3  # whose projects are listed


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
