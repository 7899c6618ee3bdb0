"""DELETE /api/calls/<request id>: who may cancel what, and what the cancelled call answers."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any

import pytest
from django.test import Client

from config.setting_values import Rate
from endpoints.access.access_tokens import issue_access_token
from endpoints.cache.running_calls import RunningCall, cancel_calls
from endpoints.calling import calls
from endpoints.calling.calls import waiting_place
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from tests.conftest import ApiClient
from tests.endpoints.cache.own_redis import OwnRedis
from tests.live.calls import until

pytestmark = pytest.mark.django_db
BUSY = "SELECT count(*) AS n FROM generate_series(1, 30000) AS a, generate_series(1, 30000) AS b WHERE a + b = 1"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "CALL_FOUND_SECONDS", 0.0)


@pytest.mark.parametrize("request_id", ["mine", "with/slashes/and:colons", "mine+1=@", "a" * 128])
@pytest.mark.parametrize("slash", ["", "/"])
def test_the_access_token_that_made_the_call_cancels_it(request_id: str, slash: str) -> None:
    issued = issue_access_token(name="own")
    with RunningCall(issued.access_token.prefix, {"HTTP_X_REQUEST_ID": request_id}) as call:
        call.end_if_unwanted()
        response = ApiClient(issued.secret).delete(f"/api/calls/{request_id}{slash}")
    assert response.status_code == 200
    assert response.json() == {"result": [{"request_id": request_id, "cancelled": True}]}
    assert response["Cache-Control"] == "no-store"


@pytest.mark.parametrize("bound", [{}, {"project": "acme"}])
@pytest.mark.parametrize("request_id", ["theirs", "unknown", "*", "their?", "../theirs", "%00", "x" * 5000])
def test_everything_else_is_not_found(request_id: str, bound: dict[str, str]) -> None:
    theirs, ours = issue_access_token(name="theirs"), issue_access_token(name="ours", bound_arguments=bound)
    with RunningCall(theirs.access_token.prefix, {"HTTP_X_REQUEST_ID": "theirs"}) as call:
        call.end_if_unwanted()
        for guess in (request_id, f"{theirs.access_token.prefix}:{request_id}"):
            response = ApiClient(ours.secret).delete(f"/api/calls/{guess}")
            assert (response.status_code, response.json()["error"]["code"]) == (404, "call_not_found")
        call.end_if_unwanted()


def test_a_request_needs_an_access_token_within_its_rate_and_only_delete_cancels(settings: Any) -> None:
    secret = issue_access_token(name="busy").secret
    assert Client().delete("/api/calls/mine").status_code == 401
    assert [getattr(ApiClient(secret), method)("/api/calls/mine").status_code for method in ("get", "post")] == [
        405,
        405,
    ]
    settings.ENDPOINTS_RATE_LIMIT = Rate(calls=2, seconds=60)
    limited = ApiClient(issue_access_token(name="limited").secret)
    assert [limited.delete("/api/calls/mine").status_code for _ in range(3)] == [404, 404, 429]


def test_only_who_may_call_waits_for_a_call_that_has_just_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "sleep", lambda _: pytest.fail("it waits for what cannot come"))
    monkeypatch.setattr(calls, "CALL_FOUND_SECONDS", 60.0)
    loader = issue_access_token(name="loader", may_load=True, no_endpoints=True)
    response = ApiClient(loader.secret).delete("/api/calls/mine")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "call_not_found")


def test_few_requests_of_an_access_token_wait_and_the_next_ones_are_told_at_once(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.ENDPOINTS_WEB_THREADS = 16
    busy, other, third = (issue_access_token(name=name) for name in ("busy", "other", "third"))
    with ExitStack() as waiting:
        for _ in range(2):
            waiting.enter_context(waiting_place(busy.access_token.prefix))
        with monkeypatch.context() as patched:
            patched.setattr(calls, "sleep", lambda _: pytest.fail("it waits"))
            patched.setattr(calls, "CALL_FOUND_SECONDS", 60.0)
            refused = ApiClient(busy.secret).delete("/api/calls/mine")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overloaded")
        assert refused["Retry-After"] == "1"
        with RunningCall(busy.access_token.prefix, {"HTTP_X_REQUEST_ID": "mine"}) as call:
            call.end_if_unwanted()
            assert ApiClient(busy.secret).delete("/api/calls/mine").status_code == 200, "it need not wait"
        assert ApiClient(other.secret).delete("/api/calls/mine").status_code == 404
        for _ in range(2):
            waiting.enter_context(waiting_place(other.access_token.prefix))
        assert ApiClient(third.secret).delete("/api/calls/mine").status_code == 503
    assert ApiClient(busy.secret).delete("/api/calls/mine").status_code == 404


def test_without_redis_nothing_is_cancelled(secret: str, own_redis: OwnRedis, redis_not_met_yet: None) -> None:
    own_redis.kill()
    response = ApiClient(secret).delete("/api/calls/mine")
    assert (response.status_code, response.json()["error"]["code"]) == (503, "cache_unavailable")
    assert "nothing was cancelled" in response.json()["error"]["message"]


@pytest.mark.parametrize("cache_seconds", [0, 600])
def test_a_cancelled_call_says_so_and_is_run_anew_by_the_next_one(cache_seconds: int) -> None:
    issued = issue_access_token(name="own")
    endpoint = save_endpoint(
        Endpoint(name="test.busy", sql=BUSY, cache_seconds=cache_seconds, statement_timeout_seconds=60), []
    )
    wish = threading.Thread(
        target=until, args=(lambda: cancel_calls("mine", caller=issued.access_token.prefix),), kwargs={"seconds": 20}
    )
    wish.start()
    answer = ApiClient(issued.secret).query(endpoint.name, X_Request_ID="mine")
    wish.join()
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "cancelled")
    assert answer.json()["error"]["request_id"] == "mine"
    assert answer["Cache-Control"] == "no-store"
    endpoint.statement_timeout_seconds = 1
    save_endpoint(endpoint, [])
    assert ApiClient(issued.secret).query(endpoint.name, X_Request_ID="mine").status_code == 504
