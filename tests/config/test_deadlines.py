"""A deadline bounds whatever a connection waits for, and only that."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import psycopg
import pytest
from psycopg.generators import fetch_many

from config.deadlines import BoundedConnection, NoAnswer, answer_within
from tests.drills import MUCH_LATER_SECONDS, DrillServer


@pytest.fixture
def url(server: DrillServer) -> str:
    assert server.servers.superuser_url is not None
    return server.servers.superuser_url


@pytest.fixture
def connection(url: str) -> Iterator[BoundedConnection[Any]]:
    with BoundedConnection.connect(url, autocommit=True) as own:
        yield own


def test_a_slow_answer_ends_at_the_deadline_with_the_connection_closed(connection: BoundedConnection[Any]) -> None:
    started = time.monotonic()
    with answer_within(0.3), pytest.raises(NoAnswer):
        connection.execute("SELECT pg_sleep(60)")
    assert 0.2 < time.monotonic() - started < MUCH_LATER_SECONDS
    assert connection.closed


def test_a_trickle_of_rows_does_not_put_the_deadline_off(connection: BoundedConnection[Any]) -> None:
    started = time.monotonic()
    with answer_within(0.3), pytest.raises(NoAnswer):
        connection.execute("SELECT pg_sleep(0.05), repeat('x', 9000) FROM generate_series(1, 1200)")
    assert time.monotonic() - started < MUCH_LATER_SECONDS


def test_an_answer_that_came_in_time_counts_though_its_reader_wakes_late(connection: BoundedConnection[Any]) -> None:
    with answer_within(0.3) as deadline:
        connection.pgconn.send_query(b"SELECT 1")
        while connection.pgconn.flush():
            continue
        time.sleep(0.5)  # the thread is not given the processor; the answer is there
        (result,) = connection.wait(fetch_many(connection.pgconn))
    assert result.get_value(0, 0) == b"1"
    assert deadline.is_over


def test_an_answer_in_time_is_an_answer(connection: BoundedConnection[Any]) -> None:
    with answer_within(2) as deadline:
        assert connection.execute("SELECT 1 FROM pg_sleep(0.3)").fetchone() == (1,)
    assert deadline.server_answered
    assert connection.execute("SELECT 1 FROM pg_sleep(0.3)").fetchone() == (1,)


def test_an_inner_deadline_can_only_be_earlier(connection: BoundedConnection[Any]) -> None:
    started = time.monotonic()
    with answer_within(0.3), answer_within(5), pytest.raises(NoAnswer):
        connection.execute("SELECT pg_sleep(60)")
    assert time.monotonic() - started < MUCH_LATER_SECONDS


def test_a_deadline_is_that_of_its_thread_alone(connection: BoundedConnection[Any]) -> None:
    rows: list[Any] = []
    with answer_within(0.1):
        other = threading.Thread(
            target=lambda: rows.append(connection.execute("SELECT 1 FROM pg_sleep(0.4)").fetchone())
        )
        other.start()
        other.join()
    assert rows == [(1,)]


def test_connecting_to_a_hanging_server_ends_at_the_deadline(server: DrillServer, url: str) -> None:
    with server.frozen():
        started = time.monotonic()
        with answer_within(0.4) as deadline, pytest.raises(psycopg.OperationalError):
            BoundedConnection.connect(url)
        assert 0.3 < time.monotonic() - started < MUCH_LATER_SECONDS
    assert not deadline.server_answered


def test_a_refused_login_counts_as_an_answer(url: str) -> None:
    with answer_within(2) as deadline, pytest.raises(psycopg.OperationalError):
        BoundedConnection.connect(url, dbname="no_such_database")
    assert deadline.server_answered


@pytest.mark.parametrize("seconds", [5, None])
def test_an_interrupted_wait_cancels_its_statement_and_keeps_the_connection(
    connection: BoundedConnection[Any], seconds: float | None
) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it runs in the background
    with answer_within(seconds) if seconds else nullcontext():
        interrupt = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            connection.execute("SELECT pg_sleep(60)")
        interrupt.join()
        assert connection.execute("SELECT 1").fetchone() == (1,)
