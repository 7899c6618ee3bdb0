"""A Redis that a test may break, and a process that has not met it yet."""

from __future__ import annotations

from collections.abc import Iterator
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
