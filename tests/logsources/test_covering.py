from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest
from psycopg import errors

from logsources import covering, rolling, services, table_changes, tables
from logsources.databases import owner_connection
from logsources.models import ExtractedColumn, LogSource
from logsources.rolling import PartitionAction, PartitionChange, RolledSource
from logsources.tables import ColumnType, ExtractedColumnShape, TableShape

pytestmark = [pytest.mark.django_db(databases=["default", "logs"]), pytest.mark.sql]

URL = ExtractedColumnShape("request_url", "request.url", ColumnType.TEXT, covered=True)
PATH = ExtractedColumnShape("request_path", "request.path", ColumnType.TEXT, covered=True)
STATUS = ExtractedColumnShape("status", "response.status_code", ColumnType.INTEGER, covered=True)
UNCOVERED = ExtractedColumnShape("status", "response.status_code", ColumnType.INTEGER)
LENGTH = "coalesce(octet_length(request_path), 0) + coalesce(octet_length(request_url), 0)"
SHORT, LONG = f"{LENGTH} <= 1200", f"{LENGTH} > 1200"


def shape_of(*columns):
    return TableShape("covered", None, columns)


def fit(logs, *columns):
    table_changes.fit_table(logs, RolledSource(shape_of(*columns), None))


def indexes_of(logs, partition):
    """Return the definitions of a partition's indexes on the time, without names."""
    rows = logs.execute(
        "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = to_regclass(%s) AND indisvalid"
        " AND indnkeyatts = 1 ORDER BY indnatts DESC",
        (f"logs.{partition}",),
    )
    definitions = (definition.partition(" USING ")[2] for (definition,) in rows)
    return [definition for definition in definitions if definition.startswith('btree ("timestamp")')]


def partitions_of(logs):
    rows = logs.execute("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'logs.covered'::regclass")
    return [name.removeprefix("logs.") for (name,) in rows]


def stored(logs, insert, *, url, path="/x", day=0):
    moment = datetime.now(UTC) - timedelta(days=day)
    request = {"url": url, "path": path}
    insert("covered", id=url[:40], timestamp=moment, project="acme", metadata=[{"request": [request]}])


def explained(conn, condition):
    conn.execute("SET enable_seqscan = off")
    conn.execute("SET enable_bitmapscan = off")
    query = f"EXPLAIN (COSTS OFF) SELECT timestamp, request_path FROM logs.covered WHERE {condition}"
    return "\n".join(line for (line,) in conn.execute(query))


def test_new_table_has_both_indexes_in_every_partition(logs) -> None:
    fit(logs, URL, PATH)
    assert len(partitions_of(logs)) > 8
    for partition in partitions_of(logs):
        covering_index, rest = indexes_of(logs, partition)
        assert "INCLUDE (project, request_path, request_url) WHERE" in covering_index
        assert "INCLUDE" not in rest
        assert " > 1200" in rest


def test_table_without_covered_columns_has_none(logs) -> None:
    fit(logs, UNCOVERED)
    assert all(indexes_of(logs, partition) == [] for partition in partitions_of(logs))


def test_columns_of_fixed_width_need_no_second_index(logs) -> None:
    fit(logs, STATUS)
    assert all(
        indexes_of(logs, partition) == ['btree ("timestamp") INCLUDE (project, status)']
        for partition in partitions_of(logs)
    )


@pytest.mark.parametrize("length", [1_150, 2_000, 3_000, 100_000])
def test_values_of_any_length_can_be_stored(logs, insert, length) -> None:
    fit(logs, URL, PATH)
    # Random, as what repeats itself is compressed and would fit.
    (noise,) = logs.execute(
        "SELECT string_agg(md5(random()::text), '') FROM generate_series(1, %s)", (length // 32 + 1,)
    ).fetchone()
    stored(logs, insert, url=noise[:length])
    assert logs.execute("SELECT count(*) FROM logs.covered").fetchone() == (1,)


def test_largest_entry_fits(logs, insert) -> None:
    fit(logs, URL, PATH)
    noise = logs.execute(
        "SELECT string_agg(chr(8192 + (random() * 4000)::int), '') FROM generate_series(1, 400)"
    ).fetchone()[0]
    wide = logs.execute("SELECT string_agg(chr(66000 + (random() * 9000)::int), '') FROM generate_series(1, 255)")
    request = {"url": noise[:200], "path": noise[200:]}
    metadata = [{"request": [request]}]
    insert("covered", timestamp=datetime.now(UTC), project=wide.fetchone()[0], metadata=metadata)
    assert logs.execute(f"SELECT count(*) FROM logs.covered WHERE {SHORT}").fetchone() == (1,)


@pytest.mark.parametrize(("condition", "expected"), [(SHORT, "Index Only Scan"), (LONG, "Index Scan")])
def test_each_half_is_read_from_its_index(logs, condition, expected) -> None:
    fit(logs, URL, PATH)
    lines = [line for line in explained(logs, condition).splitlines() if "Scan" in line]
    assert lines
    assert all(expected in line for line in lines)


def test_readers_under_row_security_need_the_index_alone(logs, gate) -> None:
    fit(logs, URL, PATH)
    gate.execute("SELECT set_config('logs.scope', 'every_project', false), set_config('role', 'query_reader', false)")
    plan = explained(gate, f"{SHORT} AND request_url ~ 'acme'")
    assert "logs_private" not in plan
    assert "Index Only Scan" in plan
    assert "Seq Scan" not in plan


def test_every_row_is_in_one_half(logs, insert) -> None:
    fit(logs, URL, PATH)
    stored(logs, insert, url="u" * 1_198)
    stored(logs, insert, url="v" * 1_199)
    insert("covered", id="without", timestamp=datetime.now(UTC), project="acme")
    counts = logs.execute(f"SELECT count(*) FILTER (WHERE {SHORT}), count(*) FILTER (WHERE {LONG}) FROM logs.covered")
    assert counts.fetchone() == (2, 1)


def test_other_columns_replace_the_indexes(logs) -> None:
    fit(logs, URL, PATH)
    fit(logs, URL, STATUS)
    for partition in partitions_of(logs):
        covering_index, _ = indexes_of(logs, partition)
        assert "(project, request_url, status)" in covering_index
    fit(logs, ExtractedColumnShape(URL.name, URL.path, URL.type))
    assert all(indexes_of(logs, partition) == [] for partition in partitions_of(logs))


def test_the_shape_is_read_back(logs) -> None:
    fit(logs, PATH, UNCOVERED)
    assert table_changes.read_shape(logs, "covered") == shape_of(PATH, UNCOVERED)


def test_second_fit_changes_nothing(logs) -> None:
    fit(logs, URL, PATH)
    assert covering.fit_covering_indexes(logs, shape_of(URL, PATH)) == []


@pytest.fixture
def older_table(logs, insert):
    """A table from before its columns were covered, with rows in yesterday's and today's partition."""
    fit(logs, *(ExtractedColumnShape(column.name, column.path, column.type) for column in (URL, PATH)))
    stored(logs, insert, url="today")
    stored(logs, insert, url="yesterday", day=1)


@pytest.fixture
def large_partitions(monkeypatch):
    monkeypatch.setattr(covering, "SMALL_PARTITION_BYTES", 0)


def test_existing_partitions_get_theirs(logs, older_table) -> None:
    changes = covering.fit_covering_indexes(logs, shape_of(URL, PATH))
    assert [change.action for change in changes] == [PartitionAction.INDEXED] * len(partitions_of(logs))
    assert all(len(indexes_of(logs, partition)) == 2 for partition in partitions_of(logs))
    is_valid = logs.execute("SELECT bool_and(indisvalid) FROM pg_index WHERE indrelid = 'logs.covered'::regclass")
    assert is_valid.fetchone() == (True,)


def test_loads_go_on_while_a_large_partition_is_indexed(logs, older_table, large_partitions, insert) -> None:
    moment = datetime.now(UTC)
    with owner_connection() as builder, owner_connection() as early, owner_connection() as late:
        building = threading.Thread(target=covering.fit_covering_indexes, args=(builder, shape_of(URL, PATH)))
        fit(logs, URL, PATH)  # the parent's, for which a load in progress is waited for
        with early.transaction():
            insert("covered", id="early", timestamp=moment, project="acme", conn=early)
            building.start()
            while not logs.execute(
                "SELECT 1 FROM pg_stat_progress_create_index WHERE phase LIKE 'waiting for%%'"
            ).fetchone():
                assert building.is_alive()
            late.execute("SET lock_timeout = '2s'")
            insert("covered", id="late", timestamp=moment, project="acme", conn=late)
        building.join()
    assert len(indexes_of(logs, f"covered_p{moment:%Y%m%d}")) == 2
    assert logs.execute(f"SELECT count(*) FROM logs.covered WHERE {SHORT}").fetchone() == (4,)


def test_saving_leaves_large_partitions_to_rolling(logs, older_table, large_partitions) -> None:
    fit(logs, URL, PATH)
    partition = f"covered_p{datetime.now(UTC):%Y%m%d}"
    assert indexes_of(logs, partition) == []
    covering.fit_covering_indexes(logs, shape_of(URL, PATH))
    assert len(indexes_of(logs, partition)) == 2


def test_partition_whose_load_takes_too_long_is_left_for_the_next_time(
    logs, older_table, large_partitions, insert, monkeypatch
) -> None:
    fit(logs, URL, PATH)
    monkeypatch.setattr(covering, "BUILD_LOCK_TIMEOUT", "200ms")
    partition = f"covered_p{datetime.now(UTC):%Y%m%d}"
    with owner_connection() as load, load.transaction():
        insert("covered", id="load", timestamp=datetime.now(UTC), project="acme", conn=load)
        covering.fit_covering_indexes(logs, shape_of(URL, PATH))
        assert indexes_of(logs, partition) == []
    # The invalid index of the interrupted build is replaced.
    covering.fit_covering_indexes(logs, shape_of(URL, PATH))
    assert len(indexes_of(logs, partition)) == 2


def test_one_session_builds_at_a_time(logs, older_table) -> None:
    with owner_connection() as other, covering.building_alone(other, "covered") as is_alone:
        assert is_alone
        assert covering.fit_covering_indexes(logs, shape_of(URL, PATH)) == []
    assert covering.fit_covering_indexes(logs, shape_of(URL, PATH)) != []


def test_a_failure_leaves_the_session_as_it_was(logs, older_table) -> None:
    before = logs.execute("SHOW lock_timeout").fetchone()
    with pytest.raises(errors.UndefinedColumn):
        covering.fit_covering_indexes(logs, shape_of(STATUS))
    assert logs.execute("SHOW lock_timeout").fetchone() == before
    assert covering.covered_columns(logs, "covered") == ()


def test_rolling_brings_the_indexes_of_a_registered_source(logs) -> None:
    LogSource.objects.all().delete()
    plain = ExtractedColumnShape(PATH.name, PATH.path, PATH.type)
    source = services.create_source(
        name="covered", holds="test rows", project_location="row field", extracted_columns=[plain]
    )
    ExtractedColumn.objects.filter(source=source).update(covered=True)
    partition = f"covered_p{datetime.now(UTC):%Y%m%d}"
    assert PartitionChange("covered", partition, PartitionAction.INDEXED) in services.roll_partitions()
    assert len(indexes_of(logs, partition)) == 2
    assert services.roll_partitions() == []


def test_partitions_are_vacuumed_while_they_fill(logs) -> None:
    fit(logs, URL, PATH)
    options = logs.execute(
        "SELECT DISTINCT reloptions::text FROM pg_class JOIN pg_inherits ON inhrelid = oid"
        " WHERE inhparent = 'logs.covered'::regclass"
    ).fetchall()
    assert len(options) == 1
    assert "autovacuum_vacuum_insert_scale_factor=0.02" in options[0][0]


def test_day_made_later_is_like_its_parent(logs) -> None:
    fit(logs, URL, PATH)
    day = datetime.now(UTC).date() + timedelta(days=60)
    assert rolling.place_day(logs, shape_of(URL, PATH).name, day) is not None
    assert len(indexes_of(logs, f"covered_p{day:%Y%m%d}")) == 2
    assert covering.fit_covering_indexes(logs, shape_of(URL, PATH)) == []
    assert tables.covered_names(shape_of(URL, PATH)) == ("request_path", "request_url")
