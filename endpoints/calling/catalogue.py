"""What queries can name: log tables, their columns, and the paths inside their metadata in recent rows of everybody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from time import monotonic
from typing import Any, Final

import psycopg
import structlog
from django.db import DatabaseError, OperationalError
from psycopg import Connection, errors

from config.deadlines import answer_within
from endpoints.errors import DatabaseUnavailable
from endpoints.log_database.shared_work import SharedWork
from logsources.databases import owner_connection
from logsources.introspection import MetadataPath, columns_by_table, common_paths, partitions_by_table, recent_metadata
from logsources.models import LogSource, ProjectLocation
from logsources.roles import LOGS_SCHEMA
from logsources.shards import WorkerFailed

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
    global _kept, _names_tried_at
    _kept, _names_tried_at = None, float("-inf")
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


# One request at a time has the tables read, and waits no longer than that.
_reading = SharedWork("catalogue", _read_and_keep, seconds=READ_SECONDS, in_background=True)


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


# --- Names for callers ------------------------------------------------------------------------------------------------
NAMES_SECONDS: Final = 300.0  # until the names that calls suggest are read anew, behind a call
TRIED_AGAIN_SECONDS: Final = 30.0  # after they could not be read

_names_tried_at = float("-inf")


def known_paths() -> tuple[str, ...]:
    """Return the paths, with dots, to values that are no objects, some minutes old. Never raises.

    They may come from everybody's rows: whoever suggests one looks for it in the caller's own rows first. Only the
    first call of a process waits for them; there are none if they cannot be read.
    """
    global _names_tried_at
    kept, now = _kept, monotonic()
    if kept is None and now - _names_tried_at >= TRIED_AGAIN_SECONDS:
        _names_tried_at = now
        try:
            kept = _reading.result()
        except (DatabaseUnavailable, psycopg.Error, DatabaseError):
            return ()
    if kept is None:
        return ()
    if now - kept.read_at >= NAMES_SECONDS:
        _reading.begin()
    paths = (path for source in kept.sources for path in source.metadata_paths)
    return tuple(dict.fromkeys(path.path for path in paths if path.type != "object"))


def likely_paths(path: str, known: Sequence[str]) -> list[str]:
    """Return the known paths that `path` may be a slip for, the likeliest first."""
    name = path.rpartition(".")[2]
    ends = [one for one in known if one.rpartition(".")[2] == name]
    begins = [one for one in known if len(name) > 3 and one.rpartition(".")[2].startswith(name)]
    near = get_close_matches(path, known, cutoff=0.75)
    return [one for one in dict.fromkeys([*ends, *near, *begins]) if one != path]
