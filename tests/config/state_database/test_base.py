"""Django's own database under a deadline: bounded in time, and in service again as soon as the server is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction

from config.deadlines import BoundedConnection, answer_within
from config.state_database.base import HEALTH_CHECK_SECONDS, DatabaseWrapper
from tests.drills import MUCH_LATER_SECONDS, DrillServer, django_connection, wait_for


@pytest.fixture
def database(server: DrillServer, django_db_blocker: Any) -> Iterator[DatabaseWrapper]:
    """A connection to the drill server as Django would make it, outside any transaction of a test."""
    own = django_connection(server)
    with django_db_blocker.unblock():
        yield own
        own.close()


def ask(database: DatabaseWrapper, sql: str = "SELECT 1") -> Any:
    with database.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def assert_no_answer(call: Callable[[], Any]) -> None:
    started = time.monotonic()
    with answer_within(0.4), pytest.raises(OperationalError):
        call()
    assert time.monotonic() - started < MUCH_LATER_SECONDS


def test_a_slow_answer_is_cut_only_inside_a_deadline(database: DatabaseWrapper) -> None:
    assert ask(database, "SELECT 1 FROM pg_sleep(0.5)") == 1
    assert_no_answer(lambda: ask(database, "SELECT pg_sleep(60)"))
    assert ask(database, "SELECT 1 FROM pg_sleep(0.5)") == 1


@pytest.mark.parametrize("is_connected", [True, False])
def test_a_hanging_server_is_waited_for_until_the_deadline_and_used_again_when_it_is_back(
    database: DatabaseWrapper, server: DrillServer, is_connected: bool
) -> None:
    if is_connected:
        assert ask(database) == 1
    with server.frozen():
        for _ in range(3):
            assert_no_answer(lambda: ask(database))
    assert ask(database) == 1


def test_a_health_check_of_a_hanging_connection_is_bounded_by_itself(
    database: DatabaseWrapper, server: DrillServer
) -> None:
    assert ask(database) == 1
    database.errors_occurred = True
    with server.frozen():
        started = time.monotonic()
        database.close_if_unusable_or_obsolete()  # what Django does as a request begins and ends
        assert time.monotonic() - started < HEALTH_CHECK_SECONDS + MUCH_LATER_SECONDS
    assert ask(database) == 1


def test_a_restarted_server_is_used_again_within_the_same_request(
    database: DatabaseWrapper, server: DrillServer
) -> None:
    assert ask(database) == 1
    server.kill()
    with answer_within(1), pytest.raises(OperationalError):
        ask(database)
    server.start()
    assert wait_for(lambda: ask(database), seconds=5) < 5


def test_a_transaction_cut_by_the_deadline_ends_and_the_next_one_works(database: DatabaseWrapper) -> None:
    database.set_autocommit(False)
    ask(database)
    assert_no_answer(lambda: ask(database, "SELECT pg_sleep(60)"))
    database.close()
    assert ask(database) == 1


@pytest.mark.django_db
def test_the_service_itself_uses_it_inside_the_transaction_of_a_test() -> None:
    assert isinstance(connection.connection, BoundedConnection)
    assert not isinstance(connections["logs"], DatabaseWrapper)
    with transaction.atomic(), answer_within(5), connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)
