"""Sizes, times, samples and changes of log tables whose rows are on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from psycopg import Connection, sql

from logsources import rolling, table_changes
from logsources.databases import owner_connection
from logsources.introspection import partitions_by_table, recent_metadata, sample_rows
from logsources.measures import End, measure_sources, newest_rows, projects_of, rows_at
from logsources.partitions import MAX_SOURCE_NAME_LENGTH, default_partition_name, partition_name
from logsources.rolling import PartitionAction, RolledSource
from logsources.shards import WorkerFailed, filled_partitions, query_workers
from logsources.tables import ColumnType, ExtractedColumnShape, TableShape
from logsources.topology import CLUSTER, read_topology
from tests.moments import now

pytestmark = pytest.mark.django_db(databases=["default", "logs"])


def noon() -> datetime:
    return now().replace(hour=12, minute=0, second=0, microsecond=0)


TABLE = "l" * MAX_SOURCE_NAME_LENGTH  # its shards and their indexes get names that Citus shortens
PROJECTS = ("acme", "globex", "initech", "umbrella")
DAYS, HOURS = 2, 3


@pytest.fixture
def owner(db: None) -> Iterator[Connection[Any]]:
    with owner_connection() as connection:
        if not read_topology(connection).is_distributed:
            pytest.skip("the log database is no cluster")
        yield connection


@pytest.fixture
def table(owner: Connection[Any]) -> Iterator[str]:
    fit(owner, TABLE)
    yield TABLE
    table_changes.drop_table(owner, TABLE)


@pytest.fixture
def rows(table: str, owner: Connection[Any]) -> str:
    insert(owner, table, [noon() - timedelta(days=day, hours=hour) for day in range(DAYS) for hour in range(HOURS)])
    owner.execute(sql.SQL("ANALYZE {}").format(sql.Identifier("logs", table)))
    return table


def source(name: str, *columns: ExtractedColumnShape, retention_days: int | None = None) -> RolledSource:
    return RolledSource(TableShape(name, None, columns), retention_days)


def fit(owner: Connection[Any], name: str, *columns: ExtractedColumnShape) -> None:
    table_changes.fit_table(owner, source(name, *columns))


def insert(owner: Connection[Any], table: str, moments: Sequence[datetime]) -> None:
    owner.execute(
        sql.SQL(
            "INSERT INTO {} (id, project, timestamp, event_message, metadata)"
            " SELECT project || moment, project, moment, '', jsonb_build_array(jsonb_build_object('of', project))"
            " FROM unnest(%s::text[]) AS project, unnest(%s::timestamptz[]) AS moment"
        ).format(sql.Identifier("logs", table)),
        [["", *PROJECTS], list(moments)],
    )


def names(owner: Connection[Any], table: str) -> tuple[str, ...]:
    return partitions_by_table(owner)[table]


def one(owner: Connection[Any], query: str, *values: Any) -> Any:
    row = owner.execute(query, values).fetchone()
    assert row is not None
    return row[0]


# --- Measures ---------------------------------------------------------------------------------------------------------
def test_rows_size_and_span_are_those_of_the_shards(rows: str, owner: Connection[Any]) -> None:
    measure = measure_sources(owner, [rows])[rows]
    assert (measure.rows, measure.is_counted) == ((len(PROJECTS) + 1) * DAYS * HOURS, True)
    assert (measure.oldest, measure.newest) == (noon() - timedelta(days=DAYS - 1, hours=HOURS - 1), noon())
    size = "SELECT sum(citus_total_relation_size(inhrelid))::bigint FROM pg_inherits WHERE inhparent = %s::regclass"
    assert measure.bytes == one(owner, size, f"logs.{rows}") > 0


def test_an_empty_source(table: str, owner: Connection[Any]) -> None:
    measure = measure_sources(owner, [table])[table]
    assert (measure.rows, measure.oldest, measure.newest, measure.span_known) == (0, None, None, True)
    assert measure.bytes > 0  # its indexes
    assert newest_rows(owner, [table]) == {table: None}
    assert sample_rows(owner, table, names(owner, table), rows=5) == []
    assert recent_metadata(owner, table, names(owner, table)) == []


def test_the_newest_row_may_be_in_the_partition_of_all_other_days(rows: str, owner: Connection[Any]) -> None:
    assert newest_rows(owner, [rows]) == {rows: noon()}
    future = noon() + timedelta(days=4000)
    insert(owner, rows, [future])
    assert newest_rows(owner, [rows]) == {rows: future}


def test_edges_and_projects_of_a_partition(rows: str, owner: Connection[Any]) -> None:
    today, default = partition_name(rows, noon().date()), default_partition_name(rows)
    assert rows_at(owner, CLUSTER, [today, default], End.NEWEST) == {today: noon()}
    assert rows_at(owner, CLUSTER, [today, default], End.OLDEST) == {today: noon() - timedelta(hours=HOURS - 1)}
    assert projects_of(owner, CLUSTER, today, most=10) == list(PROJECTS)
    assert projects_of(owner, CLUSTER, today, most=2) == list(PROJECTS[:2])
    assert projects_of(owner, CLUSTER, default, most=10) == []


def test_partitions_with_rows(rows: str, owner: Connection[Any]) -> None:
    filled = filled_partitions(owner, CLUSTER, names(owner, rows))
    assert filled == [partition_name(rows, noon().date() - timedelta(days=day)) for day in reversed(range(DAYS))]


def test_samples_come_from_every_shard_the_newest_rows_first(rows: str, owner: Connection[Any]) -> None:
    found = sample_rows(owner, rows, names(owner, rows), rows=5)
    assert {row["project"] for row in found} == {"", *PROJECTS}
    assert {datetime.fromisoformat(row["timestamp"]) for row in found} == {noon()}
    samples = recent_metadata(owner, rows, names(owner, rows))
    assert len(samples) == (len(PROJECTS) + 1) * DAYS * HOURS
    assert {sample[0]["of"] for sample in samples} == {"", *PROJECTS}


def test_a_worker_that_fails_is_told_and_not_taken_for_one_without_rows(rows: str, owner: Connection[Any]) -> None:
    with pytest.raises(WorkerFailed, match="division by zero"):
        query_workers(owner, names(owner, rows), sql.SQL("SELECT to_jsonb(1 / 0)"))


# --- Changes ----------------------------------------------------------------------------------------------------------
def test_columns_come_and_go_with_their_indexes(rows: str, owner: Connection[Any]) -> None:
    path = ExtractedColumnShape("request_path", "request.path", ColumnType.TEXT, indexed=True)
    both = ExtractedColumnShape("request_path", "request.path", ColumnType.TEXT, indexed=True, covered=True)
    for columns in ([path], [both], [path], [both], []):
        fit(owner, rows, *columns)
        shape = table_changes.read_shape(owner, rows)
        assert shape is not None
        assert list(shape.columns) == columns


def test_each_partition_gets_a_covering_index(rows: str, owner: Connection[Any]) -> None:
    fit(owner, rows, ExtractedColumnShape("status", "status", ColumnType.INTEGER, covered=True))
    attached = "SELECT count(*) FROM pg_inherits WHERE inhparent = to_regclass(%s)"
    assert one(owner, attached, f'logs."{rows}$cov"') == len(names(owner, rows))


def test_rows_that_get_a_partition_leave_no_copy_at_the_coordinator(table: str, owner: Connection[Any]) -> None:
    moment = noon() - timedelta(days=5)
    insert(owner, table, [moment])
    changes = rolling.roll_source(owner, source(table), today=noon().date())
    day = partition_name(table, moment.date())
    assert [(change.partition_name, change.rows) for change in changes] == [(day, len(PROJECTS) + 1)]
    assert one(owner, "SELECT pg_relation_size(%s::regclass)", f"logs.{day}") == 0
    assert one(owner, f"SELECT count(*) FROM logs.{day}") == len(PROJECTS) + 1


def test_expired_partitions_and_rows_are_dropped(rows: str, owner: Connection[Any]) -> None:
    insert(owner, rows, [noon() - timedelta(days=4000)])
    changes = rolling.roll_source(owner, source(rows, retention_days=0), today=noon().date())
    dropped = partition_name(rows, noon().date() - timedelta(days=1))
    assert [(change.partition_name, change.action) for change in changes] == [
        (dropped, PartitionAction.DROPPED),
        (default_partition_name(rows), PartitionAction.EMPTIED),
    ]
    assert measure_sources(owner, [rows])[rows].oldest == noon() - timedelta(hours=HOURS - 1)
