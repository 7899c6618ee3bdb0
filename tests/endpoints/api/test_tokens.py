"""POST /api/tokens: what an access token may pass on to a browser, and what it may not."""

from __future__ import annotations

import json
from typing import Any

import jwt
import pytest
from django.test import Client

from endpoints.access.access_tokens import issue_access_token
from endpoints.access.signing_keys import create_signing_key
from endpoints.models import SigningKey

pytestmark = pytest.mark.django_db


@pytest.fixture
def signing_key() -> SigningKey:
    return create_signing_key(name="dashboard", allowed_origins=["https://app.example.org"])


def issuer(**options: Any) -> str:
    return issue_access_token(name="shop backend", may_issue=True, **options).secret


def ask(secret: str, body: Any, **options: Any) -> Any:
    return Client(headers={"X-API-KEY": secret}).post("/api/tokens", json.dumps(body), "application/json", **options)


def test_a_token_is_issued_and_calls(signing_key: SigningKey, log_database: Any, insert_rows: Any) -> None:
    insert_rows("edge_logs", [{"project": "acme", "timestamp": "2026-11-23T00:00:00Z", "event_message": "a"}])
    answer = ask(issuer(), {"endpoints": ["logs.all"], "arguments": {"project": "acme"}})
    assert answer.status_code == 200, answer.content
    (issued,) = answer.json()["result"]
    called = Client(headers={"X-API-KEY": issued["token"]}).get("/api/endpoints/query/logs.all")
    assert called.status_code == 200, called.content
    assert [row["event_message"] for row in called.json()["result"]] == ["a"]
    called = Client(headers={"Authorization": f"Bearer {issued['token']}"}).get(
        "/api/endpoints/query/logs.all?project=globex"
    )
    assert called.status_code == 403
    assert jwt.get_unverified_header(issued["token"])["kid"] == signing_key.kid
