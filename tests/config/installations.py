"""Installations of the embedded servers in folders of their own, and what can be seen of their processes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import psycopg
import pytest

from config import embedded
from config.embedded import Servers
from config.embedded.postgres_server import PostgresServer
from config.embedded.state import load_secrets
from tests.live import processes
from tests.live.processes import redis_process as redis_process

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "16MB"}


def clean_up(root: Path) -> None:
    embedded.stop(root)
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


def passwords(root: Path) -> list[str]:
    """Return every text that was drawn for an installation."""
    known = load_secrets(root)
    assert known is not None
    return [value for value in asdict(known).values() if isinstance(value, str) and value]


def postmaster(root: Path) -> int | None:
    return processes.postmaster(PostgresServer(root))


def kill(process_id: int | None) -> None:
    assert process_id is not None
    processes.kill([process_id])


def scalar(url: str | None, query: str) -> object:
    assert url is not None
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query).fetchone()  # type: ignore[arg-type]
    return row[0] if row else None


def execute(url: str | None, statement: str) -> None:
    assert url is not None
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)  # type: ignore[arg-type]
