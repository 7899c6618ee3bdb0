"""One batch: stored whole or not at all, on disk when it is reported, once however often it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import orjson
import psycopg
import pytest
from psycopg import Connection, errors, sql

from logsources import batches, covering
from logsources.batches import BadRowAt, BatchRefused, BatchReport, load_batch, read_batch
from logsources.databases import LockSpace, owner_connection
from logsources.rolling import RolledSource, partition_days
from logsources.services import create_source
from logsources.tables import TableShape
from logsources.topology import read_topology
from tests import moments

pytestmark = pytest.mark.sql

TABLE = "batched_rows"
SOURCE = RolledSource(TableShape(TABLE, None), retention_days=30)


@pytest.fixture
def table(logs: Connection[Any]) -> str:
    return create_source(name=TABLE, holds="rows", project_location="row field", retention_days=30).name


def this_second() -> datetime:
    return moments.now().replace(microsecond=0)


def row(number: int, **fields: object) -> dict[str, Any]:
    row = {
        "id": f"row-{number}",
        "timestamp": this_second().isoformat(),
        "project": "acme",
        "event_message": f"{number:03}",
    }
    return {name: value for name, value in (row | fields).items() if value is not None}


def load(
    rows: list[Any],
    *,
    skip_bad_rows: bool = False,
    now: datetime | None = None,
    sending: str = "",
    source: RolledSource = SOURCE,
) -> BatchReport:
    batch = read_batch(orjson.dumps(rows), project_path=None, now=now or this_second(), sending=sending)
    with owner_connection() as conn:
        return load_batch(conn, source, batch, skip_bad_rows=skip_bad_rows, topology=read_topology(conn))


def counts(report: BatchReport) -> tuple[int, int, int]:
    return report.loaded, report.already_there, report.bad_rows.count


def messages(logs: Connection[Any]) -> list[str]:
    return [message for (message,) in logs.execute(f"SELECT event_message FROM logs.{TABLE} ORDER BY 1")]


def test_a_batch_over_several_days_makes_their_partitions(logs: Connection[Any], table: str) -> None:
    days = [this_second() - timedelta(days=ago) for ago in (0, 3, 9)]
    assert counts(load([row(number, timestamp=day.isoformat()) for number, day in enumerate(days)])) == (3, 0, 0)
    assert {day.date() for day in days} <= partition_days(logs, table)
    assert messages(logs) == ["000", "001", "002"]


def test_rows_older_than_the_retention_come_in_too(logs: Connection[Any], table: str) -> None:
    assert counts(load([row(1, timestamp="2020-01-01T00:00:00Z"), row(2)])) == (2, 0, 0)


def test_without_a_retention_rows_older_than_400_days_are_bad(logs: Connection[Any], table: str) -> None:
    source, now = replace(SOURCE, retention_days=None), this_second()
    rows = [row(ago, timestamp=(now - timedelta(days=ago)).isoformat()) for ago in (0, 399, 402, 4000)]
    with pytest.raises(BatchRefused):
        load(rows, source=source, now=now)
    assert messages(logs) == []
    report = load(rows, source=source, now=now, skip_bad_rows=True)
    assert counts(report) == (2, 0, 2)
    reason = "timestamp is more than 400 days ago"
    assert report.bad_rows.listed == (BadRowAt(2, reason), BadRowAt(3, reason))
    assert messages(logs) == ["000", "399"]


def test_an_empty_batch_touches_nothing(table: str) -> None:
    assert counts(load([])) == (0, 0, 0)


def test_bad_rows_before_and_in_postgresql_refuse_the_batch_together(logs: Connection[Any], table: str) -> None:
    logs.execute(f"ALTER TABLE logs.{TABLE} ADD CONSTRAINT short CHECK (length(event_message) < 9)")
    rows = [row(0), row(1, event_message="too long a message"), row(2), row(3, event_message="too long, too")]
    with pytest.raises(BatchRefused) as refused:
        load(rows)
    assert [bad_row.index for bad_row in refused.value.bad_rows.listed] == [1, 3]
    assert (refused.value.rows, messages(logs)) == (4, [])
    report = load([*rows, "no object"], skip_bad_rows=True)
    assert counts(report) == (2, 0, 3)
    assert report.bad_rows.listed[-1] == BadRowAt(4, "the row must be a JSON object")
    assert messages(logs) == ["000", "002"]


@pytest.mark.one_server("Citus knows no triggers on distributed tables")
def test_commits_to_disk_even_where_the_server_is_set_not_to(logs: Connection[Any], table: str) -> None:
    logs.execute(
        f"CREATE FUNCTION logs.note() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$BEGIN NEW.event_message := current_setting('synchronous_commit'); RETURN NEW; END$$;"
        f" CREATE TRIGGER note BEFORE INSERT ON logs.{TABLE} FOR EACH ROW EXECUTE FUNCTION logs.note()"
    )
    try:
        batch = read_batch(orjson.dumps([row(1)]), project_path=None, now=this_second())
        with owner_connection() as conn:
            conn.execute("SET synchronous_commit TO off")
            load_batch(conn, SOURCE, batch, skip_bad_rows=False, topology=read_topology(conn))
            assert conn.execute("SHOW synchronous_commit").fetchone() == ("off",)
        assert messages(logs) == ["on"]
    finally:
        logs.execute("DROP FUNCTION logs.note CASCADE")


@pytest.mark.parametrize("missing", [(), ("id",), ("timestamp",), ("id", "timestamp")])
def test_the_same_body_later_is_known_again(logs: Connection[Any], table: str, missing: tuple[str, ...]) -> None:
    rows = [row(number, **dict.fromkeys(missing)) for number in range(3)]
    assert counts(load(rows)) == (3, 0, 0)
    assert counts(load(rows, now=this_second() + timedelta(minutes=59))) == (0, 3, 0)
    assert messages(logs) == ["000", "001", "002"]


@pytest.mark.parametrize(("other", "hours", "loaded"), [({}, 0, 0), ({"sending": "again"}, 0, 3), ({}, 2, 3)])
def test_a_body_without_ids_and_timestamps_is_told_apart_by_sending_and_hour(
    logs: Connection[Any], table: str, other: dict[str, Any], hours: int, loaded: int
) -> None:
    rows = [row(number, id=None, timestamp=None) for number in range(3)]
    load(rows)
    later = this_second() + timedelta(hours=hours)
    assert counts(load(rows, now=later, **other)) == (loaded, 3 - loaded, 0)


@pytest.mark.parametrize("timed", [True, False])
def test_each_project_has_ids_of_its_own(logs: Connection[Any], table: str, timed: bool) -> None:
    timestamp = this_second().isoformat() if timed else None
    rows = [row(1, timestamp=timestamp, project=project) for project in ("acme", "globex")]
    assert counts(load(rows)) == (2, 0, 0)
    assert counts(load([*rows, row(1, timestamp=timestamp, project="initech")])) == (1, 2, 0)


def test_rows_that_came_before_are_looked_up_in_the_key(
    logs: Connection[Any], table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.execute(
        f"INSERT INTO logs.{TABLE} (id, project, timestamp, event_message, metadata)"
        f" SELECT md5(n::text), 'acme', %s, '', '[]' FROM generate_series(1, 1000) AS n",
        (this_second(),),
    )
    logs.execute(f"ANALYZE logs.{TABLE}")
    plans: list[str] = []
    execute = Connection.execute

    def explained(self: Connection[Any], query: Any, params: Any = None, **options: Any) -> Any:
        if isinstance(query, sql.Composed) and "id = ANY" in query.as_string(self):
            plans.extend(line for (line,) in execute(self, sql.SQL("EXPLAIN ") + query, params))
        return execute(self, query, params, **options)

    monkeypatch.setattr(Connection, "execute", explained)
    load([row(1, timestamp=None)])
    assert [line for line in plans if f"using {TABLE}_p{this_second():%Y%m%d}_pkey" in line], plans
    assert not [line for line in plans if "Seq Scan" in line and f"_p{this_second():%Y%m%d}" in line], plans


@pytest.mark.parametrize("missing", [(), ("id",), ("timestamp",), ("id", "timestamp")])
def test_the_same_body_at_the_same_moment_is_stored_once(
    logs: Connection[Any], table: str, missing: tuple[str, ...]
) -> None:
    rows = [row(number, **dict.fromkeys(missing)) for number in range(50)]
    barrier = Barrier(4)

    def send(_: int) -> int:
        barrier.wait()
        return load(rows, now=datetime.now(UTC)).loaded

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(send, range(4))) == 50
    assert messages(logs) == [f"{number:03}" for number in range(50)]


def test_a_load_waits_for_another_no_longer_than_its_lock_timeout(
    logs: Connection[Any], table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("logsources.batches.LOCK_TIMEOUT", "100ms")
    with logs.transaction():
        logs.execute(f"LOCK TABLE logs.{TABLE} IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            load([row(1)])


@pytest.fixture
def dying(table: str, logs: Connection[Any]) -> Iterator[Callable[[], None]]:
    """Load a batch whose connection dies while it is being stored."""

    def load_and_die() -> None:
        logs.execute(
            f"CREATE FUNCTION logs.die() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END$$;"
            f" CREATE TRIGGER die BEFORE INSERT ON logs.{TABLE} FOR EACH ROW"
            f" WHEN (NEW.event_message = '002') EXECUTE FUNCTION logs.die()"
        )
        with pytest.raises(psycopg.OperationalError):
            load([row(number) for number in range(5)])

    yield load_and_die
    logs.execute("DROP FUNCTION IF EXISTS logs.die CASCADE")


@pytest.mark.one_server("Citus knows no triggers on distributed tables")
def test_nothing_stays_of_a_batch_whose_connection_dies(logs: Connection[Any], dying: Callable[[], None]) -> None:
    dying()
    assert messages(logs) == []


@pytest.mark.parametrize("space", [LockSpace.BUILDING, LockSpace.UNTIMED_ROWS])
def test_rows_without_timestamps_wait_for_such_loads_and_not_for_index_building(
    logs: Connection[Any], table: str, space: LockSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("logsources.batches.LOCK_TIMEOUT", "50ms" if space is LockSpace.UNTIMED_ROWS else "60s")
    with owner_connection() as other:
        other.execute("SELECT pg_advisory_lock(%s, hashtext(%s))", (space.value, TABLE))
        if space is LockSpace.UNTIMED_ROWS:
            with pytest.raises(errors.LockNotAvailable):
                load([row(1, timestamp=None)])
        else:
            assert counts(load([row(1, timestamp=None)])) == (1, 0, 0)


def test_index_building_and_loading_take_locks_of_their_own(logs: Connection[Any], table: str) -> None:
    """What each of them does itself, so that neither can be given the other's space."""
    shape = TableShape(TABLE, None)
    with owner_connection() as builder, covering.building_alone(builder, shape.name) as is_alone:
        assert is_alone
        assert counts(load([row(1, timestamp=None)])) == (1, 0, 0)


def test_made_ids_ascend_in_the_order_of_the_rows(logs: Connection[Any], table: str) -> None:
    sent = [row(number, id=None, timestamp=None) for number in range(300)]
    assert counts(load(sent)) == (300, 0, 0)
    in_order = [f"{number:03}" for number in range(300)]
    found = logs.execute(f"SELECT event_message FROM logs.{TABLE} ORDER BY timestamp, id")
    assert [message for (message,) in found] == in_order


def test_made_ids_ascend_at_the_end_of_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "blake2b", lambda *args, **options: HighestDigest())
    ids = batches._MadeIds(b"body", "")
    made = []
    for ids.index in range(1000):
        made.append(ids.make())
    assert made == sorted(set(made))


class HighestDigest:
    def digest(self) -> bytes:
        return b"\xff" * 16

    def hexdigest(self) -> str:
        return "f" * 32
