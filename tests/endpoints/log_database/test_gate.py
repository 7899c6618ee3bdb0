"""A log database that hangs, dies or comes back: every call is answered in time, and none on a living one is cut."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from endpoints.access.secrets import Caller, OwnLimits
from endpoints.access.token_limits import limits_use, turn
from endpoints.errors import (
    DatabaseUnavailable,
    EndpointError,
    Overloaded,
    QueryTimeout,
    TooManyCalls,
    TooManySandboxQueries,
)
from endpoints.log_database import gate, liveness, servers
from endpoints.log_database.cancelling import held_until_stopped
from endpoints.log_database.execution import run_statement
from endpoints.log_database.gate import GatePool, roll_back
from endpoints.log_database.servers import LogServers
from endpoints.log_database.sessions import ReaderSession
from endpoints.log_database.streaming import open_rows
from endpoints.results.outcomes import OverBudget, Statement
from logsources.roles import QUERY_READER, SANDBOX_READER, ensure_roles
from tests.drills import LONGEST_FREEZE_SECONDS, MUCH_LATER_SECONDS, DrillServer, wait_for
from tests.live.calls import until

WAIT_SECONDS = 0.8  # for a connection, as the service has it
PATIENT_SECONDS = 60.0  # for a living server on any machine


@pytest.fixture
def gate_conninfo(server: DrillServer) -> dict[str, Any]:
    assert server.servers.logs_gate_url is not None
    gate = dict(conninfo_to_dict(server.servers.logs_gate_url))
    with psycopg.connect(str(server.servers.logs_database_url), autocommit=True) as owner:
        ensure_roles(owner, gate)
    return gate


@pytest.fixture
def pool(gate_conninfo: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[GatePool]:
    """A pool with the waits of the service and one open connection, for servers that hang or are gone."""
    own = GatePool(gate_conninfo, size=4, wait_seconds=WAIT_SECONDS)
    own._pool.wait(timeout=PATIENT_SECONDS)
    monkeypatch.setattr(servers, "_servers", LogServers([own]))
    yield own
    own.close()


@pytest.fixture
def patient_pool(
    make_patient_pool: Callable[[int], GatePool],
) -> GatePool:
    """A pool for a server that lives, however slow the machine is."""
    return make_patient_pool(4)


@pytest.fixture
def make_patient_pool(
    gate_conninfo: dict[str, Any], living_log_database: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[int], GatePool]]:
    made = []

    def make(size: int) -> GatePool:
        made.append(GatePool(gate_conninfo, size=size, wait_seconds=PATIENT_SECONDS))
        monkeypatch.setattr(servers, "_servers", LogServers(made[-1:]))
        return made[-1]

    yield make
    for pool in made:
        pool.close()


def call(sql: str = "SELECT 1", *, timeout: float = 15) -> Any:
    session = ReaderSession(role=QUERY_READER, search_path="", statement_timeout_seconds=timeout, tenant="")
    return run_statement(Statement(sql), session, max_rows=1).rows[0][0]


def outcome_of(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return how long a call took and what came of it: its value, or the class of its failure."""
    started = time.monotonic()
    try:
        result = work()
    except EndpointError as error:
        result = type(error)
    return time.monotonic() - started, result


def assert_unavailable_in_time() -> None:
    """A call ends by the deadlines of the service, and not when the server goes on."""
    seconds, result = outcome_of(call)
    assert result is DatabaseUnavailable
    assert seconds < MUCH_LATER_SECONDS < LONGEST_FREEZE_SECONDS


def assert_recovers() -> None:
    wait_for(call, seconds=PATIENT_SECONDS)


def until_asked_anew(pool: GatePool) -> None:
    """Wait until the next call asks whether the server lives."""
    until(lambda: not pool.liveness.is_known_dead(), seconds=PATIENT_SECONDS)


def until_runs(server: DrillServer, text: str) -> None:
    """Wait until a statement with this text runs."""
    with psycopg.connect(str(server.servers.superuser_url), autocommit=True) as connection:
        query = "SELECT FROM pg_stat_activity WHERE state = 'active' AND query LIKE %s AND pid <> pg_backend_pid()"
        until(lambda: bool(connection.execute(query, [f"%{text}%"]).fetchall()), seconds=PATIENT_SECONDS)


def test_the_deadlines_of_a_call_to_a_hanging_server_keep_the_promise_of_two_seconds() -> None:
    # A call waits for a connection, or with one it waits, asks, and looks up once more.
    assert WAIT_SECONDS + 2 * gate.PATIENCE_SECONDS + gate.SHORTEST_PROBE_SECONDS < 2
    assert 2 * gate.PATIENCE_SECONDS + gate.PROBE_SECONDS < 2


def test_a_call_to_a_hanging_server_is_answered_in_time_and_the_next_ones_at_once(
    pool: GatePool, server: DrillServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_recovers()
    monkeypatch.setattr(liveness, "DEAD_FOR", PATIENT_SECONDS)
    with server.frozen():
        assert_unavailable_in_time()
        verdict = pool.liveness.verdict
        assert_unavailable_in_time()
        assert pool.liveness.verdict is verdict, "nobody has asked"
        monkeypatch.setattr(liveness, "DEAD_FOR", 0.0)
        assert_unavailable_in_time()
        assert pool.liveness.verdict is not verdict
    assert_recovers()


def test_many_calls_at_once_to_a_hanging_server_are_all_answered_in_time(pool: GatePool, server: DrillServer) -> None:
    assert_recovers()
    with server.frozen(), ThreadPoolExecutor(12) as executor:
        outcomes = list(executor.map(lambda _: outcome_of(call), range(36)))
    assert {result for _, result in outcomes} == {DatabaseUnavailable}
    assert max(seconds for seconds, _ in outcomes) < MUCH_LATER_SECONDS
    assert_recovers()


def test_a_statement_under_way_ends_when_its_server_begins_to_hang(pool: GatePool, server: DrillServer) -> None:
    results: list[tuple[float, Any]] = []
    worker = threading.Thread(target=lambda: results.append(outcome_of(lambda: call("SELECT pg_sleep(600)"))))
    worker.start()
    until_runs(server, "pg_sleep(600)")
    with server.frozen():
        worker.join(MUCH_LATER_SECONDS)
        assert not worker.is_alive()
    assert results[0][1] is DatabaseUnavailable
    assert_recovers()


def test_a_hanging_server_without_a_connection_to_it_yet(
    gate_conninfo: dict[str, Any], server: DrillServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server.frozen():
        pool = GatePool(gate_conninfo, size=2, wait_seconds=WAIT_SECONDS)
        monkeypatch.setattr(servers, "_servers", LogServers([pool]))
        assert_unavailable_in_time()
        assert_unavailable_in_time()
    try:
        assert_recovers()
    finally:
        pool.close()


def test_recovers_from_a_server_that_was_killed_while_it_hung(pool: GatePool, server: DrillServer) -> None:
    assert_recovers()
    with server.frozen():
        assert_unavailable_in_time()
        server.kill()
    assert_unavailable_in_time()
    until_asked_anew(pool)
    assert_unavailable_in_time()
    server.start()
    assert_recovers()


def test_recovers_from_a_server_that_was_killed(pool: GatePool, server: DrillServer) -> None:
    assert_recovers()
    server.kill()
    for _ in range(3):
        assert_unavailable_in_time()
    server.start()
    assert_recovers()


def test_a_slow_statement_on_a_living_server_is_not_cut(patient_pool: GatePool) -> None:
    with ThreadPoolExecutor(4) as executor:
        values = list(executor.map(lambda _: call("SELECT count(*) FROM (SELECT pg_sleep(3)) AS slow"), range(4)))
    assert values == [1] * 4


def test_a_slow_statement_still_ends_at_its_statement_timeout(patient_pool: GatePool) -> None:
    seconds, result = outcome_of(lambda: call("SELECT pg_sleep(600)", timeout=1.5))
    assert result is QueryTimeout
    assert seconds > 1.4


def test_a_single_stopped_process_ends_its_call_soon_after_the_statement_timeout_and_no_other(
    make_patient_pool: Callable[[int], GatePool], server: DrillServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "OVERTIME_SECONDS", 0.5)
    pool = make_patient_pool(1)
    with pool.connection() as connection:
        process = connection.info.backend_pid
    with server.frozen_process(process):
        seconds, result = outcome_of(lambda: call(timeout=1))
        assert result is DatabaseUnavailable
        assert 1 < seconds < MUCH_LATER_SECONDS
        assert [call() for _ in range(4)] == [1] * 4


def test_rolling_back_on_a_hanging_connection_closes_it_in_time(pool: GatePool, server: DrillServer) -> None:
    assert_recovers()
    with pool.connection() as connection:
        connection.execute("BEGIN")
        with server.frozen():
            started = time.monotonic()
            roll_back(connection)
            assert time.monotonic() - started < MUCH_LATER_SECONDS
        assert connection.closed


def test_rolling_back_on_a_stopped_process_closes_it_in_time(patient_pool: GatePool, server: DrillServer) -> None:
    with patient_pool.connection() as connection:
        connection.execute("BEGIN")
        with server.frozen_process(connection.info.backend_pid):
            started = time.monotonic()
            roll_back(connection)
            assert time.monotonic() - started < MUCH_LATER_SECONDS
        assert connection.closed


def test_a_failed_statement_leaves_the_connection_in_service(patient_pool: GatePool) -> None:
    with patient_pool.connection() as connection:
        connection.execute("BEGIN")
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1 / 0")
        roll_back(connection)
        assert not connection.closed
        with connection.pipeline():
            cursors = [connection.execute("SELECT $1::int", (number,)) for number in range(50)]
        assert [cursor.fetchone() for cursor in cursors] == [(number,) for number in range(50)]


def test_a_statement_can_be_cancelled_from_another_thread(patient_pool: GatePool, server: DrillServer) -> None:
    with patient_pool.connection() as connection, ThreadPoolExecutor(1) as threads:

        def cancel() -> None:
            until_runs(server, "pg_sleep(600)")
            connection.cancel_safe()

        cancelled = threads.submit(cancel)
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("SELECT pg_sleep(600)")
        cancelled.result(PATIENT_SECONDS)
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_sandbox_queries_leave_connections_to_the_rest(patient_pool: GatePool, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = patient_pool
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(pool.sandbox_turn())
            stack.enter_context(pool.connection())
        others = [stack.enter_context(pool.connection()) for _ in range(2)]
        assert len(others) == 2
        monkeypatch.setattr(pool, "_wait_seconds", 0.1)
        with pytest.raises(Overloaded), pool.sandbox_turn():
            pytest.fail("a third one of four")
        with pytest.raises(Overloaded), pool.connection():
            pytest.fail("a fifth one of four")
    with pool.sandbox_turn(), pool.sandbox_turn(), pool.connection() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_few_sandbox_queries_wait_for_their_turn(gate_conninfo: dict[str, Any]) -> None:
    pool = GatePool(gate_conninfo, size=4, wait_seconds=60)
    waiting = threading.Event()

    def wait() -> bool:
        waiting.set()
        with pool.sandbox_turn():
            return True

    try:
        with ThreadPoolExecutor(1) as threads, ExitStack() as stack:
            for _ in range(2):
                stack.enter_context(pool.sandbox_turn())
            waiter = threads.submit(wait)
            assert waiting.wait(PATIENT_SECONDS)
            until(lambda: not pool._sandbox_in_hand._value, seconds=PATIENT_SECONDS)
            with pytest.raises(Overloaded), pool.sandbox_turn():
                pytest.fail("as many wait as may")
            stack.close()
            assert waiter.result(60)
    finally:
        pool.close()


def test_the_smallest_pool_runs_a_sandbox_query(gate_conninfo: dict[str, Any]) -> None:
    pool = GatePool(gate_conninfo, size=1, wait_seconds=0)
    try:
        with pool.sandbox_turn(), pytest.raises(Overloaded), pool.sandbox_turn():
            pytest.fail("a second one of one")
    finally:
        pool.close()


# --- What PostgreSQL does not stop ------------------------------------------------------------------------------------
@pytest.fixture
def sandbox_reader(server: DrillServer) -> str:
    server.execute("DO $$ BEGIN CREATE ROLE sandbox_reader; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    server.execute("GRANT sandbox_reader TO logs_gate")
    return SANDBOX_READER


def running(server: DrillServer, text: str) -> list[int]:
    """Return the processes of PostgreSQL that run a statement with this text."""
    with psycopg.connect(str(server.servers.superuser_url), autocommit=True) as connection:
        query = "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query LIKE %s AND pid <> pg_backend_pid()"
        return [pid for (pid,) in connection.execute(query, [f"%{text}%"]).fetchall()]


def only(values: list[int]) -> int:
    (value,) = values
    return value


@contextmanager
def refusing_sandbox_turns(pool: GatePool, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as impatient:
        impatient.setattr(pool, "_wait_seconds", 0.1)
        with pytest.raises(Overloaded), pool.sandbox_turn():
            pytest.fail("PostgreSQL has not stopped what has the only turn")
        yield


def test_a_sandbox_query_keeps_its_turn_until_postgresql_has_stopped(
    make_patient_pool: Callable[[int], GatePool],
    server: DrillServer,
    monkeypatch: pytest.MonkeyPatch,
    sandbox_reader: str,
) -> None:
    monkeypatch.setattr(gate, "OVERTIME_SECONDS", 0.2)
    pool = make_patient_pool(1)
    session = ReaderSession(role=sandbox_reader, search_path="", statement_timeout_seconds=15, tenant="")
    process = run_statement(Statement("SELECT pg_backend_pid()"), session, max_rows=1).rows[0][0]
    short = replace(session, statement_timeout_seconds=0.2)
    with server.frozen_process(process):
        with pytest.raises(DatabaseUnavailable):
            run_statement(Statement("SELECT 1"), short, max_rows=1)
        with refusing_sandbox_turns(pool, monkeypatch):
            assert call() == 1, "other calls have the connection"
    with pool.sandbox_turn():
        pass


@pytest.mark.parametrize("is_sandbox_query", [False, True])
def test_a_given_up_call_counts_for_its_access_token_until_postgresql_has_stopped(
    patient_pool: GatePool,
    server: DrillServer,
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
    sandbox_reader: str,
    is_sandbox_query: bool,
) -> None:
    settings.ENDPOINTS_POOL_WAIT_SECONDS = 0.1
    settings.ENDPOINTS_OVERRUN_SECONDS = 0.0
    monkeypatch.setattr(gate, "OVERTIME_SECONDS", 0.2)
    one = OwnLimits(calls_at_once=1, sandbox_queries_at_once=1)
    caller, other = (Caller(name="busy", prefix=uuid4().hex[:12], limits=one) for _ in range(2))
    role = sandbox_reader if is_sandbox_query else QUERY_READER
    session = ReaderSession(role=role, search_path="", statement_timeout_seconds=1, tenant="")

    def ask(who: Caller, sql: str = "SELECT 1") -> Any:
        with turn(who, is_sandbox_query=is_sandbox_query, statement_seconds=15):
            return run_statement(Statement(sql), session, max_rows=1).rows[0][0]

    with ThreadPoolExecutor(1) as threads:
        given_up = threads.submit(ask, caller, "SELECT pg_sleep(601)")
        until(lambda: bool(running(server, "pg_sleep(601)")), seconds=PATIENT_SECONDS)
        with server.frozen_process(only(running(server, "pg_sleep(601)"))):
            with pytest.raises(DatabaseUnavailable):
                given_up.result(PATIENT_SECONDS)
            for _ in range(3):
                with pytest.raises(TooManySandboxQueries if is_sandbox_query else TooManyCalls):
                    ask(caller)
            assert limits_use(caller.prefix, one).running == 1
            assert ask(other) == 1
    until(lambda: not limits_use(caller.prefix, one).running, seconds=PATIENT_SECONDS)
    assert ask(caller) == 1


def test_what_a_server_ran_that_is_gone_counts_no_longer(
    patient_pool: GatePool, server: DrillServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "OVERTIME_SECONDS", 0.2)
    stopped = threading.Event()
    with ThreadPoolExecutor(1) as threads:

        def given_up() -> None:
            with held_until_stopped() as held:
                held.callback(stopped.set)
                call("SELECT pg_sleep(602)", timeout=1)

        result = threads.submit(given_up)
        until(lambda: bool(running(server, "pg_sleep(602)")), seconds=PATIENT_SECONDS)
        with server.frozen_process(only(running(server, "pg_sleep(602)"))):
            with pytest.raises(DatabaseUnavailable):
                result.result(PATIENT_SECONDS)
            assert not stopped.wait(0.5)
            server.kill()
            assert stopped.wait(PATIENT_SECONDS)


def test_a_hanging_server_is_no_fault_of_the_access_token(
    pool: GatePool, server: DrillServer, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.ENDPOINTS_POOL_WAIT_SECONDS = 0.1
    caller = Caller(name="busy", prefix=uuid4().hex[:12], limits=OwnLimits(calls_at_once=1))
    assert_recovers()

    def ask() -> Any:
        with turn(caller, is_sandbox_query=False, statement_seconds=15):
            return call()

    with server.frozen():
        for _ in range(4):
            with pytest.raises(DatabaseUnavailable):
                ask()
    wait_for(ask, seconds=PATIENT_SECONDS)
    until(lambda: not limits_use(caller.prefix, caller.limits).running, seconds=PATIENT_SECONDS)


@pytest.mark.parametrize("rows", ["a result over its budget", "a stream that is closed"])
def test_who_takes_no_more_rows_lets_postgresql_look_for_none(
    patient_pool: GatePool, server: DrillServer, rows: str
) -> None:
    busy = "SELECT a FROM generate_series(1, 30000) AS a, generate_series(1, 30000) AS b WHERE a + b = 1"
    sql = f"SELECT n FROM generate_series(1, 2000) AS n UNION ALL {busy}"
    session = ReaderSession(role=QUERY_READER, search_path="", statement_timeout_seconds=600, tenant="")
    stopped = threading.Event()
    with held_until_stopped() as held:
        held.callback(stopped.set)
        if rows == "a stream that is closed":
            open_rows(Statement(sql), session, wait_seconds=60).close()
        else:
            with pytest.raises(OverBudget):
                run_statement(Statement(sql), session, max_rows=10**6, max_bytes=10_000)
    assert stopped.wait(PATIENT_SECONDS)
    assert not running(server, "generate_series(1, 2000)")


def test_a_stream_holds_what_it_has_until_postgresql_has_stopped(patient_pool: GatePool, server: DrillServer) -> None:
    sql = "SELECT n FROM generate_series(1, 2001) AS n UNION ALL SELECT length(pg_sleep(603)::text)"
    session = ReaderSession(role=QUERY_READER, search_path="", statement_timeout_seconds=600, tenant="")
    stopped = threading.Event()
    with held_until_stopped() as held:
        held.callback(stopped.set)
        rows = open_rows(Statement(sql), session, wait_seconds=60)
        frozen = server.frozen_process(only(running(server, "generate_series(1, 2001)")))
        frozen.__enter__()
        rows.close()
    assert not stopped.wait(0.5)
    frozen.__exit__(None, None, None)
    assert stopped.wait(PATIENT_SECONDS)
