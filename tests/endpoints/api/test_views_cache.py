"""The cache over HTTP: its headers, purging, the rate limit and the metrics."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from config.setting_values import Rate
from endpoints.access.access_tokens import issue_access_token
from endpoints.calling.calls import waiting_place
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter
from tests.conftest import ApiClient

pytestmark = pytest.mark.django_db
SQL = "SELECT @key AS key, random()::text AS run"
PURGE = "/api/endpoints/cache/test.cached"


@pytest.fixture
def endpoint(db: None) -> Endpoint:
    return save_endpoint(Endpoint(name="test.cached", sql=SQL, cache_seconds=600), [DeclaredParameter("key")])


def test_a_miss_and_a_hit_say_so(api: ApiClient, endpoint: Endpoint) -> None:
    first, second = api.query("test.cached"), api.query("test.cached")
    assert (first["X-Cache"], second["X-Cache"]) == ("miss", "hit")
    assert first.content == second.content
    assert (first["Age"], first["ETag"]) == ("0", second["ETag"])
    for response in (first, second):
        assert re.fullmatch(r"private, max-age=(599|600), stale-while-revalidate=\d+", response["Cache-Control"])


def test_a_hit_that_the_client_has_is_a_304(api: ApiClient, endpoint: Endpoint) -> None:
    etag = api.query("test.cached")["ETag"]
    response = api.query("test.cached", If_None_Match=etag)
    assert (response.status_code, response.content, response["X-Cache"]) == (304, b"", "hit")


def test_a_call_that_failed_leaves_nothing_to_wait_for(api: ApiClient, settings: Any) -> None:
    save_endpoint(
        Endpoint(name="test.failing", sql="SELECT 1 / @n::int AS n", cache_seconds=600), [DeclaredParameter("n")]
    )
    settings.ENDPOINTS_WAITING_CALLS = 0  # a call that would have to wait for another one is refused
    assert [api.query("test.failing", {"n": "0"}).status_code for _ in range(3)] == [500, 500, 500]
    assert [api.query("test.failing", {"n": "1"}).status_code for _ in range(2)] == [200, 200]


def test_without_caching_a_client_has_to_ask_again(api: ApiClient) -> None:
    response = api.query("logs.all", {"project": "acme"})
    assert (response["X-Cache"], response["Cache-Control"]) == ("bypass", "private, no-cache")
    assert "Age" not in response


def test_an_access_token_that_may_purge_removes_the_results(endpoint: Endpoint) -> None:
    purger = ApiClient(issue_access_token(name="deploys", may_purge=True).secret)
    body = purger.query("test.cached").content
    response = purger.delete(PURGE)
    assert (response.status_code, response.json()) == (200, {"result": [{"endpoint": "test.cached", "removed": 1}]})
    renewed = purger.query("test.cached")
    assert (renewed["X-Cache"], renewed.content == body) == ("miss", False)


def test_purging_needs_the_right(api: ApiClient, endpoint: Endpoint) -> None:
    response = api.delete(PURGE)
    assert (response.status_code, response.json()["error"]["code"]) == (403, "purge_not_allowed")


def test_no_other_right_purges(endpoint: Endpoint) -> None:
    others = ApiClient(issue_access_token(name="loads and issues", may_load=True, may_issue=True).secret)
    assert others.query("test.cached")["X-Cache"] == "miss"
    response = others.delete(PURGE)
    assert (response.status_code, response.json()["error"]["code"]) == (403, "purge_not_allowed")
    assert others.query("test.cached")["X-Cache"] == "hit"


def test_purging_tells_nothing_of_endpoints_out_of_reach(endpoint: Endpoint) -> None:
    limited = issue_access_token(name="limited", endpoint_names=["logs.all"], may_purge=True).secret
    response = ApiClient(limited).delete(PURGE)
    assert (response.status_code, response.json()["error"]["code"]) == (404, "endpoint_not_found")
    assert Client().delete(PURGE).status_code == 401


def test_few_purges_of_an_access_token_wait_and_the_next_ones_remove_nothing(endpoint: Endpoint, settings: Any) -> None:
    settings.ENDPOINTS_WEB_THREADS = 16
    busy, other = (issue_access_token(name=name, may_purge=True) for name in ("busy", "other"))
    client = ApiClient(busy.secret)
    client.query("test.cached")
    with waiting_place(busy.access_token.prefix), waiting_place(busy.access_token.prefix):
        refused = client.delete(PURGE)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overloaded")
        assert client.query("test.cached")["X-Cache"] == "hit"
        assert ApiClient(other.secret).delete(PURGE).status_code == 200
    assert client.query("test.cached")["X-Cache"] == "miss"
    assert client.delete(PURGE).json()["result"][0]["removed"] == 1


def test_only_delete_purges(api: ApiClient, endpoint: Endpoint) -> None:
    assert api.get(PURGE).status_code == 405
    assert api.post(PURGE).status_code == 405


def test_the_rate_limit_is_that_of_the_access_token(endpoint: Endpoint, settings: Any) -> None:
    settings.ENDPOINTS_RATE_LIMIT = Rate(calls=2, seconds=60)
    busy, calm = (ApiClient(issue_access_token(name=name).secret) for name in ("busy", "calm"))
    assert [busy.query("test.cached").status_code for _ in range(3)] == [200, 200, 429]
    refused = busy.query("test.cached")
    assert refused.json()["error"]["code"] == "rate_limited"
    assert 1 <= int(refused["Retry-After"]) <= 60
    assert calm.query("test.cached").status_code == 200


@pytest.mark.parametrize("remote", ["127.0.0.1", "::1", "203.0.113.9", ""])
def test_metrics_are_for_nobody_without_a_setting(endpoint: Endpoint, remote: str) -> None:
    assert Client().get("/metrics", REMOTE_ADDR=remote).status_code == 404
    assert Client().get("/metrics", REMOTE_ADDR=remote, headers={"Authorization": "Bearer "}).status_code == 404


@pytest.mark.parametrize(
    "header", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP", "X-Forwarded-Proto", "X-Forwarded-Host"]
)
def test_metrics_for_loopback_are_not_for_whom_a_proxy_there_passes_on(
    endpoint: Endpoint, settings: Any, header: str
) -> None:
    settings.ENDPOINTS_METRICS_LOOPBACK = True
    client = Client()
    assert client.get("/metrics").status_code == 200
    assert client.get("/metrics", REMOTE_ADDR="203.0.113.9").status_code == 404
    assert client.get("/metrics", headers={header: "203.0.113.9"}).status_code == 404


@pytest.mark.parametrize("loopback", [True, False])
def test_with_a_token_metrics_are_for_who_sends_it(endpoint: Endpoint, settings: Any, loopback: bool) -> None:
    settings.ENDPOINTS_METRICS_LOOPBACK = loopback
    client = Client()
    settings.ENDPOINTS_METRICS_TOKEN = "for-prometheus"
    assert client.get("/metrics").status_code == 404
    assert client.get("/metrics", headers={"Authorization": "Bearer wrong"}).status_code == 404
    remote = client.get("/metrics", REMOTE_ADDR="203.0.113.9", headers={"Authorization": "Bearer for-prometheus"})
    assert remote.status_code == 200


def test_metrics_count_calls_by_what_the_cache_did(api: ApiClient, endpoint: Endpoint, settings: Any) -> None:
    settings.ENDPOINTS_METRICS_LOOPBACK = True
    from endpoints.cache.usage import asked

    for _ in range(3):
        api.query("test.cached")
    asked.flush()
    text = Client().get("/metrics").content.decode()
    assert 'endpoints_calls_total{cache="miss",endpoint="test.cached"} 1.0' in text
    assert 'endpoints_calls_total{cache="hit",endpoint="test.cached"} 2.0' in text
    assert 'endpoints_cached_results{endpoint="test.cached"} 1.0' in text
    assert "endpoints_redis_up 1.0" in text
