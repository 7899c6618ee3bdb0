"""CORS by signing key: a preflight for the origins of any key, an answer for those of the token's own key."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from endpoints.access.access_tokens import issue_access_token, revoke_access_tokens
from endpoints.access.browser_tokens import Claims
from endpoints.access.known_records import KNOWN_RECORDS
from endpoints.access.signing_keys import create_signing_key, revoke_signing_keys, sign
from endpoints.errors import DatabaseUnavailable
from endpoints.models import AccessToken, Endpoint, SigningKey
from tests.endpoints.api.conftest import Ask

pytestmark = pytest.mark.django_db
APP = "https://app.example.org"
OTHER = "https://other.example.org"
EVIL = "https://evil.example.org"
QUERY = "/api/endpoints/query/logs.all"
ALLOW = "Access-Control-Allow-Origin"


@pytest.fixture
def key() -> SigningKey:
    return create_signing_key(name="app", allowed_origins=[APP])


@pytest.fixture
def other_key() -> SigningKey:
    return create_signing_key(name="other", algorithm="HS256", allowed_origins=[OTHER])


def token(key: SigningKey, *, age_seconds: int = 0) -> str:
    """Return a token for logs.all, issued so long ago for an hour."""
    prefix = issue_access_token(name="backend", may_issue=True).access_token.prefix
    issued_at = int(timezone.now().timestamp()) - age_seconds
    endpoint_ids = frozenset([str(Endpoint.objects.get(name="logs.all").pk)])
    return sign(key, Claims(prefix, endpoint_ids, {"project": "acme"}, issued_at, issued_at + 3600).as_json())


def preflight(origin: str, path: str = QUERY) -> Any:
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "authorization",
    }
    return Client().options(path, headers=headers)


def call(sent: str, origin: str, *, header: str = "Authorization", path: str = QUERY) -> Any:
    value = f"Bearer {sent}" if header == "Authorization" else sent
    return Client().get(path, headers={"Origin": origin, header: value})


@pytest.mark.parametrize(
    "path", [QUERY, f"{QUERY}/", "/endpoints/query/logs.all", "/api/endpoints/query/name/logs.all"]
)
def test_a_preflight_is_allowed_to_the_origins_of_every_key(key: SigningKey, other_key: SigningKey, path: str) -> None:
    for origin in (APP, OTHER):
        answer = preflight(origin, path)
        assert answer[ALLOW] == origin
        assert {"authorization", "x-api-key"} <= set(answer["Access-Control-Allow-Headers"].split(", "))
        assert "origin" in answer["Vary"].lower()
        assert "Access-Control-Allow-Credentials" not in answer


@pytest.mark.parametrize(
    "origin",
    [EVIL, "null", "*", "https://app.example.org.evil.example", "http://app.example.org", f"{APP}:8443", f"{APP}/", ""],
)
def test_no_other_origin_is_allowed(key: SigningKey, origin: str) -> None:
    assert ALLOW not in preflight(origin)
    assert ALLOW not in call(token(key), origin)


def test_a_preflight_tells_nothing_of_endpoints(key: SigningKey) -> None:
    answers = [preflight(APP, f"/api/endpoints/query/{name}") for name in ("logs.all", "unknown", "a" * 300)]
    assert len({(answer.status_code, answer.content, answer[ALLOW]) for answer in answers}) == 1


def test_without_keys_there_is_no_cors() -> None:
    assert ALLOW not in preflight(APP)


@pytest.mark.parametrize("header", ["Authorization", "X-API-KEY"])
def test_an_answer_is_allowed_to_the_origins_of_the_tokens_own_key(
    key: SigningKey, other_key: SigningKey, header: str
) -> None:
    sent = token(key)
    answer = call(sent, APP, header=header)
    assert (answer.status_code, answer[ALLOW]) == (200, APP)
    assert "X-Cache" in answer["Access-Control-Expose-Headers"]
    assert "origin" in answer["Vary"].lower()
    assert "Access-Control-Allow-Credentials" not in answer
    for origin in (OTHER, EVIL):
        assert ALLOW not in call(sent, origin, header=header)


def test_a_page_can_read_why_it_was_refused(key: SigningKey) -> None:
    for sent, status in ((token(key, age_seconds=3600), 401), (token(key, age_seconds=-60), 401)):
        answer = call(sent, APP)
        assert (answer.status_code, answer[ALLOW]) == (status, APP)
    sent = token(key)
    answer = call(sent, APP, path=f"{QUERY}?project=globex")
    assert (answer.status_code, answer[ALLOW]) == (403, APP)
    revoke_access_tokens(AccessToken.objects.all())
    answer = call(sent, APP)
    assert (answer.status_code, answer[ALLOW]) == (401, APP)


def test_a_forged_token_gets_no_cors(key: SigningKey) -> None:
    sent = token(key)
    for forged in (f"{sent[:-10]}AAAAAAAAAA", "a.b.c", "a" * 40, ""):
        answer = call(forged, APP)
        assert answer.status_code == 401
        assert ALLOW not in answer


def test_a_revoked_key_allows_nothing(key: SigningKey) -> None:
    sent = token(key)
    assert ALLOW in call(sent, APP)
    revoke_signing_keys(SigningKey.objects.all())
    assert ALLOW not in call(sent, APP)
    assert ALLOW not in preflight(APP)


def test_an_access_token_gets_no_cors_from_keys(key: SigningKey) -> None:
    """It lasts too long for a page; the setting allows it to those who want it."""
    answer = call(issue_access_token(name="caller").secret, APP, path=f"{QUERY}?project=acme")
    assert answer.status_code == 200
    assert ALLOW not in answer


def test_the_setting_works_as_before(key: SigningKey, settings: Any) -> None:
    settings.CORS_ALLOWED_ORIGINS = [OTHER]
    secret = issue_access_token(name="caller").secret
    assert call(secret, OTHER, path=f"{QUERY}?project=acme")[ALLOW] == OTHER
    assert preflight(OTHER, "/api/logs")[ALLOW] == OTHER
    assert preflight(APP)[ALLOW] == APP


@pytest.mark.parametrize(
    "path", ["/api/tokens", "/api/logs", "/v1/logs", "/api/openapi.json", "/api/endpoints/cache/a"]
)
def test_only_the_query_route_is_open_to_pages(key: SigningKey, path: str) -> None:
    assert ALLOW not in preflight(APP, path)
    assert ALLOW not in call(token(key), APP, path=path)


def test_a_database_that_is_away_allows_nothing_and_breaks_nothing(
    key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise DatabaseUnavailable

    monkeypatch.setattr(type(KNOWN_RECORDS), "origins_of_signing_keys", away)
    assert ALLOW not in preflight(APP)


def test_the_whole_way_has_the_headers(ask: Ask, key: SigningKey) -> None:
    status, headers, _ = ask("", path=QUERY, authorization=f"Bearer {token(key)}", origin=APP)
    found = {name.lower(): value for name, value in headers.items()}
    assert (status, found["access-control-allow-origin"]) == (200, APP)
    # A plain call, of a program, is answered before Django: with the same Vary, for caches on the way.
    _, headers, _ = ask("", path=QUERY, authorization=f"Bearer {token(key)}")
    assert {name.lower(): value for name, value in headers.items()}["vary"] == found["vary"]
