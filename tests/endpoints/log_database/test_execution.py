"""Statements run read-only, as a reader, inside their limits, and leave nothing behind on a pooled connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from django.conf import settings

from endpoints.errors import DatabaseUnavailable, Overloaded, QueryTimeout
from endpoints.log_database import servers
from endpoints.log_database.execution import (
    LONGEST_KEPT_QUERY,
    StatementFailed,
    first_invalid_regular_expression,
    run_statement,
)
from endpoints.log_database.gate import KEPT_QUERIES, GatePool
from endpoints.log_database.round_trips import null_columns
from endpoints.log_database.servers import LogServers
from endpoints.log_database.sessions import ReaderSession
from endpoints.results.encoding import CHUNK_ROWS
from endpoints.results.outcomes import OverBudget, Statement
from logsources.roles import QUERY_READER, SANDBOX_READER

pytestmark = [pytest.mark.django_db, pytest.mark.sql]
NOBODY = ReaderSession(role=QUERY_READER, search_path="logs", statement_timeout_seconds=5, tenant="")


def tenant(project: str | None, *, seconds: float = 5) -> ReaderSession:
    return ReaderSession(role=QUERY_READER, search_path="logs", statement_timeout_seconds=seconds, tenant=project)


def value_of(sql: str, *arguments: str | None, session: ReaderSession = NOBODY) -> Any:
    return run_statement(Statement(sql, arguments), session, max_rows=1).rows[0][0]


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[GatePool]:
    """A pool of its own with two connections."""
    own = GatePool(settings.LOGS_GATE, size=2, wait_seconds=0.3)
    monkeypatch.setattr(servers, "_servers", LogServers([own]))
    yield own
    own.close()


@pytest.fixture
def lone(monkeypatch: pytest.MonkeyPatch) -> Iterator[GatePool]:
    """A pool of its own with one connection, which meets every statement."""
    own = GatePool(settings.LOGS_GATE, size=1, wait_seconds=0.3)
    monkeypatch.setattr(servers, "_servers", LogServers([own]))
    yield own
    own.close()


def test_returns_at_most_max_rows_and_tells_that_more_existed() -> None:
    three = run_statement(Statement("SELECT generate_series(1, 4)"), NOBODY, max_rows=3)
    assert ([row[0] for row in three.rows], three.truncated) == ([1, 2, 3], True)
    all_of_them = run_statement(Statement("SELECT generate_series(1, 3)"), NOBODY, max_rows=3)
    assert (len(all_of_them.rows), all_of_them.truncated) == (3, False)


def test_tells_which_columns_are_null_in_every_row() -> None:
    last = 2 * CHUNK_ROWS + 5
    sql = f"SELECT NULL, x, nullif(x, x), CASE WHEN x = {last} THEN 1 END FROM generate_series(1, {last}) AS x"
    whole = run_statement(Statement(sql), NOBODY, max_rows=1_000).rows
    assert null_columns(whole, range(4)) == [0, 2]
    assert null_columns(whole, [1]) == null_columns(whole, []) == []
    without_the_last = run_statement(Statement(sql), NOBODY, max_rows=last - 1).rows
    assert null_columns(without_the_last, range(4)) == [0, 2, 3]
    assert null_columns(list(without_the_last), range(4)) == [0, 2, 3]


def test_shows_the_rows_of_the_tenant_only(insert_rows: Callable[..., None]) -> None:
    now = datetime.now(UTC)
    insert_rows("edge_logs", [{"timestamp": now, "project": name} for name in ("acme", "acme", "globex", "")])
    count = "SELECT count(*) FROM edge_logs"
    assert value_of(count, session=tenant("acme")) == 2
    assert value_of(count, session=tenant("globex")) == 1
    assert value_of(count, session=tenant("")) == 0  # rows without a project are nobody's
    assert value_of(count, session=tenant("nobody")) == 0
    assert value_of(count, session=tenant(None)) == 4


def planned(planner_settings: str) -> ReaderSession:
    return replace(NOBODY, planner_settings=planner_settings)


def test_planner_settings_hold_for_their_statement_alone(pool: GatePool) -> None:
    sql = "SELECT current_setting('plan_cache_mode') || current_setting('enable_sort') || $1::text"
    forced = planned("plan_cache_mode = force_generic_plan, enable_sort = off")
    assert value_of(sql, "!", session=forced) == "force_generic_planoff!"
    assert value_of(sql, "!") == "autoon!"


def test_a_plan_is_not_kept_for_other_planner_settings(lone: GatePool, insert_rows: Callable[..., None]) -> None:
    sql = "SELECT count(*) OVER () FROM edge_logs WHERE project = $1 ORDER BY timestamp LIMIT 1"
    settings = ["plan_cache_mode = force_generic_plan", "plan_cache_mode = force_generic_plan, enable_sort = off", ""]
    for each in settings:
        run_statement(Statement(sql, ("acme",)), planned(each), max_rows=1)
    with lone.connection() as connection:
        kept = {connection.kept_statements.name_of((each, "logs", sql)) for each in settings}
    assert None not in kept
    assert len(kept) == 3


CONSUMER = ReaderSession(role=SANDBOX_READER, search_path="pg_catalog", statement_timeout_seconds=5, tenant="")


def is_kept(pool: GatePool, sql: str, session: ReaderSession = CONSUMER) -> bool:
    with pool.connection() as connection:
        return connection.kept_queries.name_of(("", session.search_path, sql)) is not None


def test_a_consumers_query_stays_prepared_from_its_second_time_on(lone: GatePool) -> None:
    sql = "SELECT 1 + $1::int"
    for argument, kept in (("1", False), ("2", True), ("3", True)):
        assert value_of(sql, argument, session=CONSUMER) == 1 + int(argument)
        assert is_kept(lone, sql) is kept
    elsewhere = replace(CONSUMER, search_path="pg_catalog, pg_temp")
    assert value_of(sql, "4", session=elsewhere) == 5
    assert not is_kept(lone, sql, elsewhere)


def test_a_consumers_long_query_is_never_kept(lone: GatePool) -> None:
    sql = f"SELECT 1 AS a{' ' * LONGEST_KEPT_QUERY}"
    for _ in range(3):
        assert value_of(sql, session=CONSUMER) == 1
    assert not is_kept(lone, sql)


def test_queries_of_consumers_push_out_each_other_alone(lone: GatePool) -> None:
    stored, texts = "SELECT 42", [f"SELECT {number}" for number in range(KEPT_QUERIES + 3)]
    assert value_of(stored) == 42
    for _ in range(2):
        for number, text in enumerate(texts):
            assert value_of(text, session=CONSUMER) == number
    assert value_of(texts[0], session=CONSUMER) == 0
    with lone.connection() as connection:
        assert connection.kept_statements.name_of(("", "logs", stored)) is not None
        names = [connection.kept_queries.name_of(("", "pg_catalog", text)) for text in texts]
    assert len(names) - names.count(None) == KEPT_QUERIES


def test_planner_settings_of_a_consumers_query_leave_its_limits_and_its_plan_mode() -> None:
    settings = "plan_cache_mode = force_generic_plan, enable_sort = off, jit = on, max_parallel_workers_per_gather = 4"
    names = ("plan_cache_mode", "enable_sort", "jit", "max_parallel_workers_per_gather")
    session = ReaderSession(QUERY_READER, "logs", 5, tenant="", planner_settings=settings)
    assert [session.settings("")[name] for name in names] == ["force_generic_plan", "off", "on", "4"]
    sandboxed = replace(session, role=SANDBOX_READER)
    assert [sandboxed.settings("")[name] for name in names] == ["auto", "off", "off", "0"]


HOSTILE = [
    "'; DROP TABLE logs.edge_logs; --",
    "' OR '1'='1",
    "%s %(x)s $1 $2 :x",
    "\\'; select 1",
    "acme\n\t\r",
    "ünïcødé 🦊",
    "{}",
    "=",
    "x" * 20_000,
]


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_values_come_back_as_the_values_they_are(value: str) -> None:
    assert value_of("SELECT ($1::text)", value) == value


@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_tenant_is_a_project_without_rows(insert_rows: Callable[..., None], value: str) -> None:
    insert_rows("edge_logs", [{"timestamp": datetime.now(UTC), "project": "acme"}])
    assert value_of("SELECT count(*) FROM edge_logs", session=tenant(value)) == 0


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO logs.edge_logs (id, project, timestamp, event_message, metadata)"
        " VALUES ('a', 'b', now(), '', '[]')",
        "DELETE FROM logs.edge_logs",
        "CREATE TABLE public.x (a int)",
        "CREATE TEMP TABLE x (a int)",
        "SELECT 1; SELECT 2",
        "SELECT * FROM pg_authid",
        "SELECT * FROM logs.edge_logs_default",
        "SELECT logs_private.tenant()",
        "SELECT nextval('x')",
    ],
)
def test_a_reader_may_not_write_nor_see_more_than_the_parents(sql: str) -> None:
    with pytest.raises(StatementFailed):
        run_statement(Statement(sql), NOBODY, max_rows=1)


@pytest.fixture
def careless(monkeypatch: pytest.MonkeyPatch) -> Iterator[GatePool]:
    """A pool with one connection on which a transaction may write, unless it says itself that it does not."""
    options = f"{settings.LOGS_GATE['options']} -c default_transaction_read_only=off"
    own = GatePool({**settings.LOGS_GATE, "options": options}, size=1, wait_seconds=10)
    monkeypatch.setattr(servers, "_servers", LogServers([own]))
    yield own
    own.close()


def test_a_reader_writes_nothing_even_where_it_has_the_right(
    careless: GatePool, superuser: psycopg.Connection[Any]
) -> None:
    with careless.connection() as connection:
        assert connection.execute("SHOW default_transaction_read_only").fetchone() == ("off",)
    superuser.execute("CREATE TABLE logs.scratch (n int)")
    try:
        superuser.execute("GRANT INSERT, SELECT ON logs.scratch TO query_reader")
        assert value_of("SELECT count(*) FROM scratch") == 0
        with pytest.raises(StatementFailed) as refused:
            value_of("INSERT INTO scratch VALUES (1) RETURNING n")
        assert refused.value.sqlstate == "25006"  # read_only_sql_transaction
    finally:
        superuser.execute("DROP TABLE logs.scratch")


def test_a_statement_changes_no_setting_of_the_next_one_even_where_it_has_the_right(
    lone: GatePool, superuser: psycopg.Connection[Any]
) -> None:
    superuser.execute("GRANT EXECUTE ON FUNCTION set_config TO query_reader")
    try:
        assert value_of("SELECT set_config('work_mem', '77kB', false)") == "77kB"
        assert value_of("SELECT current_setting('work_mem')") != "77kB"
    finally:
        superuser.execute("REVOKE EXECUTE ON FUNCTION set_config FROM query_reader")


def test_cancels_a_statement_in_postgresql_at_its_timeout(superuser: psycopg.Connection[Any]) -> None:
    marker = "cancelled in time"
    started = time.monotonic()
    with pytest.raises(QueryTimeout):
        run_statement(Statement("SELECT pg_sleep(30), ($1::text)", (marker,)), tenant("", seconds=0.2), max_rows=1)
    assert time.monotonic() - started < 10
    sessions = superuser.execute(
        "SELECT state, query FROM pg_stat_activity WHERE usename = %s", (settings.LOGS_GATE["user"],)
    ).fetchall()
    assert sessions
    assert not [query for state, query in sessions if state == "active" and query.startswith("SELECT pg_sleep")]
    assert value_of("SELECT 1") == 1


def test_leaves_nothing_on_the_connection_for_the_next_statement(pool: GatePool) -> None:
    value_of("SELECT 1", session=tenant("globex"))
    with pytest.raises(StatementFailed):
        value_of("SELECT 1 / 0", session=tenant(None))
    with pool.connection() as connection:
        assert connection.execute("SELECT current_user").fetchone() == (settings.LOGS_GATE["user"],)
        left = {name: value for name, value, *_ in connection.execute("SHOW ALL").fetchall()}
    assert left["search_path"] != "logs"
    assert left.get("logs.tenant", "") == ""
    assert left.get("logs.scope", "") == ""


@pytest.mark.parametrize("everywhere", ["true", "false"])
def test_a_statement_cannot_change_whom_it_serves(everywhere: str) -> None:
    with pytest.raises(StatementFailed) as failure:
        value_of(f"SELECT set_config('logs.tenant', '=acme', {everywhere})", session=tenant("globex"))
    assert failure.value.sqlstate == "42501"


def test_answers_overloaded_when_every_connection_stays_busy(pool: GatePool) -> None:
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(pool.connection())
        started = time.monotonic()
        with pytest.raises(Overloaded):
            value_of("SELECT 1")
        assert time.monotonic() - started < 1
    assert value_of("SELECT 1") == 1


def test_answers_database_unavailable_when_nothing_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = GatePool({**settings.LOGS_GATE, "host": "127.0.0.1", "port": "1"}, size=2, wait_seconds=0.3)
    monkeypatch.setattr(servers, "_servers", LogServers([nowhere]))
    try:
        with pytest.raises(DatabaseUnavailable):
            value_of("SELECT 1")
    finally:
        nowhere.close()


def test_answers_database_unavailable_while_a_table_is_locked(superuser: psycopg.Connection[Any]) -> None:
    with superuser.transaction():
        superuser.execute("LOCK TABLE logs.edge_logs IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(DatabaseUnavailable):
            value_of("SELECT count(*) FROM logs.edge_logs")
    assert isinstance(value_of("SELECT count(*) FROM logs.edge_logs"), int)


def test_survives_connections_that_the_server_has_closed(pool: GatePool, superuser: psycopg.Connection[Any]) -> None:
    with pool.connection() as one, pool.connection() as two:
        pids = [one.info.backend_pid, two.info.backend_pid]
    for pid in pids:
        superuser.execute("SELECT pg_terminate_backend(%s)", (pid,))
    assert value_of("SELECT 1") == 1


def test_survives_a_table_altered_under_its_prepared_statement(
    pool: GatePool, log_database: psycopg.Connection[Any]
) -> None:
    log_database.execute("CREATE TABLE logs.altered AS SELECT 1 AS value")
    log_database.execute("GRANT SELECT ON logs.altered TO query_reader")
    try:
        assert [value_of("SELECT value FROM logs.altered") for _ in range(6)] == [1] * 6
        log_database.execute("ALTER TABLE logs.altered ALTER value TYPE text")
        assert [value_of("SELECT value FROM logs.altered") for _ in range(6)] == ["1"] * 6
    finally:
        log_database.execute("DROP TABLE logs.altered")


def test_threads_share_the_pool_without_mixing_tenants(insert_rows: Callable[..., None]) -> None:
    projects = [f"project{number}" for number in range(6)]
    now = datetime.now(UTC)
    insert_rows("edge_logs", [{"timestamp": now, "project": project, "id": project} for project in projects])
    wrong: list[tuple[str, Any]] = []

    def call(project: str) -> None:
        for _ in range(40):
            rows = run_statement(Statement("SELECT id FROM edge_logs"), tenant(project), max_rows=10).rows
            if [row[0] for row in rows] != [project]:
                wrong.append((project, rows))

    threads = [threading.Thread(target=call, args=(project,)) for project in projects]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("candidates", "index"),
    [(["a", "("], 1), (["a", "b*"], None), ([], None), (["[", "("], 0), (["(?i)x", "\\y"], None)],
)
def test_finds_the_first_invalid_regular_expression(candidates: list[str], index: int | None) -> None:
    assert first_invalid_regular_expression(candidates, NOBODY) == index


def test_the_failure_text_for_logs_holds_no_row_value() -> None:
    with pytest.raises(StatementFailed) as failure:
        value_of("SELECT 'a secret value'::int")
    assert "secret" in failure.value.primary_message
    assert "secret" not in failure.value.loggable_message
    assert "secret" not in str(failure.value)


# --- Budgets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1, 2, 3 FROM (SELECT generate_series(1, 100000000)) AS n",  # narrow values, each of which takes memory
        "SELECT repeat('x', 1000) FROM (SELECT generate_series(1, 100000000)) AS n",
        "SELECT NULL, '', NULL FROM (SELECT generate_series(1, 100000000)) AS n",
    ],
)
def test_rows_over_their_budget_are_given_up_while_they_come_in(lone: GatePool, sql: str) -> None:
    with pytest.raises(OverBudget):
        run_statement(Statement(sql), replace(NOBODY, statement_timeout_seconds=60), max_rows=10**9, max_bytes=100_000)
    assert value_of("SELECT 7") == 7


def test_rows_within_their_budget_come_in_whole() -> None:
    number = 5 * CHUNK_ROWS
    sql = f"SELECT n, repeat('x', 100) FROM generate_series(1, {number}) AS n"
    rows = run_statement(Statement(sql), NOBODY, max_rows=number, max_bytes=120 * number).rows
    assert [row[0] for row in rows] == list(range(1, number + 1))
    assert [row[0] for row in rows] == list(range(1, number + 1)), "they can be gone through again"
    assert len(rows[:7]) == 7
    assert rows[number - 1][0] == number


def test_an_error_behind_many_rows_is_an_error(lone: GatePool) -> None:
    sql = f"SELECT 1 / ({3 * CHUNK_ROWS} - n) FROM generate_series(1, 1000) AS n"
    with pytest.raises(StatementFailed) as failed:
        run_statement(Statement(sql), NOBODY, max_rows=1000)
    assert failed.value.sqlstate == "22012"
    assert value_of("SELECT 7") == 7


def test_rows_are_loaded_by_any_thread_at_any_time() -> None:
    sql = f"SELECT timestamptz '2025-06-02Z', '{{1}}'::jsonb, array[n] FROM generate_series(1, {2 * CHUNK_ROWS}) AS n"
    rows = run_statement(Statement(sql.replace("{1}", '{"a": 1}')), NOBODY, max_rows=1000).rows
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(list(rows))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [list(rows)] * 4
    assert rows[0] == ("2025-06-02T00:00:00.000000Z", b'{"a": 1}', [1])
