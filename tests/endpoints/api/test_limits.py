"""Limits of an access token over HTTP: a call that has ended, in whatever way, takes nothing from the next one."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django_redis import get_redis_connection

from config.setting_values import Rate
from endpoints.access.access_tokens import issue_access_token
from endpoints.access.secrets import OwnLimits
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.conftest import ApiClient

pytestmark = pytest.mark.django_db


@pytest.fixture
def endpoint(db: None) -> Endpoint:
    draft = Endpoint(
        name="test.limited", sql="WITH a AS (SELECT 10 / @n AS share) SELECT share FROM a", sandboxing=True
    )
    return save_endpoint(draft, [DeclaredParameter("n", ParameterType.INTEGER, required=True)])


def one_at_a_time() -> ApiClient:
    limits = OwnLimits(calls_at_once=1, sandbox_queries_at_once=1)
    return ApiClient(issue_access_token(name="one at a time", limits=limits).secret)


@pytest.mark.parametrize(
    ("query", "failure"),
    [({}, 500), ({"sql": "select share from a"}, 400), ({"lql": "share:10"}, 400)],
    ids=["stored", "sql", "lql"],
)
def test_a_call_gives_its_turn_to_the_next_one(endpoint: Endpoint, query: dict[str, str], failure: int) -> None:
    client = one_at_a_time()
    statuses = [client.query("test.limited", {"n": n, **query}).status_code for n in (1, 0, 1)]
    assert statuses == [200, failure, 200]


def test_as_many_sandbox_queries_as_one_likes_come_one_after_the_other(api: ApiClient, endpoint: Endpoint) -> None:
    for _ in range(2 * settings.ENDPOINTS_POOL_SIZE):
        assert api.query("test.limited", {"n": 1, "sql": "select share from a"}).status_code == 200


def test_a_refused_call_makes_no_refusal_longer(endpoint: Endpoint, settings: Any) -> None:
    settings.ENDPOINTS_RATE_LIMIT = Rate(calls=1, seconds=3600)
    issued = issue_access_token(name="busy")
    client = ApiClient(issued.secret)
    assert client.query("test.limited", {"n": 1}).status_code == 200
    redis = get_redis_connection("default")
    (window,) = redis.scan_iter(match=f"lqe:rate:{issued.access_token.prefix}:*")
    redis.pexpire(window, 300_000)  # most of it has passed
    for _ in range(3):
        refused = client.query("test.limited", {"n": 1})
        assert refused.status_code == 429
        assert int(refused["Retry-After"]) <= 300
