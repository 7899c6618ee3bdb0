"""Requests are remembered for calls that come again, and for no others."""

from __future__ import annotations

import pytest

from endpoints.calling import query_requests
from endpoints.calling.query_requests import Call, recall_request
from endpoints.definition import Version
from endpoints.models import Endpoint
from tests.conftest import ApiClient

pytestmark = pytest.mark.django_db
BODY = 100_000


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    query_requests._remembered._values.clear()


@pytest.fixture
def endpoint() -> Version:
    return Endpoint.objects.get(name="logs.all").as_version()


def test_a_call_that_comes_again_is_judged_once(endpoint: Version) -> None:
    call = Call({"project": "acme"}, weight=100)
    assert recall_request(endpoint, call, None) is recall_request(endpoint, call, None)


def test_a_call_that_cannot_come_again_leaves_nothing(endpoint: Version) -> None:
    for _ in range(3):
        recall_request(endpoint, Call({"project": "acme"}), None)
    assert not query_requests._remembered._values


@pytest.mark.parametrize("sent", ["json", "form", "query string"])
def test_large_bodies_and_query_strings_leave_nothing(api: ApiClient, sent: str) -> None:
    """Kept, 200 bodies of 175 KiB would take 826 MiB."""
    for number in range(3):
        arguments = {"project": "acme", "ignored": f"{number}" * (BODY if sent != "query string" else 10_000)}
        url = "/api/endpoints/query/logs.all"
        if sent == "query string":
            response = api.get(url, arguments)
        else:
            response = api.post(url, arguments, **({"content_type": "application/json"} if sent == "json" else {}))
        assert response.status_code == 200, response.content
    assert not query_requests._remembered._values
