"""For each test a process that has not met Redis yet, an endpoint nobody has called, and a Redis to break."""

from __future__ import annotations

from collections import deque
from uuid import uuid4

import pytest

from endpoints.cache import ResultKey, connection, leases, result_key
from endpoints.cache.usage import asked, recent_calls
from tests.endpoints.cache.results import request


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process remembers of Redis, forgotten: no outage, no late leases, no notes, no thread that writes them."""
    monkeypatch.setattr(connection, "_breaker", connection._Breaker())
    monkeypatch.setattr(leases, "_unfinished", deque(maxlen=1000))
    monkeypatch.setattr(asked, "_notes", asked._Notes())
    monkeypatch.setattr(recent_calls, "_pending", deque(maxlen=recent_calls._PENDING_LIMIT))
    for module in (asked, recent_calls):
        monkeypatch.setattr(module.FLUSHER, "note", lambda: None)


@pytest.fixture
def endpoint_id() -> str:
    return uuid4().hex


@pytest.fixture
def key(endpoint_id: str) -> ResultKey:
    return result_key(endpoint_id, 1, request())
