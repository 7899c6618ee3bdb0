"""Creates, changes, drops and rolls log sources. Admin, tasks and commands call no lower module.

The registry lives in the default database, the tables in the log database; no transaction spans both. So the registry
is written first inside a transaction, then the table is changed and committed, and only then the registry commits. If
the process dies between the two, the table may differ from the registry until the next save corrects it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final

import psycopg
from django.core.exceptions import ValidationError
from django.db import Error, transaction
from psycopg import errors

from config.deadlines import answer_within
from logsources import covering, partitions, rolling, table_changes
from logsources.databases import owner_connection
from logsources.models import ExtractedColumn, LogSource, ProjectLocation
from logsources.partitions import DAYS_AHEAD
from logsources.rolling import PartitionAction, PartitionChange, RolledSource
from logsources.tables import ColumnType, ExtractedColumnShape, TableShape

# --- Known sources ----------------------------------------------------------------------------------------------------
# Finds the log source of a batch in a recent copy of the registry, because loads come many times a second.
FRESH_SECONDS: Final = 2.0
READ_SECONDS: Final = 0.5  # a load also has to wait for other things


class UnknownSource(Exception):
    """There is no log source with this name or UUID."""


@dataclass(frozen=True, slots=True)
class _Registry:
    by_reference: Mapping[str, RolledSource]  # a name or a UUID; no name has a dash
    by_producer_name: Mapping[str, RolledSource]
    read_at: float  # time.monotonic()


class KnownSources:
    """The log sources of one process, in the form that loading needs.

    For an unknown name the registry is read anew. While its database is away, the known sources stay in use.
    """

    def __init__(self) -> None:
        self._registry: _Registry | None = None

    def named(self, reference: str) -> RolledSource:
        """Return the source with this name or UUID. Raises UnknownSource and django.db.Error."""
        key = reference.lower() if "-" in reference else reference
        return self._find(lambda registry: registry.by_reference.get(key))

    def of_producer(self, producer_name: str) -> RolledSource:
        """Return the source for the rows of this producer. Raises UnknownSource and django.db.Error."""
        return self._find(lambda registry: registry.by_producer_name.get(producer_name))

    def forget(self) -> None:
        """Read the registry anew at the next call."""
        self._registry = None

    def _find(self, look: Callable[[_Registry], RolledSource | None]) -> RolledSource:
        registry = self._registry
        if registry is not None and monotonic() - registry.read_at < FRESH_SECONDS:
            found = look(registry)
            if found is not None:
                return found
        found = look(self._read_again(registry))
        if found is None:
            raise UnknownSource
        return found

    def _read_again(self, known: _Registry | None) -> _Registry:
        try:
            with answer_within(READ_SECONDS):
                registry = _read()
        except Error:
            if known is None:
                raise
            registry = replace(known, read_at=monotonic())  # asked again after a while, not by each load
        self._registry = registry
        return registry


def _read() -> _Registry:
    read_at = monotonic()
    by_reference: dict[str, RolledSource] = {}
    by_producer_name: dict[str, RolledSource] = {}
    for source in LogSource.objects.order_by("-name"):
        shape = TableShape(source.name, source.project_path or None)
        rolled = RolledSource(shape, source.retention_days, source.default_project)
        by_reference[source.name] = by_reference[str(source.uuid)] = rolled
        by_producer_name.update(dict.fromkeys(source.producer_names, rolled))
    return _Registry(by_reference, by_producer_name, read_at)


KNOWN_SOURCES: Final = KnownSources()


# --- Services ---------------------------------------------------------------------------------------------------------
__all__ = [
    "PartitionAction",
    "PartitionChange",
    "PartitionsNotRolled",
    "SourceTableError",
    "create_source",
    "drop_source",
    "roll_partitions",
    "save_source",
    "table_shape",
]

logger = logging.getLogger(__name__)

ColumnDescription = ExtractedColumnShape | Mapping[str, Any]


class SourceTableError(Exception):
    """The table of a log source could not be changed; the message is for the operator."""


class PartitionsNotRolled(Exception):
    """Rolling failed for some log sources; the others are done. `failures`: the error by source name."""

    def __init__(self, failures: Mapping[str, psycopg.Error], changes: list[PartitionChange]) -> None:
        self.failures = dict(failures)
        self.changes = changes
        lines = "; ".join(f"{name}: {str(error).splitlines()[0]}" for name, error in failures.items())
        super().__init__(f"The partitions of {len(failures)} log source(s) could not be rolled: {lines}")


def table_shape(source: LogSource) -> TableShape:
    """Return the shape of the source's table according to the registry."""
    return TableShape(
        name=source.name,
        project_path=source.project_path if source.project_location == ProjectLocation.METADATA else None,
        columns=tuple(
            ExtractedColumnShape(column.name, column.path, ColumnType(column.type), column.indexed, column.covered)
            for column in source.extracted_columns.order_by("name")
        ),
    )


def create_source(
    *,
    name: str,
    holds: str,
    project_location: str,
    project_path: str = "",
    uuid: str | None = None,
    default_project: str = "",
    retention_days: int | None = None,
    producer_names: Iterable[str] = (),
    extracted_columns: Iterable[ColumnDescription] = (),
) -> LogSource:
    """Register a log source and create its table; raises the same as `save_source`."""
    source = LogSource(
        **({} if uuid is None else {"uuid": uuid}),
        name=name,
        holds=holds,
        project_location=project_location,
        project_path=project_path,
        default_project=default_project,
        retention_days=retention_days,
        producer_names=list(producer_names),
    )
    return save_source(source, extracted_columns)


def save_source(source: LogSource, extracted_columns: Iterable[ColumnDescription]) -> LogSource:
    """Create or alter the table of a source to fit exactly these columns, then save the source.

    Raises ValidationError for impossible values, a new name, or a project that moves while the table has rows, and
    SourceTableError if the log database refuses. In each case nothing is saved.
    """
    columns = [_unsaved_column(source, description) for description in extracted_columns]
    with transaction.atomic():
        source.full_clean()
        _refuse_rename(source)
        source.save()
        source.extracted_columns.all().delete()
        for column in columns:
            column.source = source
            column.full_clean()
            column.save()
        with _explained_errors(source.name), owner_connection() as conn:
            table_changes.fit_table(conn, _rolled(source))
    return source


def drop_source(source: LogSource) -> None:
    """Drop a source and its table with every row; raises SourceTableError if something still reads the table."""
    name = source.name
    with transaction.atomic():
        source.delete()
        with _explained_errors(name), owner_connection() as conn:
            table_changes.drop_table(conn, name)


def roll_partitions(*, now: datetime | None = None, days_ahead: int = DAYS_AHEAD) -> list[PartitionChange]:
    """Create partitions ahead, move rows out of the default partitions, drop expired ones, for every source.

    Partitions that lack a covering index get it last.

    A failed source does not stop the others: PartitionsNotRolled is raised after all have had their turn.
    """
    today = partitions.utc_day(now or datetime.now(UTC))
    changes: list[PartitionChange] = []
    failures: dict[str, psycopg.Error] = {}
    for source in LogSource.objects.all():
        try:
            with owner_connection() as conn:
                rolled = _rolled(source)
                changes += rolling.roll_source(conn, rolled, today=today, days_ahead=days_ahead)
                changes += covering.fit_covering_indexes(conn, rolled.shape)
        except psycopg.Error as error:
            logger.exception("Partitions not rolled", extra={"source": source.name})
            failures[source.name] = error
    if failures:
        raise PartitionsNotRolled(failures, changes)
    return changes


def _rolled(source: LogSource) -> RolledSource:
    return RolledSource(shape=table_shape(source), retention_days=source.retention_days)


def _unsaved_column(source: LogSource, description: ColumnDescription) -> ExtractedColumn:
    if isinstance(description, ExtractedColumnShape):
        return ExtractedColumn(
            name=description.name,
            path=description.path,
            type=description.type.value,
            indexed=description.indexed,
            covered=description.covered,
        )
    unknown = set(description) - {"name", "path", "type", "indexed", "covered"}
    if unknown:
        raise ValidationError(f"An extracted column has no {', '.join(sorted(unknown))}.")
    return ExtractedColumn(**description)


def _refuse_rename(source: LogSource) -> None:
    if source._state.adding:
        return
    stored_name = LogSource.objects.values_list("name", flat=True).get(pk=source.pk)
    if stored_name != source.name:
        raise ValidationError({"name": f"A log source keeps its name; {stored_name} cannot become {source.name}."})


@contextmanager
def _explained_errors(name: str) -> Iterator[None]:
    """Turn PostgreSQL's message into one that helps an operator to act."""
    try:
        yield
    except errors.DependentObjectsStillExist as error:
        raise SourceTableError(
            f"Something still reads logs.{name} or the column: {error.diag.message_detail}"
        ) from error
    except errors.LockNotAvailable as error:
        raise SourceTableError(f"Table logs.{name} is busy with loads or queries; try again in a moment.") from error
    except psycopg.Error as error:
        logger.exception("Log table not changed", extra={"source": name})
        raise SourceTableError(
            f"The log database refused to change table logs.{name}: {error.diag.message_primary or error}"
        ) from error
