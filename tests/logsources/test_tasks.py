"""The scheduler's side: a real Celery worker takes the task from Redis and does the work."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connections
from psycopg.conninfo import make_conninfo

from config.celery import app
from logsources.tasks import roll_partitions
from tests.files import PROJECT

QUEUE = "test-roll-partitions"


def database_url(alias: str) -> str:
    """The conninfo of a test database, as another process can use it."""
    parameters = connections[alias].settings_dict
    names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    return make_conninfo(**{name: parameters[key] for name, key in names.items() if parameters[key]})


@pytest.fixture
def worker(db: None, tmp_path: Path) -> Iterator[None]:
    environment = os.environ | {
        "DATABASE_URL": database_url("default"),
        "LOGS_DATABASE_URL": database_url("logs"),
        "LOGS_GATE_URL": make_conninfo(**settings.LOGS_GATE),
    }
    command = [sys.executable, "-m", "celery", "-A", "config", "worker", "--pool", "solo", "--queues", QUEUE]
    with (tmp_path / "worker.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=log, stderr=log)
        yield
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def test_a_worker_moves_rows_out_of_the_default_partition(
    worker: None, log_database: psycopg.Connection[Any], insert_rows: Callable[..., None]
) -> None:
    moment = datetime.now(UTC) - timedelta(days=20)
    log_database.execute(f"DROP TABLE IF EXISTS logs.edge_logs_p{moment:%Y%m%d}")
    insert_rows("edge_logs", [{"id": "moved", "timestamp": moment, "project": "acme"}])

    def place_of_the_row() -> str:
        row = log_database.execute("SELECT tableoid::regclass::text FROM logs.edge_logs WHERE id = 'moved'").fetchone()
        assert row is not None
        return str(row[0])

    assert place_of_the_row() == "logs.edge_logs_default"
    roll_partitions.apply_async(queue=QUEUE)
    deadline = time.monotonic() + 40
    while place_of_the_row() == "logs.edge_logs_default" and time.monotonic() < deadline:
        time.sleep(0.2)
    assert place_of_the_row() == f"logs.edge_logs_p{moment:%Y%m%d}"


def test_beat_is_told_to_roll_partitions() -> None:
    scheduled = {entry["task"] for entry in app.conf.beat_schedule.values()}
    assert roll_partitions.name in scheduled
