"""A run of a draft is cancelled in PostgreSQL from anywhere, and nothing else ever is."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core.cache import cache

from endpoints.cache import CacheUnavailable, running_calls
from endpoints.cache.connection import ask_for
from endpoints.calling.query_requests import Call
from endpoints.defining.drafts import (
    Draft,
    DraftRun,
    cancel_draft_run,
    explain_draft,
    run_draft,
    running,
)
from endpoints.errors import CallCancelled
from endpoints.log_database import servers
from endpoints.log_database.execution import run_statement
from endpoints.log_database.gate import GatePool
from endpoints.log_database.servers import LogServers
from endpoints.log_database.sessions import ReaderSession
from endpoints.results.outcomes import Statement
from logsources.roles import QUERY_READER
from tests.drills import MUCH_LATER_SECONDS

pytestmark = pytest.mark.django_db
RUN = "0f1e2d3c-a-run-to-be-cancelled"
SLEEP = "SELECT pg_sleep(60), 'a draft that sleeps' AS marker"


class Background:
    """A run in a thread of its own, and what came of it."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self.outcome: Any = None
        self.seconds = 0.0
        self._run = run
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        started = time.monotonic()
        try:
            self.outcome = self._run()
        except Exception as error:  # noqa: BLE001
            self.outcome = error
        self.seconds = time.monotonic() - started

    def join(self) -> Any:
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.outcome


def sessions(superuser: psycopg.Connection[Any], text: str) -> int:
    row = superuser.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid() AND query LIKE %s",
        [f"%{text}%"],
    ).fetchone()
    assert row
    return int(row[0])


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)


@pytest.mark.parametrize("attempt", [run_draft, explain_draft])
def test_a_run_is_cancelled_and_soon_gone_from_postgresql(superuser: psycopg.Connection[Any], attempt: Any) -> None:
    run = Background(lambda: attempt(Draft(sql=SLEEP), call=Call(), run_id=RUN))
    wait_until(lambda: sessions(superuser, "a draft that sleeps") == 1)
    assert cancel_draft_run(RUN)
    wait_until(lambda: sessions(superuser, "a draft that sleeps") == 0, seconds=MUCH_LATER_SECONDS)
    assert isinstance(run.join(), CallCancelled)
    assert not cancel_draft_run(RUN)


def test_a_run_is_cancelled_from_another_process(superuser: psycopg.Connection[Any]) -> None:
    run = Background(lambda: run_draft(Draft(sql=SLEEP), call=Call(), run_id=RUN))
    wait_until(lambda: sessions(superuser, "a draft that sleeps") == 1)
    program = (
        "import django; django.setup();"
        f"from endpoints.defining.drafts import cancel_draft_run; print(cancel_draft_run({RUN!r}))"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
    assert isinstance(run.join(), CallCancelled)


@pytest.mark.parametrize("run_id", ["nobody-knows-this", "x", "", "*", "../../x", "a" * 101, "a b c d e f", "ü" * 10])
def test_there_is_nothing_to_cancel_under_another_id(superuser: psycopg.Connection[Any], run_id: str) -> None:
    run = Background(lambda: run_draft(Draft(sql="SELECT pg_sleep(0.6), 1 AS a"), call=Call(), run_id=RUN))
    wait_until(lambda: sessions(superuser, "pg_sleep(0.6)") == 1)
    assert not cancel_draft_run(run_id)
    assert isinstance(run.join(), DraftRun)


def test_a_wish_that_comes_before_the_statement_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = running.draft_statement

    def late(*arguments: Any) -> Any:
        assert cancel_draft_run(RUN)
        return prepare(*arguments)

    monkeypatch.setattr(running, "draft_statement", late)
    run = Background(lambda: run_draft(Draft(sql=SLEEP), call=Call(), run_id=RUN))
    assert isinstance(run.join(), CallCancelled)
    assert run.seconds < MUCH_LATER_SECONDS


def test_a_cancelled_run_leaves_its_connection_to_nobody(
    monkeypatch: pytest.MonkeyPatch, superuser: psycopg.Connection[Any]
) -> None:
    pool = GatePool(settings.LOGS_GATE, size=1, wait_seconds=5)
    monkeypatch.setattr(servers, "_servers", LogServers([pool]))
    try:
        session = ReaderSession(role=QUERY_READER, search_path="", statement_timeout_seconds=5, tenant="")
        for _ in range(5):
            run = Background(lambda: run_draft(Draft(sql=SLEEP), call=Call(), run_id=RUN))
            wait_until(lambda: sessions(superuser, "a draft that sleeps") == 1)
            assert cancel_draft_run(RUN)
            # The next call waits for the pool's only connection and must not be hit.
            rows = run_statement(Statement("SELECT pg_sleep(0.05), 7 AS a"), session, max_rows=1).rows
            assert rows[0][1] == 7
            assert isinstance(run.join(), CallCancelled)
    finally:
        pool.close()


def test_a_call_of_a_consumer_cannot_be_cancelled(superuser: psycopg.Connection[Any]) -> None:
    session = ReaderSession(role=QUERY_READER, search_path="", statement_timeout_seconds=5, tenant="")
    run = Background(
        lambda: run_statement(Statement("SELECT pg_sleep(0.5), 'of a consumer' AS a"), session, max_rows=1)
    )
    wait_until(lambda: sessions(superuser, "of a consumer") == 1)
    assert not cancel_draft_run(RUN)
    assert run.join().rows[0][1] == "of a consumer"


def test_nothing_is_left_in_redis_after_a_run() -> None:
    run_draft(Draft(sql="SELECT 1 AS a"), call=Call(), run_id=RUN)
    assert ask_for("KEYS", "lqe:calls:drafts:*") == []


def test_a_run_with_the_id_of_a_cancelled_one_is_not_cancelled(superuser: psycopg.Connection[Any]) -> None:
    cancelled = Background(lambda: run_draft(Draft(sql=SLEEP), call=Call(), run_id=RUN))
    wait_until(lambda: sessions(superuser, "a draft that sleeps") == 1)
    assert cancel_draft_run(RUN)
    assert isinstance(cancelled.join(), CallCancelled)
    assert run_draft(Draft(sql="SELECT pg_sleep(0.5), 1 AS a"), call=Call(), run_id=RUN).row_count == 1


def test_a_draft_runs_without_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(*command: Any) -> Any:
        raise CacheUnavailable("Redis does not answer")

    monkeypatch.setattr(running_calls, "ask_for", unavailable)
    monkeypatch.setattr(running_calls, "ask_for_all", unavailable)
    assert run_draft(Draft(sql="SELECT pg_sleep(0.3), 1 AS a"), call=Call(), run_id=RUN).row_count == 1
    with pytest.raises(CacheUnavailable):
        cancel_draft_run(RUN)
    cache.clear()
