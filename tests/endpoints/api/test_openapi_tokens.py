"""What the OpenAPI document says of browser tokens: to whom, and what may be asked for."""

from __future__ import annotations

from typing import Any

import pytest

from endpoints.access.access_tokens import issue_access_token
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from tests.conftest import ApiClient
from tests.endpoints.api.documents import document, operation_of, schema_of, validate, validator

pytestmark = pytest.mark.django_db
PATH = "/api/tokens"
SCHEMAS = {"BrowserTokenRequest", "BrowserToken", "BrowserTokenResult"}


def issuer() -> ApiClient:
    return ApiClient(issue_access_token(name="backend", may_issue=True).secret)


@pytest.mark.parametrize("may_issue", [True, False])
def test_is_described_to_who_may_issue(may_issue: bool) -> None:
    secret = issue_access_token(name="one", may_issue=may_issue, may_load=True, may_purge=True).secret
    described = document(ApiClient(secret))
    validate(described)
    assert (PATH in described["paths"]) == may_issue
    assert SCHEMAS & set(described["components"]["schemas"]) == (SCHEMAS if may_issue else set())
    assert ("tokens" in [tag["name"] for tag in described["tags"]]) == may_issue


def test_an_answer_is_as_described() -> None:
    client = issuer()
    described = document(client)
    body = {"endpoints": ["logs.all"], "arguments": {"project": "acme"}, "expires_in": 60}
    assert validator(described, "BrowserTokenRequest").is_valid(body)
    answer = client.post(PATH, body, content_type="application/json")
    assert answer.status_code == 200
    validator(described, "BrowserTokenResult").validate(answer.json())


@pytest.mark.parametrize(
    "changes",
    [
        {"endpoints": []},
        {"endpoints": ["logs.all"] * 51},
        {"endpoints": "logs.all"},
        {"endpoints": [1]},
        {"arguments": {"project": 1}},
        {"arguments": []},
        {"expires_in": 0},
        {"expires_in": 86_401},
        {"expires_in": "60"},
        {"signing_key": "dashboard"},
        {"endpoint": "logs.all"},
    ],
)
def test_no_body_that_is_refused_fits(changes: dict[str, Any]) -> None:
    client = issuer()
    body = {"endpoints": ["logs.all"], **changes}
    assert client.post(PATH, body, content_type="application/json").status_code == 400
    assert not validator(document(client), "BrowserTokenRequest").is_valid(body)


def test_what_is_left_out_is_as_the_service_takes_it() -> None:
    operation = operation_of(described := document(issuer()), "issue_browser_token")
    schema = schema_of(described, operation["requestBody"])
    assert schema["required"] == ["endpoints"]
    assert schema["properties"]["expires_in"]["default"] == 3600


def test_names_of_endpoints_leave_those_of_its_schemas_alone() -> None:
    for name in ("browser.token", "browser-token.request", "cancelled", "purged"):
        save_endpoint(Endpoint(name=name, sql="SELECT @n::int AS n"), ())
    described = document(issuer())
    validate(described)
    # Generators make this name for the object of arguments in the request.
    assert "BrowserTokenRequestArguments" not in described["components"]["schemas"]
