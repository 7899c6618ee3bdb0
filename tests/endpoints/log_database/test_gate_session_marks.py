"""Nothing is answered from a session that is not the connection's own, whichever way leads to the log database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from django.conf import settings

from endpoints.errors import DatabaseUnavailable
from endpoints.log_database import gate, servers
from endpoints.log_database.describing import describe_statement, parameter_types, try_statement
from endpoints.log_database.execution import run_statement
from endpoints.log_database.gate import GateConnection, GatePool
from endpoints.log_database.round_trips import run_transaction
from endpoints.log_database.servers import LogServers
from endpoints.log_database.sessions import ReaderSession, session_settings_statement
from endpoints.log_database.streaming import open_rows
from endpoints.results.outcomes import Statement
from endpoints.sql.parameter_uses import numbered_uses
from logsources.roles import QUERY_READER
from logsources.session_marks import SHARED_SESSIONS, SharedSession

pytestmark = [pytest.mark.django_db, pytest.mark.sql]

NOBODY = ReaderSession(role=QUERY_READER, search_path="logs", statement_timeout_seconds=5, tenant="")
ONE = Statement("SELECT 1")


def read_stream() -> list[Any]:
    with closing(open_rows(ONE, NOBODY, wait_seconds=5)) as rows:
        return [row for chunk in rows for row in chunk]


WAYS: dict[str, Callable[[], Any]] = {
    "a call": lambda: run_statement(ONE, NOBODY, max_rows=1),
    "a stream": read_stream,
    "describing": lambda: describe_statement(ONE, NOBODY),
    "types of parameters": lambda: parameter_types(numbered_uses("SELECT @n::int"), NOBODY),
    "trying": lambda: try_statement(ONE, NOBODY, max_rows=1, max_bytes=1000),
}
LOSSES = (
    "DISCARD ALL",
    "RESET ALL",
    "SELECT set_config('logs.session', '', false)",
    "SELECT set_config('logs.session', '0123456789abcdef0123456789abcdef', false)",
)


@pytest.fixture
def lone(monkeypatch: pytest.MonkeyPatch) -> Iterator[GatePool]:
    """A pool with one connection, which every statement meets; after a loss it is tried again at once."""
    monkeypatch.setattr(gate, "SHARED_SECONDS", 0.0)
    own = GatePool(settings.LOGS_GATE, size=1, wait_seconds=20)
    monkeypatch.setattr(servers, "_servers", LogServers([own]))
    yield own
    own.close()


@pytest.fixture
def lose(lone: GatePool, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Run a statement in the session of the pool's connection, and in that of the next stream."""

    def run(statement: str) -> None:
        with lone.connection() as connection:
            connection.execute(statement.encode())
        connect = lone.connect_apart

        def connect_and_lose(**options: Any) -> GateConnection:
            monkeypatch.setattr(lone, "connect_apart", connect)
            connection = connect(**options)
            connection.execute(statement.encode())
            return connection

        monkeypatch.setattr(lone, "connect_apart", connect_and_lose)

    return run


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("way", WAYS)
def test_a_session_without_its_mark_is_never_answered_from(
    lone: GatePool, lose: Callable[[str], None], way: str, loss: str
) -> None:
    expected = repr(WAYS[way]())
    lose(loss)
    with pytest.raises(DatabaseUnavailable) as failure:
        WAYS[way]()
    assert failure.value.reason == SHARED_SESSIONS
    assert failure.value.headers["Retry-After"]
    assert without_times(repr(WAYS[way]())) == without_times(expected), "the next connection has a session of its own"


def without_times(text: str) -> str:
    return text.partition("database_seconds")[0].partition(" object at ")[0]


def test_swapped_sessions_are_never_answered_from() -> None:
    arming = session_settings_statement(NOBODY)
    pool = GatePool(settings.LOGS_GATE, size=2, wait_seconds=20)
    with closing(pool), pool.connection() as one, pool.connection() as other:
        assert list(run_transaction(one, arming, ("SELECT 1", ())).rows) == [(1,)]
        one.pgconn, other.pgconn = other.pgconn, one.pgconn
        for connection in (one, other):
            with pytest.raises(SharedSession):
                run_transaction(connection, arming, ("SELECT 1", ()))
            assert connection.closed


def test_a_loss_is_not_tried_again_for_some_seconds(lone: GatePool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "SHARED_SECONDS", 1000.0)
    with lone.connection() as connection:
        connection.execute("RESET ALL")
    for _ in range(3):
        with pytest.raises(DatabaseUnavailable) as failure:
            run_statement(ONE, NOBODY, max_rows=1)
        assert failure.value.reason == SHARED_SESSIONS


def test_each_connection_has_a_mark_and_names_of_its_own() -> None:
    pool = GatePool(settings.LOGS_GATE, size=2, wait_seconds=20)
    with closing(pool), pool.connection() as one, pool.connection() as other:
        assert one.mark != other.mark
        assert len(one.mark) == 32
        assert one.kept_statements.new_name() != other.kept_statements.new_name()
        assert one.kept_queries.new_name() != other.kept_queries.new_name()


def test_a_statement_cannot_keep_a_mark_in_its_session(lone: GatePool) -> None:
    with lone.connection() as connection:
        mark = connection.mark.decode()
        connection.execute("BEGIN READ ONLY")
        connection.execute("SELECT set_config('logs.session', 'forged', false)")
        connection.execute("ROLLBACK")
        assert connection.execute("SHOW logs.session").fetchone() == (mark,)
