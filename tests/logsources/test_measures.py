from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from logsources import services
from logsources.introspection import partitions_by_table, sample_rows
from logsources.measures import End, measure_sources, newest_rows, projects_of, rows_at
from logsources.topology import read_topology
from tests.moments import now

pytestmark = [pytest.mark.django_db(databases=["default", "logs"]), pytest.mark.sql]


def noon() -> datetime:
    return now().replace(hour=12, minute=0, second=0, microsecond=0)  # some hours before are the same day


LONG_AGO = datetime(1999, 12, 31, tzinfo=UTC)  # before any partition: in the default one
TABLE = "measured"


@pytest.fixture
def source(logs):
    services.create_source(name=TABLE, holds="test rows", project_location="row field")
    return logs


@pytest.fixture
def rows(source, insert):
    for day in range(2):
        for project in ("acme", "globex", ""):
            for hour in range(3):
                moment = noon() - timedelta(days=day, hours=hour)
                insert(TABLE, id=f"{day}{project}{hour}", timestamp=moment, project=project)
    return source


def names(logs):
    return partitions_by_table(logs)[TABLE]


def test_an_empty_source(source) -> None:
    measure = measure_sources(source, [TABLE])[TABLE]
    assert (measure.rows, measure.oldest, measure.newest, measure.filled) == (0, None, None, ())
    assert measure.is_counted
    assert measure.span_known
    assert measure.bytes > 0  # its indexes
    assert {partition.day for partition in measure.partitions} >= {
        None,
        noon().date(),
        noon().date() + timedelta(days=1),
    }


def test_rows_size_and_span(rows) -> None:
    rows.execute(f"ANALYZE logs.{TABLE}")
    measure = measure_sources(rows, [TABLE])[TABLE]
    assert (measure.rows, measure.is_counted) == (18, True)
    assert (measure.oldest, measure.newest) == (noon() - timedelta(days=1, hours=2), noon())
    assert sum(partition.rows or 0 for partition in measure.filled) == 18


def test_rows_grow_between_two_counts_as_the_pages_do(source, insert) -> None:
    insert(TABLE, id="first", timestamp=noon())
    source.execute(f"ANALYZE logs.{TABLE}")
    source.execute(
        f"INSERT INTO logs.{TABLE} (id, project, timestamp, event_message, metadata)"
        f" SELECT n::text, '', '{noon().isoformat()}', repeat('x', 2000), '[]' FROM generate_series(1, 100) AS n"
    )
    assert (measure_sources(source, [TABLE])[TABLE].rows or 0) > 10


def test_uncounted_rows_are_not_taken_for_none(source, insert, superuser) -> None:
    insert(TABLE, id="first", timestamp=noon())
    source.execute("SELECT pg_stat_force_next_flush()")
    partition = next(name for name in names(source) if name.endswith(f"{noon():%Y%m%d}"))
    superuser.execute("SELECT pg_stat_reset_single_table_counters(%s::regclass)", [f"logs.{partition}"])
    measure = measure_sources(source, [TABLE])[TABLE]
    assert (measure.rows, measure.is_counted) == (None, False)
    assert measure.newest == noon()


def test_a_source_without_a_table_has_no_measure(source) -> None:
    assert set(measure_sources(source, [TABLE, "no_such_table"])) == {TABLE}


def test_the_span_reaches_into_the_partition_of_all_other_days(rows, insert) -> None:
    insert(TABLE, id="old", timestamp=LONG_AGO, project="acme")
    measure = measure_sources(rows, [TABLE])[TABLE]
    assert (measure.oldest, measure.newest) == (LONG_AGO, noon())
    insert(TABLE, id="future", timestamp=noon() + timedelta(days=4000), project="acme")
    assert newest_rows(rows, [TABLE])[TABLE] == noon() + timedelta(days=4000)


def test_edges_of_a_partition_are_read_from_its_index(rows, logs) -> None:
    partition = f"{TABLE}_p{noon() - timedelta(days=1):%Y%m%d}"
    expected = logs.execute(f"SELECT min(timestamp), max(timestamp) FROM logs.{partition}").fetchone()
    both = [partition, f"{TABLE}_default"]
    assert tuple(rows_at(logs, read_topology(logs), both, end) for end in End) == tuple(
        {partition: edge} for edge in expected
    )


def test_projects(rows, logs) -> None:
    partition = f"{TABLE}_p{noon() - timedelta(days=1):%Y%m%d}"
    assert projects_of(logs, read_topology(logs), partition, most=10) == ["acme", "globex"]
    assert projects_of(logs, read_topology(logs), partition, most=1) == ["acme"]
    assert projects_of(logs, read_topology(logs), f"{TABLE}_default", most=10) == []


def test_sample_rows_are_those_loaded_last(rows, insert, logs) -> None:
    for number, days in enumerate((0, 1, 0, 1)):
        insert(TABLE, id=f"last {number}", timestamp=noon() - timedelta(days=days, hours=9), project="acme")
    found = sample_rows(logs, TABLE, names(logs), rows=3)
    assert [row["id"] for row in found] == ["last 3", "last 2", "last 1"]
    assert set(found[0]) == {"id", "project", "timestamp", "event_message", "metadata"}
    assert sample_rows(logs, TABLE, [f"{TABLE}_default"], rows=2) == []


def test_the_last_rows_of_one_load_come_last_first(source, logs) -> None:
    logs.execute(
        f"INSERT INTO logs.{TABLE} (id, project, timestamp, event_message, metadata) SELECT n::text, '',"
        f" '{noon().isoformat()}', repeat('x', 200), '[]' FROM generate_series(1, 1000) AS n"
    )
    found = sample_rows(logs, TABLE, names(logs), rows=4)
    assert [row["id"] for row in found] == ["1000", "999", "998", "997"]


def test_rows_loaded_into_the_partition_of_all_other_days_are_seen(rows, insert, logs) -> None:
    insert(TABLE, id="old", timestamp=LONG_AGO, project="acme")
    assert [row["id"] for row in sample_rows(logs, TABLE, names(logs), rows=1)] == ["old"]


def test_rows_before_empty_pages_are_sampled(rows, insert, logs) -> None:
    for number in range(50):  # four of them fill a page
        insert(TABLE, id=f"large {number}", timestamp=noon(), project="acme", metadata=[{"text": "x" * 1_800}])
    logs.execute(f"DELETE FROM logs.{TABLE} WHERE starts_with(id, 'large')")
    pages = logs.execute(f"SELECT pg_relation_size('logs.{TABLE}_p{noon():%Y%m%d}') / 8192").fetchone()[0]
    assert pages > 10
    today = [name for name in names(logs) if name.endswith(f"{noon():%Y%m%d}")]
    assert datetime.fromisoformat(sample_rows(logs, TABLE, today, rows=3)[-1]["timestamp"]) == noon()
