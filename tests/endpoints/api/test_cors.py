"""CORS by access token: a preflight for the origins of any issuer, an answer for those of the token's own issuer."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from endpoints.access.access_tokens import issue_access_token, revoke_access_tokens
from endpoints.access.browser_tokens import Claims, sign
from endpoints.access.change_marker import changing
from endpoints.access.known_records import KNOWN_RECORDS
from endpoints.errors import DatabaseUnavailable
from endpoints.models import AccessToken, Endpoint
from tests.endpoints.api.conftest import Ask

pytestmark = pytest.mark.django_db
APP = "https://app.example.org"
OTHER = "https://other.example.org"
EVIL = "https://evil.example.org"
QUERY = "/api/endpoints/query/logs.all"
ALLOW = "Access-Control-Allow-Origin"


@pytest.fixture
def issuer() -> AccessToken:
    return issue_access_token(name="backend", may_issue=True, allowed_origins=[APP]).access_token


@pytest.fixture
def other_issuer() -> AccessToken:
    return issue_access_token(name="other", may_issue=True, allowed_origins=[OTHER]).access_token


def token(issuer: AccessToken, *, age_seconds: int = 0) -> str:
    """Return a token for logs.all, issued so long ago for an hour."""
    ends_at = int(timezone.now().timestamp()) - age_seconds + 3600
    endpoint_ids = frozenset([str(Endpoint.objects.get(name="logs.all").pk)])
    return sign(Claims(issuer.prefix, endpoint_ids, {"project": "acme"}, ends_at))


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
def test_a_preflight_is_allowed_to_the_origins_of_every_issuer(
    issuer: AccessToken, other_issuer: AccessToken, path: str
) -> None:
    for origin in (APP, OTHER):
        answer = preflight(origin, path)
        assert answer[ALLOW] == origin
        assert {"authorization", "cache-control", "x-api-key"} <= set(
            answer["Access-Control-Allow-Headers"].split(", ")
        )
        assert "origin" in answer["Vary"].lower()
        assert "Access-Control-Allow-Credentials" not in answer


@pytest.mark.parametrize(
    "origin",
    [EVIL, "null", "*", "https://app.example.org.evil.example", "http://app.example.org", f"{APP}:8443", f"{APP}/", ""],
)
def test_no_other_origin_is_allowed(issuer: AccessToken, origin: str) -> None:
    assert ALLOW not in preflight(origin)
    assert ALLOW not in call(token(issuer), origin)


def test_a_preflight_tells_nothing_of_endpoints(issuer: AccessToken) -> None:
    answers = [preflight(APP, f"/api/endpoints/query/{name}") for name in ("logs.all", "unknown", "a" * 300)]
    assert len({(answer.status_code, answer.content, answer[ALLOW]) for answer in answers}) == 1


def test_without_issuers_there_is_no_cors() -> None:
    assert ALLOW not in preflight(APP)


@pytest.mark.parametrize("header", ["Authorization", "X-API-KEY"])
def test_an_answer_is_allowed_to_the_origins_of_the_tokens_own_issuer(
    issuer: AccessToken, other_issuer: AccessToken, header: str
) -> None:
    sent = token(issuer)
    answer = call(sent, APP, header=header)
    assert (answer.status_code, answer[ALLOW]) == (200, APP)
    assert "X-Cache" in answer["Access-Control-Expose-Headers"]
    assert "origin" in answer["Vary"].lower()
    assert "Access-Control-Allow-Credentials" not in answer
    for origin in (OTHER, EVIL):
        assert ALLOW not in call(sent, origin, header=header)


def test_a_page_can_read_why_it_was_refused(issuer: AccessToken) -> None:
    answer = call(token(issuer, age_seconds=3600), APP)
    assert (answer.status_code, answer[ALLOW]) == (401, APP)
    sent = token(issuer)
    answer = call(sent, APP, path=f"{QUERY}?project=globex")
    assert (answer.status_code, answer[ALLOW]) == (403, APP)
    revoke_access_tokens(AccessToken.objects.all())
    answer = call(sent, APP)
    assert (answer.status_code, answer[ALLOW]) == (401, APP)


def test_a_forged_token_gets_no_cors(issuer: AccessToken) -> None:
    sent = token(issuer)
    for forged in (f"{sent[:-10]}AAAAAAAAAA", "a.b.c", "a" * 40, ""):
        answer = call(forged, APP)
        assert answer.status_code == 401
        assert ALLOW not in answer


@pytest.mark.parametrize("lost", [{"revoked_at": timezone.now()}, {"may_issue": False}, {"allowed_origins": []}])
def test_what_issues_no_more_allows_no_preflight(issuer: AccessToken, lost: dict[str, Any]) -> None:
    assert ALLOW in preflight(APP)
    with changing():
        AccessToken.objects.filter(pk=issuer.pk).update(**lost)
    assert ALLOW not in preflight(APP)


def test_an_access_token_itself_gets_no_cors(issuer: AccessToken) -> None:
    """It lasts too long for a page; the setting allows it to those who want it."""
    answer = call(
        issue_access_token(name="caller", may_issue=True, allowed_origins=[APP]).secret,
        APP,
        path=f"{QUERY}?project=acme",
    )
    assert answer.status_code == 200
    assert ALLOW not in answer


def test_the_setting_works_as_before(issuer: AccessToken, settings: Any) -> None:
    settings.CORS_ALLOWED_ORIGINS = [OTHER]
    secret = issue_access_token(name="caller").secret
    assert call(secret, OTHER, path=f"{QUERY}?project=acme")[ALLOW] == OTHER
    assert preflight(OTHER, "/api/logs")[ALLOW] == OTHER
    assert preflight(APP)[ALLOW] == APP


@pytest.mark.parametrize(
    "path", ["/api/tokens", "/api/logs", "/v1/logs", "/api/openapi.json", "/api/endpoints/cache/a"]
)
def test_only_the_query_route_is_open_to_pages(issuer: AccessToken, path: str) -> None:
    assert ALLOW not in preflight(APP, path)
    assert ALLOW not in call(token(issuer), APP, path=path)


def test_a_database_that_is_away_allows_nothing_and_breaks_nothing(
    issuer: AccessToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise DatabaseUnavailable

    monkeypatch.setattr(type(KNOWN_RECORDS), "allowed_origins", away)
    assert ALLOW not in preflight(APP)


def test_the_whole_way_has_the_headers(ask: Ask, issuer: AccessToken) -> None:
    status, headers, _ = ask("", path=QUERY, authorization=f"Bearer {token(issuer)}", origin=APP)
    found = {name.lower(): value for name, value in headers.items()}
    assert (status, found["access-control-allow-origin"]) == (200, APP)
    # A plain call, of a program, is answered before Django: with the same Vary, for caches on the way.
    _, headers, _ = ask("", path=QUERY, authorization=f"Bearer {token(issuer)}")
    assert {name.lower(): value for name, value in headers.items()}["vary"] == found["vary"]
