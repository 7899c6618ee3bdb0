"""What a test may break: a Redis, which a process may not have met yet, and the start of threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from endpoints.cache import connection
from tests.endpoints.cache.own_redis import OwnRedis


@pytest.fixture
def redis_not_met_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process knows of no outage of Redis."""
    monkeypatch.setattr(connection, "_breaker", connection._Breaker())


@pytest.fixture
def own_redis(settings: Any) -> Iterator[OwnRedis]:
    """The cache on a Redis that the test may break."""
    server = OwnRedis()
    server.start()
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": server.url}}
    yield server
    server.remove()


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    """Make a block in which the system has no thread left."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    @contextmanager
    def block() -> Iterator[None]:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            yield

    return block
