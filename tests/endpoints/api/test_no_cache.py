"""`Cache-Control: no-cache` of a query: every row that was loaded before it, whatever is in the cache."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from endpoints.access.access_tokens import authenticate_access_token, issue_access_token
from endpoints.access.secrets import OwnLimits
from endpoints.access.token_limits import turn
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from tests.conftest import ApiClient
from tests.endpoints.api.loads import row, send

pytestmark = pytest.mark.django_db
URL = "/api/endpoints/query/counting"
SQL = "SELECT count(*) AS rows FROM edge_logs"
NO_CACHE = {"Cache-Control": "no-cache"}


@pytest.fixture
def counting(db: None) -> Endpoint:
    """An endpoint that counts the rows of a log table, and keeps the number for ten minutes."""
    return save_endpoint(Endpoint(name="counting", sql=SQL, cache_seconds=600), [])


def told(response: Any) -> tuple[int, str]:
    """Return the number of rows, and from where it came."""
    assert response.status_code == 200, response.content
    (row,) = response.json()["result"]
    return int(row["rows"]), response["X-Cache"]


def test_it_sees_the_rows_of_a_load_and_plain_calls_after_it_see_them_too(
    shipper: Client, api: ApiClient, counting: Endpoint
) -> None:
    assert told(api.get(URL)) == (0, "miss")
    for number in range(1, 6):
        send(shipper, row(number))
        assert told(api.get(URL)) == (number - 1, "hit")
        response = api.get(URL, headers=NO_CACHE)
        assert (told(response), response["Age"]) == ((number, "miss"), "0")
        assert told(api.get(URL)) == (number, "hit")


@pytest.mark.parametrize(
    ("sent", "counts"),
    [
        ("no-cache", True),
        ("No-Cache", True),
        ("max-age=0, no-cache", True),
        ("no-cache,foo=bar", True),
        ("foo\t,\tno-cache ,", True),
        ("", False),
        ("max-age=0", False),
        ("no-store", False),
        ("only-if-cached", False),
        ("x-no-cache", False),
        ("no-cache;q=1", False),
        ('no-cache="X-Cache"', False),
        ("no cache", False),
    ],
)
def test_only_this_directive_counts(api: ApiClient, counting: Endpoint, sent: str, counts: bool) -> None:
    api.get(URL)
    assert told(api.get(URL, headers={"Cache-Control": sent}))[1] == ("miss" if counts else "hit")


@pytest.mark.parametrize(
    "headers", [{"Pragma": "no-cache"}, {"X-Log-Position": "0/3A2B1C8"}, {"X-Log-Position": "no position"}]
)
def test_other_headers_are_ignored(api: ApiClient, counting: Endpoint, headers: dict[str, str]) -> None:
    api.get(URL)
    assert told(api.get(URL, headers=headers))[1] == "hit"


def test_a_load_is_answered_without_a_position(shipper: Client, counting: Endpoint, api: ApiClient) -> None:
    assert "X-Log-Position" not in send(shipper, row(1)).headers
    assert "X-Log-Position" not in api.get(URL)["Vary"]


@pytest.mark.parametrize("method", ["get", "post", "head"])
def test_every_method_takes_it(shipper: Client, api: ApiClient, counting: Endpoint, method: str) -> None:
    sent: dict[str, Any] = {"data": "{}", "content_type": "application/json"} if method == "post" else {}
    api.get(URL)
    send(shipper, row(1))
    assert getattr(api, method)(URL, headers=NO_CACHE, **sent)["X-Cache"] == "miss"
    assert told(api.get(URL)) == (1, "hit")


def test_a_result_that_the_client_has_already_is_a_304(api: ApiClient, counting: Endpoint) -> None:
    tag = api.get(URL)["ETag"]
    response = api.get(URL, headers={**NO_CACHE, "If-None-Match": tag})
    assert (response.status_code, response["X-Cache"]) == (304, "miss")


def test_without_caching_it_changes_nothing(shipper: Client, api: ApiClient, db: None) -> None:
    save_endpoint(Endpoint(name="counting", sql=SQL, cache_seconds=0), [])
    send(shipper, row(1))
    assert told(api.get(URL, headers=NO_CACHE)) == (1, "bypass")


def test_a_page_is_read_anew_as_well(shipper: Client, api: ApiClient, db: None) -> None:
    sql = "SELECT id, timestamp FROM edge_logs"
    save_endpoint(Endpoint(name="paged", sql=sql, page_order="id, timestamp", cache_seconds=600), [])

    def ids(arguments: dict[str, Any], **headers: str) -> tuple[list[str], str]:
        document = api.query("paged", arguments, **headers).json()
        return [each["id"] for each in document["result"]], document["next"]

    send(shipper, [row(1), row(3), row(5)])
    first, token = ids({"page_size": 2})
    assert (first, ids({"page_token": token})) == (["row-1", "row-3"], (["row-5"], None))
    send(shipper, row(4))
    assert ids({"page_token": token}) == (["row-5"], None)
    assert ids({"page_token": token}, Cache_Control="no-cache") == (["row-4", "row-5"], None)
    assert ids({"page_token": token}) == (["row-4", "row-5"], None)


def test_a_stream_takes_it(shipper: Client, api: ApiClient, db: None) -> None:
    save_endpoint(Endpoint(name="streamed", sql="SELECT id FROM edge_logs", stream_rows=10), [])
    send(shipper, row(1))
    response = api.query("streamed", Accept="application/x-ndjson", Cache_Control="no-cache")
    assert json.loads(b"".join(response).splitlines()[0]) == {"id": "row-1"}


def test_it_counts_against_the_limits_of_its_access_token(counting: Endpoint, settings: Any) -> None:
    settings.ENDPOINTS_POOL_WAIT_SECONDS = 0.01
    limited = issue_access_token(name="limited", limits=OwnLimits(calls_a_minute=3, calls_at_once=1))
    api, caller = ApiClient(limited.secret), authenticate_access_token(limited.secret)
    assert api.get(URL)["X-Cache"] == "miss"
    with turn(caller, is_sandbox_query=False, statement_seconds=15):
        assert api.get(URL)["X-Cache"] == "hit"
        assert api.get(URL, headers=NO_CACHE).json()["error"]["code"] == "too_many_calls"
    refused = api.get(URL, headers=NO_CACHE)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
