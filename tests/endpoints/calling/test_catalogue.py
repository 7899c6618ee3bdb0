"""What editors complete and calls suggest: log tables, columns with types, the paths that recent rows really have."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import ProgrammingError, connections
from psycopg import sql

from endpoints.calling import catalogue as module
from endpoints.calling.catalogue import CatalogueSource, catalogue, forget_catalogue, known_paths
from endpoints.errors import DatabaseUnavailable
from endpoints.log_database.shared_work import SharedWork
from logsources.introspection import SAMPLE_ROWS, partitions_by_table, read_tail, recent_metadata
from logsources.shards import Piece
from tests.moments import now

pytestmark = [pytest.mark.django_db, pytest.mark.sql]


@pytest.fixture(autouse=True)
def fresh_catalogue(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    forget_catalogue()
    # None of another test's failures, which count for a moment.
    reading = SharedWork("catalogue", module._read_and_keep, seconds=60.0)
    monkeypatch.setattr(reading, "begin", reading.result)  # a renewal is over before the caller goes on
    monkeypatch.setattr(module, "_reading", reading)
    monkeypatch.setattr(module, "READ_SECONDS", 60.0)
    yield
    forget_catalogue()


def source(name: str) -> CatalogueSource:
    (found,) = [one for one in catalogue() if one.name == name]
    return found


def test_lists_every_source_with_its_columns(log_database: psycopg.Connection[Any]) -> None:
    assert len(catalogue()) >= 9
    edge = source("edge_logs")
    assert edge.table == "logs.edge_logs"
    types = {column.name: column.type for column in edge.columns}
    assert types["timestamp"] == "timestamp with time zone"
    assert types["metadata"] == "jsonb"
    assert [column.name for column in edge.columns][:5] == ["id", "project", "timestamp", "event_message", "metadata"]
    url = next(column for column in edge.columns if column.name == "request_url")
    assert edge.column_of(url.path) == "request_url"
    assert edge.column_of("no.such.path") == ""
    assert edge.column_of("") == ""
    assert source("realtime_logs").project == "`project` inside metadata"
    assert edge.project == "row field `project`"


def test_lists_the_paths_of_recent_rows(insert_rows: Any) -> None:
    insert_rows(
        "edge_logs",
        [
            {"timestamp": now() - timedelta(days=n % 3), "project": "a", "metadata": [{"request": [{"path": f"/{n}"}]}]}
            for n in range(6)
        ],
    )
    assert [(path.path, path.type, path.rows) for path in source("edge_logs").metadata_paths] == [
        ("request", "object", 6),
        ("request.path", "text", 6),
    ]
    assert source("auth_logs").metadata_paths == ()


def test_it_is_read_once_a_minute(insert_rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert source("edge_logs").metadata_paths == ()
    insert_rows("edge_logs", [{"timestamp": now(), "project": "a", "metadata": [{"late": 1}]}])
    assert source("edge_logs").metadata_paths == ()
    monkeypatch.setattr(module, "KEPT_SECONDS", 0.0)
    assert [path.path for path in source("edge_logs").metadata_paths] == ["late"]


def test_the_sample_is_bounded_and_of_the_newest_partitions(log_database: psycopg.Connection[Any]) -> None:
    log_database.execute(
        "INSERT INTO logs.edge_logs (id, project, timestamp, event_message, metadata)"
        " SELECT n::text, 'a', %s - n * interval '20 seconds', '', jsonb_build_array(jsonb_build_object('n', n))"
        " FROM generate_series(0, 6000) AS n",
        [now()],
    )
    samples = recent_metadata(log_database, "edge_logs", partitions_by_table(log_database)["edge_logs"])
    assert len(samples) == SAMPLE_ROWS
    today = (now() - now().replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds() / 20
    assert min(sample[0]["n"] for sample in samples) <= max(today, SAMPLE_ROWS)


def test_the_tail_is_read_by_its_pages(log_database: psycopg.Connection[Any]) -> None:
    with log_database.transaction(force_rollback=True):
        # What autovacuum may have noted of the empty table must not decide.
        log_database.execute(
            "INSERT INTO logs.edge_logs_default (id, project, timestamp, event_message, metadata)"
            " SELECT n::text, 'a', '1999-01-01Z', repeat('x', 500), '[{}]' FROM generate_series(1, 5000) AS n"
        )
        table = Piece(sql.SQL("logs.edge_logs_default"), sql.Literal("logs.edge_logs_default"))
        tail = read_tail(table, query=sql.SQL("SELECT metadata FROM tail"), last_pages=100)
        plan = log_database.execute(sql.SQL("EXPLAIN ") + tail).fetchall()
    assert "Tid Range Scan" in str(plan)


def test_a_log_database_that_is_down_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections["logs"].settings_dict, "HOST", "127.0.0.1")
    monkeypatch.setitem(connections["logs"].settings_dict, "PORT", "1")
    with pytest.raises(DatabaseUnavailable):
        catalogue()


def test_all_who_ask_at_once_wait_for_one_reading_and_get_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    began, may_end, readings = threading.Event(), threading.Event(), []

    def hang() -> list[CatalogueSource]:
        readings.append(1)
        began.set()
        assert may_end.wait(20)
        raise psycopg.OperationalError("the log database hangs")

    monkeypatch.setattr(module, "_read", hang)
    with ThreadPoolExecutor(20) as pool:
        calls = [pool.submit(catalogue) for _ in range(20)]
        assert began.wait(20)
        may_end.set()
        assert {type(call.exception(20)) for call in calls} == {DatabaseUnavailable}
    assert len(readings) == 1


def test_a_reading_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow() -> list[CatalogueSource]:
        with module.owner_connection() as connection:
            connection.execute("SELECT pg_sleep(3)")
        return []

    monkeypatch.setattr(module, "_read", slow)
    monkeypatch.setattr(module, "READ_SECONDS", 0.3)
    with pytest.raises(DatabaseUnavailable):
        catalogue()


# --- Names for callers ------------------------------------------------------------------------------------------------
def insert(insert_rows: Any, metadata: Any, source: str = "edge_logs", project: str = "acme") -> None:
    insert_rows(source, [{"project": project, "timestamp": now(), "metadata": metadata}])


def test_paths_of_all_sources_are_known(insert_rows: Any) -> None:
    insert(insert_rows, [{"request": [{"cf": [{"botManagement": [{"score": 1}]}]}], "level": "info"}])
    insert(insert_rows, [{"reqId": "1"}], source="function_logs", project="globex")
    assert set(known_paths()) == {"level", "request.cf.botManagement.score", "reqId"}


def test_they_are_kept_for_some_minutes(insert_rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    insert(insert_rows, [{"reqId": "1"}])
    assert known_paths() == ("reqId",)
    insert(insert_rows, [{"tenantId": "1"}])
    assert known_paths() == ("reqId",)
    later = module.monotonic() + module.NAMES_SECONDS
    monkeypatch.setattr(module, "monotonic", lambda: later)
    known_paths()  # has them renewed
    assert set(known_paths()) == {"reqId", "tenantId"}


@pytest.mark.parametrize("error", [psycopg.OperationalError, psycopg.errors.InsufficientPrivilege, ProgrammingError])
def test_there_are_none_if_rows_cannot_be_read(
    insert_rows: Any, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    insert(insert_rows, [{"reqId": "1"}])

    def refuse() -> None:
        raise error("no connection")

    with monkeypatch.context() as patched:
        patched.setattr(module, "owner_connection", refuse)
        assert known_paths() == ()
    module._reading.forget()
    assert known_paths() == ()  # it is tried again after a while, not by the next call
    later = module.monotonic() + module.TRIED_AGAIN_SECONDS
    monkeypatch.setattr(module, "monotonic", lambda: later)
    assert known_paths() == ("reqId",)
