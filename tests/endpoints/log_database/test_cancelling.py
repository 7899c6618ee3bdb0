"""Statements that nobody wants are cancelled, and no cancel request meets another call's statement."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.conf import settings

from config.exchanges import PROTOCOL, Exchange
from endpoints.cache import running_calls
from endpoints.cache.running_calls import RunningCall
from endpoints.errors import CallEnded, ClientLeft, QueryTimeout
from endpoints.log_database import gate, servers
from endpoints.log_database.execution import StatementFailed, run_statement
from endpoints.log_database.gate import GateConnection, GatePool
from endpoints.log_database.servers import LogServers
from endpoints.log_database.sessions import ReaderSession
from endpoints.results.outcomes import Statement
from logsources.roles import QUERY_READER, SANDBOX_READER

pytestmark = [pytest.mark.django_db, pytest.mark.sql]
# Minutes, in which it sleeps nowhere.
BUSY = "SELECT count(*) FROM generate_series(1, 30000) AS a, generate_series(1, 30000) AS b WHERE a + b = 1"
ROWS_FOR_MINUTES = "SELECT a FROM generate_series(1, 30000) AS a, generate_series(1, 30000) AS b WHERE a + b = 1000"
ENDED_SECONDS = 10.0  # the statement timeout is a minute


class Client:
    """In place of the web server's object: the client leaves so many seconds after its call began."""

    def __init__(self, leaves_after: float = float("inf")) -> None:
        self.leaves_at = time.monotonic() + leaves_after


@pytest.fixture(autouse=True)
def exchanges_of_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    class OfClient:
        def __init__(self, protocol: Client) -> None:
            self.is_abandoned = lambda: time.monotonic() >= protocol.leaves_at

    monkeypatch.setattr(running_calls, "Exchange", OfClient)
    monkeypatch.setattr(Exchange, "a_client_left_at", float("-inf"))


@pytest.fixture
def lone(monkeypatch: pytest.MonkeyPatch) -> Iterator[GatePool]:
    """A pool with one connection, which meets every statement."""
    own = GatePool(settings.LOGS_GATE, size=1, wait_seconds=5)
    monkeypatch.setattr(servers, "_servers", LogServers([own]))
    yield own
    own.close()


def value_of(sql: str, *, role: str = QUERY_READER, seconds: float = 60) -> Any:
    session = ReaderSession(role=role, search_path="logs", statement_timeout_seconds=seconds, tenant="")
    return run_statement(Statement(sql), session, max_rows=1).rows[0][0]


def backend_of(pool: GatePool) -> int:
    with pool.connection() as connection:
        return connection.info.backend_pid


def call(client: Client) -> RunningCall:
    return RunningCall("0" * 12, {PROTOCOL: client})


@pytest.mark.parametrize("role", [QUERY_READER, SANDBOX_READER])
@pytest.mark.parametrize("sql", [BUSY, ROWS_FOR_MINUTES])
def test_a_statement_ends_when_its_client_leaves_and_the_connection_stays(lone: GatePool, sql: str, role: str) -> None:
    backend = backend_of(lone)
    started = time.monotonic()
    with call(Client(leaves_after=0.3)), pytest.raises(ClientLeft):
        value_of(sql, role=role)
    assert time.monotonic() - started < ENDED_SECONDS
    assert backend_of(lone) == backend
    assert value_of("SELECT 1") == 1


def test_a_client_that_stays_gets_its_rows(lone: GatePool) -> None:
    with call(Client()):
        assert value_of("SELECT count(*) FROM generate_series(1, 3000000)") == 3_000_000


def test_the_operators_own_statement_ends_at_its_timeout(lone: GatePool) -> None:
    with pytest.raises(QueryTimeout):
        value_of(BUSY, seconds=1)


def test_the_statement_timeout_of_a_call_is_no_cancelling(lone: GatePool) -> None:
    with call(Client()), pytest.raises(QueryTimeout):
        value_of(BUSY, seconds=1)


def test_a_failing_statement_is_no_cancelling(lone: GatePool) -> None:
    with call(Client(leaves_after=0)), pytest.raises(StatementFailed):
        value_of("SELECT 1 / 0")


def test_a_lasting_series_of_hang_ups_never_hits_another_call(lone: GatePool) -> None:
    for number in range(10):
        with call(Client(leaves_after=0.25 + number / 100)), pytest.raises(ClientLeft):
            value_of(BUSY)
        assert [value_of("SELECT 1") for _ in range(20)] == [1] * 20


@pytest.mark.parametrize("left", ["a client has just left", "the connection was waited for"])
def test_who_left_before_the_statement_begins_runs_none(
    lone: GatePool, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    if left == "a client has just left":
        monkeypatch.setattr(Exchange, "a_client_left_at", time.monotonic())
        thread = threading.Thread(target=lambda: None)
    else:
        monkeypatch.setattr(gate, "PATIENCE_SECONDS", 0.0)
        thread = threading.Thread(target=_hold, args=(lone,))
    thread.start()
    sent: list[GateConnection] = []
    monkeypatch.setattr(
        "endpoints.log_database.execution.run_transaction", lambda connection, *_, **__: sent.append(connection)
    )
    with call(Client(leaves_after=0)), pytest.raises(ClientLeft):
        value_of("SELECT 1")
    thread.join()
    assert not sent
    monkeypatch.undo()
    with lone.connection() as connection:
        assert not connection.closed


def _hold(pool: GatePool) -> None:
    with pool.connection():
        time.sleep(0.1)


def without_effect(*_: Any, **__: Any) -> None:
    """In place of a cancel request that gets lost, or comes late."""


def refused(*_: Any, **__: Any) -> None:
    raise psycopg.OperationalError("no more connections")


@pytest.mark.parametrize("request_sent", [without_effect, refused])
def test_a_request_that_may_still_come_costs_the_connection(
    lone: GatePool, monkeypatch: pytest.MonkeyPatch, request_sent: Callable[..., None]
) -> None:
    backend = backend_of(lone)
    monkeypatch.setattr(GateConnection, "cancel_safe", request_sent)
    with call(Client(leaves_after=0)), pytest.raises((CallEnded, QueryTimeout)):
        value_of(BUSY, seconds=3)
    assert backend_of(lone) != backend


def test_a_request_that_came_too_late_costs_the_connection_and_no_rows(
    lone: GatePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = backend_of(lone)
    monkeypatch.setattr(GateConnection, "cancel_safe", without_effect)
    with call(Client(leaves_after=0)):
        assert value_of(BUSY.replace("30000", "6000")) == 0  # seconds: looked at, and over before it is cancelled
    assert backend_of(lone) != backend
