"""Arriving rows: one transaction like every other, one chunk in memory, bounded waits, and an end in PostgreSQL too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from django.conf import settings as django_settings

from endpoints.errors import DatabaseUnavailable, Overloaded, QueryTimeout
from endpoints.log_database.execution import StatementFailed, run_statement
from endpoints.log_database.servers import log_servers
from endpoints.log_database.sessions import ReaderSession
from endpoints.log_database.streaming import ArrivingRows, open_rows, stream_place
from endpoints.results.encoding import CHUNK_ROWS
from endpoints.results.outcomes import Statement
from logsources.roles import QUERY_READER, SANDBOX_READER
from tests.live.calls import until
from tests.live.replicated import Replicated

pytestmark = [pytest.mark.django_db, pytest.mark.sql]
TIMESTAMPTZ = 1184  # its oid in every PostgreSQL
PATIENCE_SECONDS = 30.0  # of a test, on any machine


def session(tenant: str | None = "", *, seconds: float = 60, role: str = QUERY_READER) -> ReaderSession:
    return ReaderSession(role=role, search_path="logs", statement_timeout_seconds=seconds, tenant=tenant)


@contextmanager
def rows_of(
    sql: str, *arguments: str | None, reader: ReaderSession | None = None, wait_seconds: float = 60
) -> Iterator[ArrivingRows]:
    with closing(open_rows(Statement(sql, arguments), reader or session(), wait_seconds=wait_seconds)) as rows:
        yield rows


def values_of(sql: str, *arguments: str | None, reader: ReaderSession | None = None) -> list[Any]:
    with rows_of(sql, *arguments, reader=reader) as rows:
        return [row[0] for chunk in rows for row in chunk]


def exhaust(chunks: Iterable[Any]) -> None:
    for _ in chunks:
        pass


def running(superuser: psycopg.Connection[Any], marker: str) -> int:
    counted = superuser.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = %s AND query LIKE %s AND state = 'active'",
        (django_settings.LOGS_GATE["user"], f"%{marker}%"),
    ).fetchone()
    assert counted is not None
    return int(counted[0])


@pytest.mark.parametrize("count", [0, 1, CHUNK_ROWS, 3 * CHUNK_ROWS + 1])
def test_yields_every_row_in_chunks(count: int) -> None:
    with rows_of("SELECT n, now() AS at FROM generate_series(1, $1::int) AS n", str(count)) as rows:
        assert rows.columns == ("n", "at")
        assert [oid for oid, _ in rows.types][1] == TIMESTAMPTZ
        chunks = list(rows)
    assert [row[0] for chunk in chunks for row in chunk] == list(range(1, count + 1))
    assert all(len(chunk) <= CHUNK_ROWS for chunk in chunks)


def test_gives_values_the_forms_of_every_other_result() -> None:
    sql = "SELECT '{\"a\": 1.50}'::jsonb, 1.50::numeric, '2026-01-02 03:04:05+00'::timestamptz, NULL, ARRAY[1, 2]"
    with rows_of(sql) as rows:
        (chunk,) = rows
    assert chunk == list(run_statement(Statement(sql), session(), max_rows=1).rows)


def test_shows_the_rows_of_the_tenant_only(insert_rows: Callable[..., None]) -> None:
    now = datetime.now(UTC)
    insert_rows("edge_logs", [{"timestamp": now, "project": name} for name in ("acme", "acme", "globex", "")])
    sql = "SELECT project FROM edge_logs ORDER BY project"
    assert values_of(sql, reader=session("acme")) == ["acme", "acme"]
    assert values_of(sql, reader=session("")) == []
    assert len(values_of(sql, reader=session(None))) == 4


def test_runs_read_only_as_the_reader() -> None:
    sql = "SELECT current_user || ' ' || current_setting('transaction_read_only')"
    assert values_of(sql) == [f"{QUERY_READER} on"]
    assert values_of("SELECT current_user", reader=session(role=SANDBOX_READER)) == [SANDBOX_READER]


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM logs.edge_logs",
        "CREATE TEMP TABLE x (a int)",
        "SELECT 1; SELECT 2",
        "SELECT * FROM pg_authid",
        "SELECT set_config('logs.tenant', '=acme', true)",
        "SELECT set_config('role', 'none', true)",
    ],
)
def test_a_reader_may_do_no_more_than_elsewhere(sql: str) -> None:
    with pytest.raises(StatementFailed):
        values_of(sql)


@pytest.mark.parametrize("value", ["'; DROP TABLE logs.edge_logs; --", "%s $1", "ünïcødé 🦊", "x" * 20_000])
def test_binds_arguments(value: str) -> None:
    assert values_of("SELECT $1::text", value) == [value]


def test_a_failure_after_the_first_rows_comes_with_its_chunk() -> None:
    last = 2 * CHUNK_ROWS + 10
    sql = f"SELECT n / ({last} - n), repeat('x', 200) FROM (SELECT generate_series(1, {last}) AS n) AS numbers"
    arrived = []
    with rows_of(sql) as rows, pytest.raises(StatementFailed) as failure:
        arrived.extend(rows)
    assert failure.value.sqlstate == "22012"
    assert [len(chunk) for chunk in arrived] == [CHUNK_ROWS, CHUNK_ROWS]


def test_a_statement_that_fails_at_once_raises_before_anything_is_returned() -> None:
    with pytest.raises(StatementFailed):
        open_rows(Statement("SELECT nothing"), session(), wait_seconds=60)


# PostgreSQL sends what it has once 8 KiB of rows have come together: these are wide enough for that.
SLEEPS = (
    "SELECT n, repeat('x', 200), CASE WHEN n > {rows} THEN pg_sleep(60) END"
    " FROM (SELECT generate_series(1, 100000) AS n) AS {marker}"
)


def test_all_waits_together_have_a_budget_and_the_statement_is_cancelled(superuser: psycopg.Connection[Any]) -> None:
    started = time.monotonic()
    sql = SLEEPS.format(rows=3 * CHUNK_ROWS, marker="waits")
    with rows_of(sql, wait_seconds=0.5) as rows, pytest.raises(QueryTimeout, match=r"0\.5 s"):
        exhaust(rows)
    assert time.monotonic() - started < PATIENCE_SECONDS
    until(lambda: running(superuser, "AS waits") == 0, seconds=PATIENCE_SECONDS)


def test_the_first_rows_must_come_within_the_budget(superuser: psycopg.Connection[Any]) -> None:
    with pytest.raises(QueryTimeout):
        open_rows(Statement(SLEEPS.format(rows=0, marker="first")), session(), wait_seconds=0.3)
    until(lambda: running(superuser, "AS first") == 0, seconds=PATIENCE_SECONDS)


def test_a_slow_reader_uses_no_waits_but_the_statement_ends_at_its_timeout() -> None:
    reader = session(seconds=0.5)
    with rows_of("SELECT n FROM (SELECT generate_series(1, 10000000) AS n) AS slow", reader=reader) as rows:
        chunks = iter(rows)
        next(chunks)
        time.sleep(0.6)
        with pytest.raises(QueryTimeout, match=r"0\.5 s"):
            exhaust(chunks)


def test_closing_ends_the_statement_in_postgresql(superuser: psycopg.Connection[Any]) -> None:
    with rows_of(SLEEPS.format(rows=3 * CHUNK_ROWS, marker="closed")) as rows:
        next(iter(rows))
        until(lambda: running(superuser, "AS closed") == 1, seconds=PATIENCE_SECONDS)
    until(lambda: running(superuser, "AS closed") == 0, seconds=PATIENCE_SECONDS)
    rows.close()  # once more does no harm


def test_a_terminated_backend_is_an_unavailable_database(superuser: psycopg.Connection[Any]) -> None:
    with rows_of("SELECT n FROM (SELECT generate_series(1, 100000000) AS n) AS ended") as rows:
        next(iter(rows))
        superuser.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%%AS ended'")
        with pytest.raises(DatabaseUnavailable):
            exhaust(rows)


def test_uses_no_connection_of_the_pool() -> None:
    pool = log_servers().primary()
    with rows_of("SELECT generate_series(1, 10000000)") as rows:
        next(iter(rows))
        assert pool._in_use == 0


def test_a_standby_sends_streams_like_calls(replicated: Replicated) -> None:
    replicated.caught_up()
    until(lambda: log_servers().standby() is not None, seconds=PATIENCE_SECONDS)
    with rows_of("SELECT 1") as rows:
        assert rows._connection.info.parameter_status("in_hot_standby") == "on"
        assert list(rows) == [[(1,)]]


def test_places_are_few_and_given_back(settings: Any) -> None:
    settings.ENDPOINTS_STREAMS = 2
    with ExitStack() as taken:
        for _ in range(2):
            taken.enter_context(stream_place())
        with pytest.raises(Overloaded) as refusal, stream_place():
            pass
        assert refusal.value.headers["Retry-After"] == "5"
    with stream_place():
        pass


def test_a_failed_stream_gives_its_place_back(settings: Any) -> None:
    settings.ENDPOINTS_STREAMS = 1
    with pytest.raises(ZeroDivisionError), stream_place():
        raise ZeroDivisionError
    with stream_place():
        pass
