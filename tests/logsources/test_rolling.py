from __future__ import annotations

import threading
import time
from datetime import UTC, date, datetime, timedelta

import pytest
from psycopg import errors

from logsources import rolling, tables
from logsources.databases import owner_connection
from logsources.rolling import PartitionAction, PartitionChange, RolledSource
from logsources.tables import ColumnType, ExtractedColumnShape, TableShape

pytestmark = [pytest.mark.django_db(databases=["default", "logs"]), pytest.mark.sql]

TODAY = date(2025, 6, 2)
COLUMN = ExtractedColumnShape("path", "request.path", ColumnType.TEXT, indexed=True)


def noon(day):
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC)


@pytest.fixture(params=[None, "project_ref"], ids=["row field", "metadata"])
def source(request, logs):
    return made(logs, TableShape("rolled", request.param, (COLUMN,)), retention_days=90)


@pytest.fixture
def plain_source(logs):
    return made(logs, TableShape("rolled", None), retention_days=90)


def made(logs, shape, *, retention_days):
    for statement in tables.create_table(shape):
        logs.execute(statement)
    return RolledSource(shape, retention_days)


def held_by(logs, table):
    return logs.execute(f"SELECT array_agg(id ORDER BY id) FROM logs.{table}").fetchone()[0]


def created(*days, rows=0):
    return [PartitionChange("rolled", f"rolled_p{day:%Y%m%d}", PartitionAction.CREATED, rows) for day in days]


def test_makes_partitions_from_yesterday_ahead(logs, source) -> None:
    changes = rolling.roll_source(logs, source, today=TODAY, days_ahead=2)
    assert changes == created(*(date(2025, 6, day) for day in (1, 2, 3, 4)))
    assert rolling.partition_days(logs, "rolled") == {date(2025, 6, day) for day in (1, 2, 3, 4)}


def test_second_roll_of_a_day_does_nothing(logs, source) -> None:
    rolling.roll_source(logs, source, today=TODAY)
    assert rolling.roll_source(logs, source, today=TODAY) == []


def test_moves_rows_out_of_the_default_partition(logs, source, insert) -> None:
    metadata = [{"project_ref": "acme", "request": [{"path": "/x"}]}]
    day = TODAY - timedelta(days=40)
    for number in range(3):
        insert("rolled", id=str(number), timestamp=noon(day), metadata=metadata)
    assert held_by(logs, "rolled_default") == ["0", "1", "2"]
    assert rolling.roll_source(logs, source, today=TODAY, days_ahead=0)[0] == created(day, rows=3)[0]
    assert held_by(logs, "rolled_default") is None
    assert held_by(logs, "rolled_p20250423") == ["0", "1", "2"]
    assert logs.execute("SELECT DISTINCT path FROM logs.rolled").fetchall() == [("/x",)]


def test_leaves_rows_far_ahead_where_they_are(logs, plain_source, insert) -> None:
    insert("rolled", id="ahead", timestamp=noon(TODAY + timedelta(days=30)))
    insert("rolled", id="endless", timestamp="infinity")
    rolling.roll_source(logs, plain_source, today=TODAY)
    assert held_by(logs, "rolled_default") == ["ahead", "endless"]


def test_keeps_ancient_rows_of_a_source_without_retention(logs, insert) -> None:
    source = made(logs, TableShape("rolled", None), retention_days=None)
    insert("rolled", id="ancient", timestamp=noon(date(1990, 1, 1)))
    insert("rolled", id="beginning", timestamp="-infinity")
    insert("rolled", id="old", timestamp=noon(TODAY - timedelta(days=400)))
    rolling.roll_source(logs, source, today=TODAY, days_ahead=0)
    assert held_by(logs, "rolled_default") == ["ancient", "beginning"]
    assert held_by(logs, "rolled") == ["ancient", "beginning", "old"]


def test_drops_what_is_older_than_the_retention(logs, insert) -> None:
    source = made(logs, TableShape("rolled", None), retention_days=2)
    days = {number: TODAY - timedelta(days=number) for number in range(5)}
    for number, day in days.items():
        rolling.place_day(logs, source.shape.name, day)
        insert("rolled", id=f"{number} days old", timestamp=noon(day))
    insert("rolled", id="in default", timestamp=noon(TODAY - timedelta(days=9)))
    changes = rolling.roll_source(logs, source, today=TODAY, days_ahead=0)
    assert changes == [
        PartitionChange("rolled", "rolled_p20250529", PartitionAction.DROPPED),
        PartitionChange("rolled", "rolled_p20250530", PartitionAction.DROPPED),
        PartitionChange("rolled", "rolled_default", PartitionAction.EMPTIED, 1),
    ]
    assert held_by(logs, "rolled") == ["0 days old", "1 days old", "2 days old"]


def test_late_rows_beyond_the_retention_go_where_no_partition_does(logs, insert) -> None:
    source = made(logs, TableShape("rolled", None), retention_days=2)
    rolling.roll_source(logs, source, today=TODAY, days_ahead=0)
    for days in (2, 3):
        insert("rolled", id=f"{days} days old", timestamp=noon(TODAY - timedelta(days=days)))
    rolling.roll_source(logs, source, today=TODAY, days_ahead=0)
    assert held_by(logs, "rolled") == ["2 days old"]


def test_closes_new_partitions_to_readers(logs, gate, plain_source) -> None:
    logs.execute("ALTER DEFAULT PRIVILEGES IN SCHEMA logs GRANT SELECT ON TABLES TO PUBLIC, query_reader")
    try:
        rolling.roll_source(logs, plain_source, today=TODAY, days_ahead=0)
    finally:
        logs.execute("ALTER DEFAULT PRIVILEGES IN SCHEMA logs REVOKE SELECT ON TABLES FROM PUBLIC, query_reader")
    with gate.transaction(force_rollback=True):
        gate.execute("SET LOCAL ROLE query_reader")
        with pytest.raises(errors.InsufficientPrivilege):
            gate.execute("SELECT count(*) FROM logs.rolled_p20250602")


def test_loses_no_row_that_is_loaded_while_others_move(logs, plain_source, insert) -> None:
    days = [TODAY - timedelta(days=number) for number in range(1, 13)]
    loaded: list[str] = []
    faults: list[BaseException] = []
    stop = threading.Event()

    def load(worker) -> None:
        try:
            with owner_connection() as conn:
                number = 0
                while not stop.is_set():
                    id = f"{worker}-{number}"
                    try:
                        with conn.transaction():
                            for part, day in enumerate(days[number % 6 :: 6]):
                                insert("rolled", id=f"{id}-{part}", timestamp=noon(day), conn=conn)
                    except errors.CheckViolation:
                        continue  # the partition came while the row was on its way to the default one: run again
                    loaded.extend(f"{id}-{part}" for part in range(2))
                    number += 1
        except BaseException as fault:  # noqa: BLE001 - shown by the main thread
            faults.append(fault)

    workers = [threading.Thread(target=load, args=(worker,)) for worker in range(3)]
    for worker in workers:
        worker.start()
    try:
        _wait_until(lambda: len(loaded) > 200 or faults)
        changes = rolling.roll_source(logs, plain_source, today=TODAY, days_ahead=0)
        seen = len(loaded)
        _wait_until(lambda: len(loaded) > seen + 200 or faults)
    finally:
        stop.set()
        for worker in workers:
            worker.join(timeout=30)
    assert faults == []
    assert sum(change.rows for change in changes) > 200
    assert held_by(logs, "rolled") == sorted(loaded)
    assert held_by(logs, "rolled_default") is None


def _wait_until(condition, seconds=20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_two_rollers_take_turns(logs, plain_source, insert) -> None:
    for number in range(20):
        insert("rolled", id=str(number), timestamp=noon(TODAY - timedelta(days=number)))
    results: list[object] = []

    def roll(barrier) -> None:
        try:
            with owner_connection() as conn:
                barrier.wait(timeout=20)
                results.append(rolling.roll_source(conn, plain_source, today=TODAY, days_ahead=3))
        except BaseException as fault:  # noqa: BLE001 - shown by the main thread
            results.append(fault)

    barrier = threading.Barrier(3)
    rollers = [threading.Thread(target=roll, args=(barrier,)) for _ in range(3)]
    for roller in rollers:
        roller.start()
    for roller in rollers:
        roller.join(timeout=60)
    assert [result for result in results if not isinstance(result, list)] == []
    changes = [change.partition_name for result in results for change in result]
    assert len(changes) == len(set(changes)) == 23
    assert len(held_by(logs, "rolled")) == 20


def test_readers_go_on_while_rows_move(logs, gate, plain_source, insert) -> None:
    """A long read of the default partition holds up the last step alone, and reads that begin meanwhile pass."""
    insert("rolled", id="1", timestamp=noon(TODAY), project="acme")
    read = "SELECT count(*) FROM logs.rolled"
    done = threading.Event()

    def roll() -> None:
        with owner_connection() as conn:
            rolling.roll_source(conn, plain_source, today=TODAY, days_ahead=0)
        done.set()

    with owner_connection() as long_reader, long_reader.transaction():
        long_reader.execute(read)
        roller = threading.Thread(target=roll)
        roller.start()
        for _ in range(10):
            with gate.transaction(force_rollback=True):
                gate.execute(
                    "SELECT set_config('logs.tenant', '=acme', true), set_config('role', 'query_reader', true)"
                )
                assert gate.execute(read).fetchone() == (1,)
            time.sleep(0.1)
        assert not done.is_set()
    assert done.wait(timeout=20)
    roller.join()
    assert held_by(logs, "rolled_p20250602") == ["1"]


class TestPrepareDays:
    def prepare(self, logs, source, *days, today=TODAY):
        return rolling.prepare_days(logs, source, days=days, today=today)

    def test_makes_the_days_that_are_missing(self, logs, source) -> None:
        assert self.prepare(logs, source, TODAY, TODAY, date(2025, 4, 1)) == [date(2025, 4, 1), TODAY]
        assert self.prepare(logs, source, TODAY) == []

    def test_makes_none_outside_the_window(self, logs, source) -> None:
        assert self.prepare(logs, source, date(2025, 3, 3), date(2025, 6, 10), date(1970, 1, 1)) == []
        assert self.prepare(logs, source, date(2025, 3, 4), date(2025, 6, 9)) == [date(2025, 3, 4), date(2025, 6, 9)]

    def test_leaves_a_day_with_rows_in_the_default_partition_to_rolling(self, logs, plain_source, insert) -> None:
        insert("rolled", timestamp=noon(TODAY))
        assert self.prepare(logs, plain_source, TODAY) == []
        assert held_by(logs, "rolled_default") == ["1"]

    def test_does_not_wait_for_a_load_in_progress(self, logs, plain_source, insert) -> None:
        with owner_connection() as loader, loader.transaction():
            insert("rolled", timestamp=noon(TODAY - timedelta(days=3)), conn=loader)
            began = time.monotonic()
            assert self.prepare(logs, plain_source, TODAY) == []
            assert time.monotonic() - began < 5
        assert self.prepare(logs, plain_source, TODAY) == [TODAY]

    def test_does_not_wait_for_a_reader(self, logs, plain_source) -> None:
        with owner_connection() as reader, reader.transaction():
            reader.execute("SELECT count(*) FROM logs.rolled")
            assert self.prepare(logs, plain_source, TODAY) == []
