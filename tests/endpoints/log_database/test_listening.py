"""A process hears of loads, and hears again after its connection was lost."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from endpoints.log_database.listening import Listener
from logsources.announcing import ANNOUNCER, CHANNEL, announce

pytestmark = pytest.mark.django_db
PATIENCE_SECONDS = 20.0


class Ear:
    """What a listener has told."""

    def __init__(self) -> None:
        self.loads: queue.Queue[tuple[str, int]] = queue.Queue()
        self.connections: queue.Queue[int] = queue.Queue()
        self.listener = Listener(lambda source, position: self.loads.put((source, position)), self.connections.put)

    def next_load(self) -> str:
        source, position = self.loads.get(timeout=PATIENCE_SECONDS)
        assert position > 0
        return source


@pytest.fixture
def ear(log_database: psycopg.Connection[Any]) -> Iterator[Ear]:
    ANNOUNCER.close()  # what the test before has loaded is announced before this one listens
    ear = Ear()
    ear.listener.start()
    assert ear.connections.get(timeout=PATIENCE_SECONDS) > 0
    yield ear
    ear.listener.stop()


def test_hears_of_each_load(ear: Ear, log_database: psycopg.Connection[Any]) -> None:
    announce(log_database, ["edge_logs", "auth_logs"])
    assert [ear.next_load(), ear.next_load()] == ["edge_logs", "auth_logs"]


def test_hears_again_after_its_connection_was_lost(
    ear: Ear, log_database: psycopg.Connection[Any], superuser: psycopg.Connection[Any]
) -> None:
    superuser.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_current_wal%'"
    )
    superuser.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
    assert ear.connections.get(timeout=PATIENCE_SECONDS) > 0
    if log_database.closed or log_database.broken:
        pytest.fail("the wrong connection was ended")
    announce(log_database, ["edge_logs"])
    assert ear.next_load() == "edge_logs"


@pytest.mark.parametrize("payload", ["", "edge_logs", "edge_logs nowhere"])
def test_is_not_misled_by_what_others_send(ear: Ear, log_database: psycopg.Connection[Any], payload: str) -> None:
    notify = sql.SQL("NOTIFY {}, {}").format(sql.Identifier(CHANNEL), sql.Literal(payload))
    log_database.execute(notify)
    announce(log_database, ["auth_logs"])
    assert ear.next_load() == "auth_logs"
