"""What an operator is told of an endpoint's calls."""

from __future__ import annotations

from typing import Any

import pytest
from django_redis import get_redis_connection

from endpoints.access.change_marker import CHANGING_KEY
from endpoints.access.secrets import Caller
from endpoints.cache import CacheUnavailable, connection
from endpoints.calling.calls import call_activity, endpoint_use, note_answered_call, note_failed_call, run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.defining.saving import save_endpoint
from endpoints.errors import InvalidParameters
from endpoints.models import Endpoint

pytestmark = pytest.mark.django_db
CALLER = Caller(name="reports", prefix="0123456789ab")


@pytest.fixture
def endpoint(db: None) -> Endpoint:
    saved = save_endpoint(Endpoint(name="test.used", sql="SELECT @key AS key", cache_seconds=60), [])
    # In a test's transaction a change counts as under way until its end.
    get_redis_connection("default").delete(CHANGING_KEY)
    return saved


def answer(endpoint: Endpoint, key: str) -> None:
    answered = run_endpoint(endpoint.name, call=Call({"key": key}))
    note_answered_call(answered, CALLER, status=200, seconds=0.025)


def test_use_is_the_last_calls_the_day_and_the_cache(endpoint: Endpoint) -> None:
    for key in "aab":
        answer(endpoint, key)
    note_failed_call("test.used", InvalidParameters(), CALLER, seconds=0.001)
    use = endpoint_use(endpoint, last_calls=3)
    assert [(call.status, call.error_code, call.cache) for call in use.last_calls] == [
        (400, "invalid_parameters", ""),
        (200, "", "miss"),
        (200, "", "hit"),
    ]
    assert {(call.access_token, call.access_token_prefix, call.version) for call in use.last_calls} == {
        ("reports", "0123456789ab", 1)
    }
    assert (sum(use.activity.calls), sum(use.activity.refused), use.activity.cached_share) == (4, 1, 1 / 3)
    assert use.activity.durations.quantile_ms(0.5) == pytest.approx(25, rel=0.3)
    assert (use.statistics.hits, use.statistics.misses) == (1, 2)


def test_activity_is_in_the_order_asked_for(endpoint: Endpoint) -> None:
    answer(endpoint, "a")
    unused = Endpoint.objects.get(name="logs.all")
    assert [sum(activity.calls) for activity in call_activity([unused, endpoint, unused])] == [0, 1, 0]
    assert call_activity([]) == []


def test_use_needs_redis_and_noting_does_not(
    endpoint: Endpoint, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_breaker", connection._Breaker())
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": "redis://127.0.0.1:1/0"}}
    answer(endpoint, "a")
    note_failed_call("test.used", InvalidParameters(), CALLER, seconds=0.001)
    with pytest.raises(CacheUnavailable):
        endpoint_use(endpoint, last_calls=1)
    with pytest.raises(CacheUnavailable):
        call_activity([endpoint])
