"""A log table of an earlier version takes loads and answers queries before, during and after its upgrade."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import psycopg
import pytest
from psycopg import Connection

from logsources import partitions, rolling, table_upgrades
from logsources.batches import load_batch, read_batch
from logsources.databases import LockSpace, owner_connection
from logsources.measures import newest_rows, projects_of
from logsources.project_column import ProjectColumn, read_project_column
from logsources.rolling import RolledSource
from logsources.storing import PreparedRow, ProjectMoved, RowStore
from logsources.table_upgrades import UpgradeRefused, upgrade_steps, upgrade_table
from logsources.tables import TableShape, create_table
from logsources.topology import ONE_SERVER, read_topology
from tests.logsources.older_tables import make_older_table

pytestmark = [pytest.mark.django_db(databases=["default", "logs"]), pytest.mark.sql]

NOW = datetime.now(UTC).replace(microsecond=0)
TABLE = "older_rows"
DAYS = [partitions.utc_day(NOW) - timedelta(days=ago) for ago in (2, 1, 0)]
LONG_AGO = NOW - timedelta(days=60)


@pytest.fixture(params=[None, "project_ref"], ids=["row field", "metadata"])
def source(request: pytest.FixtureRequest, logs: Connection[Any]) -> RolledSource:
    make_older_table(logs, TABLE, request.param, *DAYS)
    return RolledSource(TableShape(TABLE, request.param), retention_days=90)


def row(number: int, project: str = "acme", **fields: Any) -> dict[str, Any]:
    return {"id": f"row-{number}", "timestamp": NOW.isoformat(), "project": project, "event_message": "m"} | fields


def load(source: RolledSource, *rows: dict[str, Any]) -> tuple[int, int]:
    """Load a batch and return the numbers of new rows and of those that were there."""
    batch = read_batch(orjson.dumps(rows), project_path=source.shape.project_path, now=NOW)
    with owner_connection() as conn:
        report = load_batch(conn, source, batch, skip_bad_rows=False, topology=ONE_SERVER)
    return report.loaded, report.already_there


def store_without_project(logs: Connection[Any], *, id: str, moment: datetime = NOW) -> None:
    """Insert a row without a project, as an owner could."""
    logs.execute(
        f"INSERT INTO logs.{TABLE} (id, timestamp, event_message, metadata) VALUES (%s, %s, 'm', '[{{}}]')",
        (id, moment),
    )


def stored(logs: Connection[Any]) -> list[tuple[str, str | None]]:
    return logs.execute(f"SELECT id, project FROM logs.{TABLE} ORDER BY 1, 2").fetchall()


def upgrade(logs: Connection[Any]) -> list[str]:
    summaries: list[str] = []
    with owner_connection() as conn:
        taken = upgrade_table(conn, TABLE, report=lambda summary, seconds: summaries.append(summary))
    assert taken == len(summaries)
    return summaries


def shape_of(logs: Connection[Any], table: str) -> list[Any]:
    """Return what the catalog says of columns, constraints and indexes, of the parent or of a partition."""
    columns = logs.execute(
        "SELECT attname, attnotnull, attgenerated, atthasdef, col_description(attrelid, attnum) FROM pg_attribute"
        " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY 1",
        (f"logs.{table}",),
    ).fetchall()
    constraints = logs.execute(
        "SELECT contype, pg_get_constraintdef(oid), convalidated, conislocal, coninhcount FROM pg_constraint"
        " WHERE conrelid = to_regclass(%s) AND contype <> 'n' ORDER BY 1, 2",
        (f"logs.{table}",),
    ).fetchall()
    indexes = logs.execute(
        "SELECT replace(pg_get_indexdef(indexrelid), %s, ''), indisvalid, indisprimary FROM pg_index"
        " WHERE indrelid = to_regclass(%s) ORDER BY 1",
        (table, f"logs.{table}"),
    ).fetchall()
    return [columns, constraints, indexes]


def assert_of_today(logs: Connection[Any], source: RolledSource) -> None:
    """Compare with a table that was created today."""
    for statement in create_table(TableShape("newer_rows", source.shape.project_path)):
        logs.execute(statement)
    assert shape_of(logs, TABLE) == shape_of(logs, "newer_rows")
    assert shape_of(logs, f"{TABLE}_default") == shape_of(logs, "newer_rows_default")
    assert upgrade_steps(logs, TABLE) == []


def test_an_older_table_takes_loads(logs: Connection[Any], source: RolledSource) -> None:
    assert load(source, row(1), row(2, "globex"), row(3, timestamp=None)) == (3, 0)
    assert load(source, row(1), row(2, "globex"), row(3, timestamp=None), row(4)) == (1, 3)
    assert stored(logs) == [("row-1", "acme"), ("row-2", "globex"), ("row-3", "acme"), ("row-4", "acme")]


def test_rolling_moves_rows_of_an_older_table(logs: Connection[Any], source: RolledSource) -> None:
    load(source, row(1, timestamp=(NOW + timedelta(days=20)).isoformat()))
    rolling.place_day(logs, TABLE, partitions.utc_day(NOW + timedelta(days=20)))
    assert logs.execute(f"SELECT count(*) FROM logs.{TABLE}_default").fetchone() == (0,)
    assert stored(logs) == [("row-1", "acme")]


def test_rows_without_a_project_are_measured_in_an_older_table(logs: Connection[Any], source: RolledSource) -> None:
    store_without_project(logs, id="nobodys")
    assert newest_rows(logs, [TABLE]) == {TABLE: NOW}
    assert projects_of(logs, read_topology(logs), f"{TABLE}_p{NOW:%Y%m%d}", most=5) == []


def test_the_upgraded_table_is_the_one_of_today(logs: Connection[Any], source: RolledSource) -> None:
    load(source, row(1), row(2, "globex"), row(3, timestamp=LONG_AGO.isoformat()))
    store_without_project(logs, id="nobodys")
    store_without_project(logs, id="nobodys", moment=NOW - timedelta(days=900))
    steps = upgrade(logs)
    assert steps[0] == f"{TABLE}: loads fill the column project"
    assert steps[-1] == f"{TABLE}: the key is (id, project, timestamp)"
    assert len(steps) == 2 + len(rolling.partition_days(logs, TABLE)) + 1
    assert stored(logs) == [("nobodys", ""), ("nobodys", ""), ("row-1", "acme"), ("row-2", "globex"), ("row-3", "acme")]
    assert_of_today(logs, source)
    assert read_project_column(logs, TABLE) == ProjectColumn(source.shape.project_path, is_generated=False)
    assert upgrade(logs) == []


def test_the_upgraded_table_takes_loads_and_partitions(logs: Connection[Any], source: RolledSource) -> None:
    load(source, row(1))
    upgrade(logs)
    assert load(source, row(1), row(1, "globex"), row(2)) == (2, 1)
    assert stored(logs) == [("row-1", "acme"), ("row-1", "globex"), ("row-2", "acme")]
    later = partitions.utc_day(NOW) + timedelta(days=1)
    rolling.place_day(logs, TABLE, later)
    assert shape_of(logs, f"{TABLE}_p{later:%Y%m%d}")[0] == shape_of(logs, f"{TABLE}_p{DAYS[0]:%Y%m%d}")[0]


@pytest.mark.parametrize("taken", range(6))
def test_loads_and_rolling_go_on_wherever_an_upgrade_stops(
    logs: Connection[Any], source: RolledSource, taken: int
) -> None:
    store_without_project(logs, id="nobodys")
    for number in range(taken):
        load(source, row(number))
        assert upgrade_steps(logs, TABLE)[0].take()
    assert load(source, *(row(number) for number in range(taken + 1))) == (1, taken)
    later = partitions.utc_day(NOW) + timedelta(days=1)
    assert rolling.place_day(logs, TABLE, later) is not None
    upgrade(logs)
    assert_of_today(logs, source)
    assert stored(logs) == [("nobodys", ""), *((f"row-{number}", "acme") for number in range(taken + 1))]


def test_a_partition_that_comes_before_the_last_step_gets_the_key_too(
    logs: Connection[Any], source: RolledSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = partitions.utc_day(NOW) + timedelta(days=1)
    replace_key = table_upgrades._replace_key

    def placed_first(conn: Connection[Any], name: str, *, old_key: str) -> bool:
        with owner_connection() as other:
            rolling.place_day(other, name, later)
        return replace_key(conn, name, old_key=old_key)

    monkeypatch.setattr(table_upgrades, "_replace_key", placed_first)
    assert [step for step in upgrade(logs) if f"{later:%Y%m%d}" in step]
    assert_of_today(logs, source)


def test_rows_without_a_project_move_out_of_the_default_partition_meanwhile(
    logs: Connection[Any], source: RolledSource
) -> None:
    later = NOW + timedelta(days=20)
    store_without_project(logs, id="nobodys", moment=later)
    assert upgrade_steps(logs, TABLE)[0].take()
    assert rolling.place_day(logs, TABLE, partitions.utc_day(later)) is not None
    assert stored(logs) == [("nobodys", "")]
    upgrade(logs)
    assert_of_today(logs, source)


def test_a_partition_that_is_dropped_meanwhile_is_left_out(logs: Connection[Any], source: RolledSource) -> None:
    first, *rest = upgrade_steps(logs, TABLE)
    assert first.take()
    logs.execute(f"DROP TABLE logs.{TABLE}_p{DAYS[0]:%Y%m%d}")
    assert [step.take() for step in rest] == [True, True, False, True, True]
    assert_of_today(logs, source)


def test_neither_rows_nor_indexes_are_written_under_the_lock(logs: Connection[Any], source: RolledSource) -> None:
    """The files of tables and of the new indexes stay the same in the last step, and no row is read for NOT NULL."""
    load(source, row(1))
    steps = upgrade_steps(logs, TABLE)
    for step in steps[:-1]:
        step.take()
    files = (
        "SELECT array_agg(relfilenode ORDER BY relfilenode) FROM pg_class"
        " WHERE relname ~ '^older_rows_(p[0-9]+|default)' AND (relkind = 'r' OR relname LIKE %s)"
    )
    before = logs.execute(files, ("%$key",)).fetchone()
    told: list[str] = []
    logs.add_notice_handler(lambda diagnostic: told.append(diagnostic.message_primary or ""))
    logs.execute("SET client_min_messages = debug1")
    (last,) = upgrade_steps(logs, TABLE)
    assert last.take()
    logs.execute("RESET client_min_messages")
    assert logs.execute(files, ("%_pkey",)).fetchone() == before
    proven = [line for line in told if "sufficient to prove" in line]
    assert len(proven) == len(DAYS) + 1, told
    assert not [line for line in told if line.startswith(("verifying", "building index"))]


def test_readers_wait_only_for_the_first_and_the_last_step(logs: Connection[Any], source: RolledSource) -> None:
    load(source, row(1))
    with owner_connection() as reader:
        for step in upgrade_steps(logs, TABLE)[:-1]:
            step.take()
            reader.execute("SET lock_timeout = '5s'")
            assert reader.execute(f"SELECT count(*) FROM logs.{TABLE}").fetchone() == (1,)


def test_a_busy_table_is_left_as_it_is(
    logs: Connection[Any], source: RolledSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rolling, "EXCLUSIVE_LOCK_TIMEOUT", "20ms")
    monkeypatch.setattr(rolling, "EXCLUSIVE_PAUSE_SECONDS", 0.0)
    before = shape_of(logs, TABLE)
    with owner_connection() as reader, reader.transaction():
        reader.execute(f"SELECT count(*) FROM logs.{TABLE}")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            upgrade(logs)
    assert shape_of(logs, TABLE) == before
    upgrade(logs)
    assert_of_today(logs, source)


def test_a_load_that_left_the_project_out_ends_before_the_column_changes(
    logs: Connection[Any], source: RolledSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rolling, "EXCLUSIVE_LOCK_TIMEOUT", "20ms")
    monkeypatch.setattr(rolling, "EXCLUSIVE_ATTEMPTS", 1)
    store, refused = RowStore.store, []

    def upgrade_first(self: RowStore, rows: Iterable[PreparedRow]) -> None:
        with pytest.raises(psycopg.errors.LockNotAvailable) as fault:
            upgrade(logs)
        refused.append(fault.type)
        store(self, rows)

    monkeypatch.setattr(RowStore, "store", upgrade_first)
    assert load(source, row(1)) == (1, 0)
    assert len(refused) == 1
    assert stored(logs) == [("row-1", "acme")]


def test_one_session_upgrades_at_a_time(logs: Connection[Any], source: RolledSource) -> None:
    with owner_connection() as other:
        other.execute("SELECT pg_advisory_lock(%s, hashtext(%s))", (LockSpace.BUILDING.value, TABLE))
        with pytest.raises(UpgradeRefused, match="later"):
            upgrade(logs)


def test_waits_for_the_migration_that_closes_the_empty_tenant(logs: Connection[Any], source: RolledSource) -> None:
    with logs.transaction(force_rollback=True):
        logs.execute("CREATE OR REPLACE FUNCTION logs_private.tenant() RETURNS text LANGUAGE sql AS $$ SELECT '' $$")
        with pytest.raises(UpgradeRefused, match="migrate --database logs"):
            upgrade_steps(logs, TABLE)


def test_a_view_that_groups_by_the_old_key_is_named(logs: Connection[Any], source: RolledSource) -> None:
    logs.execute(f"CREATE VIEW logs.grouped AS SELECT event_message FROM logs.{TABLE} GROUP BY id, timestamp")
    with pytest.raises(psycopg.errors.DependentObjectsStillExist, match="grouped"):
        upgrade(logs)
    assert load(source, row(1)) == (1, 0)
    logs.execute("DROP VIEW logs.grouped")
    upgrade(logs)
    assert_of_today(logs, source)


def test_there_is_nothing_to_do_without_a_table(logs: Connection[Any]) -> None:
    assert upgrade_steps(logs, "no_such_table") == []


def test_a_load_that_reads_the_project_from_elsewhere_is_refused(logs: Connection[Any], source: RolledSource) -> None:
    with pytest.raises(ProjectMoved):
        load(RolledSource(TableShape(TABLE, "elsewhere"), retention_days=90), row(1))
    assert stored(logs) == []
