"""Installations of the embedded servers in folders of their own, and what can be seen of their processes."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from config import embedded
from config.embedded import Servers, places, postgres_server, redis_server
from config.embedded.state import load_listening

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "16MB"}


def clean_up(root: Path) -> None:
    embedded.stop(root)
    if root.exists():
        shutil.rmtree(places.find_place(root.resolve()).folder, ignore_errors=True)
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def root() -> Iterator[Path]:
    # Not tmp_path: pytest closes its folders to other accounts, and root's servers run as another one.
    folder = Path(tempfile.mkdtemp(prefix="endpoints "))
    folder.chmod(0o755)
    yield folder / "it's $HOME"
    for root in list(folder.iterdir()):
        clean_up(root)
    folder.rmdir()


@pytest.fixture(scope="module")
def shared_root() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="endpoints-"))
    folder.chmod(0o755)
    embedded.ensure_running(folder, settings=FAST)
    yield folder
    clean_up(folder)


@pytest.fixture
def shared(shared_root: Path) -> Servers:
    servers = embedded.known_urls(shared_root)
    assert servers is not None
    return servers


def postmaster(root: Path) -> int | None:
    return postgres_server.PostgresServer(places.find_place(root.resolve())).process_id()


def redis_process(root: Path) -> int | None:
    server = redis_server.RedisServer(places.find_place(root.resolve()), "")
    return server.process_id(load_listening(root).redis_port)


def _wait_until_gone(process_id: int) -> None:
    deadline = time.monotonic() + 10
    while places.is_running(process_id):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def kill(process_id: int | None) -> None:
    assert process_id is not None
    os.kill(process_id, signal.SIGKILL)
    _wait_until_gone(process_id)


def scalar(url: str | None, query: str) -> object:
    assert url is not None
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query).fetchone()  # type: ignore[arg-type]
    return row[0] if row else None


def execute(url: str | None, statement: str) -> None:
    assert url is not None
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)  # type: ignore[arg-type]
