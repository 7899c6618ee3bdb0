"""The audit log of calls in a whole installation: nothing of it is lost at an end, and nothing waits for it."""

from __future__ import annotations

import os
import signal
import time

import psycopg

from tests.drills import MUCH_LATER_SECONDS
from tests.live.calls import until
from tests.live.installation import Installation

FLUSHED_SECONDS = 20  # a process writes after three


def recorded(installation: Installation, name: str) -> int:
    with psycopg.connect(str(installation.servers.urls.database_url)) as database:
        row = database.execute("SELECT count(*) FROM endpoints_call WHERE endpoint = %s", (name,)).fetchone()
    return row[0] if row else 0


def test_every_process_writes_its_calls_and_the_last_ones_at_its_end(installation: Installation, name: str) -> None:
    installation.save(name, "SELECT 1 AS one", cache_seconds=600)
    with installation.another_web(workers=2) as (web, port):
        for _ in range(20):
            with installation.caller(port=port) as caller:
                assert caller.query(name).status == 200
        until(lambda: recorded(installation, name) == 20, seconds=FLUSHED_SECONDS)
        for _ in range(10):
            with installation.caller(port=port) as caller:
                assert caller.query(name).status == 200
        os.kill(web.id, signal.SIGTERM)
        until(lambda: not web.is_running, seconds=30)
    assert recorded(installation, name) == 30


def test_a_database_that_hangs_delays_no_call_and_gets_the_rows_later(installation: Installation, name: str) -> None:
    installation.save(name, "SELECT 1 AS one", cache_seconds=600)
    with installation.caller() as caller:
        assert caller.query(name).status == 200
        with installation.servers.postgres_frozen():
            started = time.monotonic()
            for _ in range(50):
                assert caller.query(name).cache == "hit"
            assert time.monotonic() - started < MUCH_LATER_SECONDS
    until(lambda: recorded(installation, name) == 51, seconds=60)
