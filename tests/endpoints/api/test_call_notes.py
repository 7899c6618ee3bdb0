"""Every call of somebody known is noted as it ended, and noting it changes no answer."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DataError
from django.test import Client
from django_redis import get_redis_connection

from config.setting_values import Rate
from endpoints.access.access_tokens import issue_access_token
from endpoints.access.change_marker import CHANGING_KEY
from endpoints.access.known_records import KnownRecords
from endpoints.cache import usage
from endpoints.cache.usage import RecentCall, recent_calls
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.conftest import ApiClient

pytestmark = pytest.mark.django_db


def save_known_endpoint(endpoint: Endpoint, parameters: list[DeclaredParameter]) -> Endpoint:
    """Save it and let this process rely on it: in a test's transaction a change counts as under way until its end."""
    saved = save_endpoint(endpoint, parameters)
    get_redis_connection("default").delete(CHANGING_KEY)
    return saved


@pytest.fixture
def endpoint(db: None) -> Endpoint:
    return save_known_endpoint(
        Endpoint(name="test.noted", sql="SELECT 10 / @divisor AS quotient UNION ALL SELECT 0", cache_seconds=600),
        [DeclaredParameter("divisor", ParameterType.INTEGER)],
    )


def noted(endpoint: Endpoint) -> list[RecentCall]:
    recent_calls.flush()
    return usage.last_calls(endpoint.pk.hex)


def outcomes(endpoint: Endpoint) -> list[tuple[int, str, int, str]]:
    """Return status, error, rows and cache of the calls, the oldest first."""
    return [(call.status, call.error_code, call.rows, call.cache) for call in reversed(noted(endpoint))]


def test_an_answer_is_noted_with_its_rows_and_what_the_cache_did(api: ApiClient, endpoint: Endpoint) -> None:
    etag = api.query("test.noted", {"divisor": "3"})["ETag"]
    api.query(str(endpoint.pk), {"divisor": "3"})
    api.query("test.noted", {"divisor": "3"}, If_None_Match=etag)
    assert outcomes(endpoint) == [(200, "", 2, "miss"), (200, "", 2, "hit"), (304, "", 2, "hit")]
    (newest, *_) = noted(endpoint)
    assert (newest.access_token, newest.version) == ("test caller", 1)
    assert 0 < newest.milliseconds < 60_000


def test_refusals_and_failures_are_noted_by_their_code(api: ApiClient, endpoint: Endpoint, settings: Any) -> None:
    api.query("test.noted", {"divisor": "three"})
    api.query("test.noted", {"divisor": "0"})
    api.delete("/api/endpoints/query/test.noted")
    settings.ENDPOINTS_RATE_LIMIT = Rate(calls=1, seconds=60)
    for _ in range(2):
        api.query("test.noted", {"divisor": "5"})
    assert outcomes(endpoint) == [
        (400, "invalid_parameters", 0, ""),
        (500, "stored_query_failed", 0, ""),
        (405, "method_not_allowed", 0, ""),
        (200, "", 2, "miss"),
        (429, "rate_limited", 0, ""),
    ]


def test_a_call_out_of_reach_is_noted_at_the_endpoint_it_was_meant_for(endpoint: Endpoint) -> None:
    limited = ApiClient(issue_access_token(name="limited", endpoint_names=["logs.all"]).secret)
    get_redis_connection("default").delete(CHANGING_KEY)
    assert limited.query("test.noted").status_code == 404
    (call,) = noted(endpoint)
    assert (call.status, call.error_code, call.access_token) == (404, "endpoint_not_found", "limited")


def test_calls_of_nobody_and_of_no_endpoint_leave_nothing(api: ApiClient, endpoint: Endpoint) -> None:
    assert Client().get("/api/endpoints/query/test.noted").status_code == 401
    assert Client().options("/api/endpoints/query/test.noted").status_code == 204
    assert api.query("no.such.endpoint").status_code == 404
    recent_calls.flush()
    assert noted(endpoint) == []


def test_no_argument_is_in_what_is_noted(api: ApiClient, endpoint: Endpoint) -> None:
    api.query("test.noted", {"divisor": "secret-value"})
    assert "secret-value" not in repr(noted(endpoint))


def test_a_call_that_fails_by_the_state_database_is_noted_where_the_endpoint_is_known(
    api: ApiClient, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(directory: KnownRecords, reference: str) -> Endpoint:
        raise DataError("the state database refuses")

    api.query("test.noted", {"divisor": "3"})
    monkeypatch.setattr(KnownRecords, "endpoint", broken)
    for reference in ("test.noted", "no.such.endpoint"):
        response = api.query(reference)
        assert (response.status_code, response.json()["error"]["code"]) == (500, "internal_error")
    assert [status for status, *_ in outcomes(endpoint)] == [200, 500]


def test_metrics_tell_how_long_calls_took(api: ApiClient, endpoint: Endpoint, settings: Any) -> None:
    settings.ENDPOINTS_METRICS_LOOPBACK = True
    api.query("test.noted", {"divisor": "3"})
    text = Client().get("/metrics").content.decode()
    for quantile in ("0.5", "0.95"):
        assert f'endpoints_call_duration_seconds{{endpoint="test.noted",quantile="{quantile}"}} 0.' in text
    assert 'endpoints_call_duration_seconds{endpoint="logs.all"' not in text
