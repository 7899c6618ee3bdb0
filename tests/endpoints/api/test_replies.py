"""The error table of the service contract: one test a row, one body for all of them, on every route."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from endpoints.access.access_tokens import issue_access_token
from endpoints.defining.saving import save_endpoint
from endpoints.log_database import servers
from endpoints.log_database.gate import GatePool
from endpoints.log_database.servers import LogServers, log_servers
from endpoints.models import AccessToken, Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.conftest import ApiClient

pytestmark = pytest.mark.django_db
QUERY = "/api/endpoints/query/"


def assert_error(response: Any, status: int, code: str) -> dict[str, Any]:
    """Check the one error body and return its `error`."""
    assert (response.status_code, response.json()["error"]["code"]) == (status, code), response.content
    assert response["Content-Type"] == "application/json; charset=utf-8"
    assert response["Cache-Control"] == "no-store"
    body = response.json()
    assert list(body) == ["error"]
    error: dict[str, Any] = body["error"]
    assert list(error) == ["code", "message", "details", "request_id"]
    assert isinstance(error["message"], str)
    assert error["message"].endswith((".", "not both."))
    assert all(isinstance(detail, dict) for detail in error["details"])
    assert error["request_id"] == response["X-Request-ID"]
    return error


@pytest.fixture
def stored(db: None) -> Callable[..., Endpoint]:
    """Save an endpoint with this SQL."""

    def save(sql: str, *parameters: DeclaredParameter, **settings: Any) -> Endpoint:
        return save_endpoint(Endpoint(name="test.endpoint", sql=sql, **settings), parameters)

    return save


UNREADABLE_QUERY_STRINGS = [
    "project=%00",
    "project=a%00b",
    "project=%ff",
    "project=%ed%a0%80",
    "%ff=1&project=acme",
    "project=acme&project=acme",
    "project=acme&iso_timestamp_end=2025-01-01&iso_timestamp_end=",
    "project=acme&sql=select+1&sql=select+2",
    "&".join(f"a{n}=1" for n in range(1001)),
]


@pytest.mark.parametrize("query_string", UNREADABLE_QUERY_STRINGS, ids=lambda text: text[:40])
def test_400_invalid_request_for_a_query_string_that_cannot_be_read(api: ApiClient, query_string: str) -> None:
    assert_error(api.get(f"{QUERY}logs.all?{query_string}"), 400, "invalid_request")


UNREADABLE_BODIES = [
    b"{",
    b"[]",
    b'"text"',
    b"null",
    b'{"project": "\xff"}',
    b'{"project": "a\\u0000b"}',
    b'{"project": "\\ud800"}',
    b'{"project": "a", "project": "b"}',
    b'{"project": NaN}',
    b'{"project": 1e999999999999999999999}',
    b'{"project": ' + b"1" * 5000 + b"}",
    b"[" * 100_000,
    b'{"project": "acme", "sql": 1}',
    b'{"project": "acme", "lql": ["a"]}',
]


@pytest.mark.parametrize("body", UNREADABLE_BODIES, ids=lambda body: repr(body[:30]))
@pytest.mark.parametrize("method", ["get", "post"])
def test_400_invalid_request_for_a_body_that_cannot_be_read(api: ApiClient, body: bytes, method: str) -> None:
    response = api.generic(method.upper(), f"{QUERY}logs.all", body, content_type="application/json")
    assert_error(response, 400, "invalid_request")


UNREADABLE_FORMS = [
    b"no boundary at all",
    b'--x\r\nContent-Disposition: form-data; name="project"\r\n\r\n\xff\r\n--x--\r\n',
    b'--x\r\nContent-Disposition: form-data; name="project"\r\n\r\na\x00b\r\n--x--\r\n',
    b'--x\r\nContent-Disposition: form-data; name="f"; filename="f.txt"\r\n\r\nacme\r\n--x--\r\n',
]


@pytest.mark.parametrize("body", UNREADABLE_FORMS, ids=range(len(UNREADABLE_FORMS)))
def test_400_invalid_request_for_a_multipart_form_that_cannot_be_read(api: ApiClient, body: bytes) -> None:
    boundary = "x" if body.startswith(b"--x") else ""
    response = api.generic(
        "POST", f"{QUERY}logs.all?project=acme", body, content_type=f"multipart/form-data; boundary={boundary}"
    )
    assert_error(response, 400, "invalid_request")


def test_400_invalid_request_for_a_redaction_header_that_is_neither_true_nor_false(api: ApiClient) -> None:
    error = assert_error(
        api.query("logs.all", {"project": "acme"}, SVC_ENDPOINT_REDACT_PII="treu"), 400, "invalid_request"
    )
    assert "true or false" in error["message"]


def test_400_invalid_parameters_lists_every_one_with_its_reason(
    api: ApiClient, stored: Callable[..., Endpoint]
) -> None:
    stored(
        "SELECT @a AS a, @b AS b, @c AS c, @d AS d",
        DeclaredParameter(name="a", required=True),
        DeclaredParameter(name="b", type=ParameterType.INTEGER, minimum="1", maximum="5"),
        DeclaredParameter(name="c", allowed_values=("x", "y")),
        DeclaredParameter(name="d", type=ParameterType.TIMESTAMP),
    )
    response = api.query("test.endpoint", {"b": "9", "c": "a secret value", "d": "yesterday"})
    error = assert_error(response, 400, "invalid_parameters")
    assert [detail["name"] for detail in error["details"]] == ["a", "b", "c", "d"]
    assert all(detail["reason"] for detail in error["details"])
    assert error["details"][2]["allowed_values"] == ["x", "y"]
    assert "a secret value" not in response.content.decode()


@pytest.mark.parametrize("name", ["sql", "lql"])
def test_400_sandbox_disabled_where_the_endpoint_has_no_sandbox(
    api: ApiClient, stored: Callable[..., Endpoint], name: str
) -> None:
    stored("WITH a AS (SELECT 1 AS n) SELECT n FROM a", sandboxing=False)
    assert_error(api.query("test.endpoint", {name: "select 1"}), 400, "sandbox_disabled")


@pytest.mark.parametrize("name", ["sql", "lql"])
@pytest.mark.parametrize("empty", ["", "  \n"])
def test_an_empty_sandbox_query_counts_as_absent(
    api: ApiClient, stored: Callable[..., Endpoint], name: str, empty: str
) -> None:
    stored("SELECT 1 AS a", sandboxing=False)
    assert api.query("test.endpoint", {name: empty}).json() == {"result": [{"a": 1}]}


@pytest.mark.parametrize("reference", ["logs.all", "test.endpoint"])
def test_400_ambiguous_sandbox_query_when_both_are_sent(
    api: ApiClient, stored: Callable[..., Endpoint], reference: str
) -> None:
    stored("SELECT 1 AS a")
    response = api.query(reference, {"project": "acme", "sql": "select 1", "lql": "a:1"})
    assert_error(response, 400, "ambiguous_sandbox_query")


def revoked() -> str:
    issued = issue_access_token(name="revoked")
    AccessToken.objects.filter(pk=issued.access_token.pk).update(revoked_at=timezone.now())
    return issued.secret


def expired() -> str:
    issued = issue_access_token(name="expired")
    past = timezone.now() - timedelta(seconds=1)
    AccessToken.objects.filter(pk=issued.access_token.pk).update(expires_at=past)
    return issued.secret


def of_wrong_secret() -> str:
    secret = issue_access_token(name="wrong").secret
    return secret[:-1] + ("A" if secret[-1] != "A" else "B")


UNAUTHENTICATED: list[tuple[str, Callable[[], dict[str, str]]]] = [
    ("none", dict),
    ("empty", lambda: {"X-API-KEY": ""}),
    ("unknown", lambda: {"X-API-KEY": "lqe_0123456789ab_" + "A" * 43}),
    ("malformed", lambda: {"X-API-KEY": "no such thing"}),
    ("not ASCII", lambda: {"X-API-KEY": "lqe_ü"}),
    ("wrong secret", lambda: {"X-API-KEY": of_wrong_secret()}),
    ("revoked", lambda: {"X-API-KEY": revoked()}),
    ("expired", lambda: {"X-API-KEY": expired()}),
    ("basic", lambda: {"Authorization": "Basic eDp5"}),
    ("bearer without a secret", lambda: {"Authorization": "Bearer "}),
]


@pytest.mark.parametrize("headers", [case[1] for case in UNAUTHENTICATED], ids=[case[0] for case in UNAUTHENTICATED])
@pytest.mark.parametrize("reference", ["logs.all", "no.such.endpoint"])
def test_401_not_authenticated_with_one_message_for_all(headers: Callable[[], dict[str, str]], reference: str) -> None:
    response = Client().get(f"{QUERY}{reference}?project=acme", headers=headers())
    error = assert_error(response, 401, "not_authenticated")
    assert error["message"] == "Send a valid access token in the X-API-KEY header."
    assert response["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("name", ["X-API-KEY", "x-api-key", "access_token", "apikey", "api_key"])
def test_401_for_an_access_token_in_the_query_string(secret: str, name: str) -> None:
    response = Client().get(f"{QUERY}logs.all", {"project": "acme", name: secret})
    assert_error(response, 401, "not_authenticated")


def test_403_argument_not_allowed_names_the_parameter_and_no_value() -> None:
    bound = ApiClient(issue_access_token(name="bound", bound_arguments={"project": "acme-internal"}).secret)
    response = bound.query("logs.all", {"project": "globex"})
    error = assert_error(response, 403, "argument_not_allowed")
    assert error["details"][0]["name"] == "project"
    assert "acme-internal" not in response.content.decode()
    assert "globex" not in response.content.decode()


NOT_FOUND = ["no.such.endpoint", "00000000-0000-0000-0000-000000000000", "LOGS.ALL", "%00", "%ff", "logs.all%20", "é"]


@pytest.mark.parametrize("reference", NOT_FOUND)
def test_404_endpoint_not_found_for_an_unknown_name_or_uuid(api: ApiClient, reference: str) -> None:
    assert_error(api.get(f"{QUERY}{reference}"), 404, "endpoint_not_found")


def test_404_is_the_same_for_an_endpoint_this_access_token_may_not_call(api: ApiClient) -> None:
    limited = ApiClient(issue_access_token(name="limited", endpoint_names=["usage.api-counts"]).secret)
    refused = assert_error(limited.query("logs.all", {"project": "acme"}), 404, "endpoint_not_found")
    unknown = assert_error(api.query("no.such.endpoint"), 404, "endpoint_not_found")
    assert refused | {"request_id": ""} == unknown | {"request_id": ""}


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE"])
def test_405_method_not_allowed_says_which_are(api: ApiClient, method: str) -> None:
    response = api.generic(method, f"{QUERY}logs.all?project=acme")
    assert_error(response, 405, "method_not_allowed")
    assert {"GET", "POST"} <= set(response["Allow"].split(", "))


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "image/*", "application/json;q=0"])
def test_406_not_acceptable_lists_the_formats(api: ApiClient, accept: str) -> None:
    error = assert_error(api.query("logs.all", {"project": "acme"}, Accept=accept), 406, "not_acceptable")
    assert [detail["media_type"] for detail in error["details"]] == [
        "application/json",
        "text/csv",
        "application/x-ndjson",
        "application/vnd.apache.parquet",
        "application/vnd.apache.arrow.stream",
    ]


def test_413_request_too_large(api: ApiClient) -> None:
    body = json.dumps({"project": "x" * (settings.ENDPOINTS_MAX_BODY_BYTES + 1)})
    response = api.post(f"{QUERY}logs.all", body, content_type="application/json")
    assert_error(response, 413, "request_too_large")


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "application/x-json", ""])
def test_415_unsupported_media_type_names_the_accepted_ones(api: ApiClient, content_type: str) -> None:
    response = api.generic("POST", f"{QUERY}logs.all", b"project=acme", content_type=content_type)
    error = assert_error(response, 415, "unsupported_media_type")
    assert "application/json" in error["message"]


def test_500_stored_query_failed_tells_the_caller_nothing_and_the_log_enough(
    api: ApiClient, stored: Callable[..., Endpoint], caplog: pytest.LogCaptureFixture
) -> None:
    stored("SELECT 1 / (length(@text) - 3) AS a, 'internal detail' AS b", DeclaredParameter(name="text"))
    assert api.query("test.endpoint", {"text": "four"}).status_code == 200
    with caplog.at_level(logging.ERROR):
        response = api.query("test.endpoint", {"text": "abc"})
    error = assert_error(response, 500, "stored_query_failed")
    assert error["details"] == []
    assert "division" not in response.content.decode()
    assert "internal detail" not in response.content.decode()
    logged = [record.msg for record in caplog.records if isinstance(record.msg, dict)]
    failures = [entry for entry in logged if entry["event"] == "stored_query_failed"]
    assert [(entry["sqlstate"], entry["request_id"]) for entry in failures] == [("22012", error["request_id"])]


def test_500_internal_error_is_logged_and_says_nothing(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("a bug with a secret")

    monkeypatch.setattr("endpoints.api.query.run_endpoint", fail)
    response = api.query("logs.all", {"project": "acme"})
    assert_error(response, 500, "internal_error")
    assert "bug" not in response.content.decode()
    assert any("internal_error" in str(record.msg) for record in caplog.records)


def test_503_database_unavailable_with_retry_after(api: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = GatePool({**settings.LOGS_GATE, "host": "127.0.0.1", "port": "1"}, size=2, wait_seconds=0.2)
    monkeypatch.setattr(servers, "_servers", LogServers([nowhere]))
    try:
        response = api.query("logs.all", {"project": "acme"})
    finally:
        nowhere.close()
    assert_error(response, 503, "database_unavailable")
    assert int(response["Retry-After"]) >= 1


def test_503_overloaded_with_retry_after(api: ApiClient) -> None:
    pool = log_servers().primary()
    with ExitStack() as stack:
        for _ in range(settings.ENDPOINTS_POOL_SIZE):
            stack.enter_context(pool.connection())
        response = api.query("logs.all", {"project": "acme"})
    assert_error(response, 503, "overloaded")
    assert int(response["Retry-After"]) >= 1
    assert api.query("logs.all", {"project": "acme"}).status_code == 200


def test_504_query_timeout(api: ApiClient, stored: Callable[..., Endpoint]) -> None:
    stored("SELECT pg_sleep(20) AS a", statement_timeout_seconds=1)
    error = assert_error(api.query("test.endpoint"), 504, "query_timeout")
    assert "1 s" in error["message"]


def addresses() -> list[str]:
    """Every route of the API, filled with something that fits."""
    found = []

    def walk(patterns: list[Any], prefix: str) -> None:
        for pattern in patterns:
            if isinstance(pattern, URLResolver):
                walk(pattern.url_patterns, prefix + str(pattern.pattern))
            elif isinstance(pattern, URLPattern) and not prefix.startswith("admin"):
                found.append(prefix + str(pattern.pattern))

    walk(get_resolver().url_patterns, "")
    return [f"/{route.strip('^$').replace('(?P<reference>[^/]+)/?', 'logs.all')}" for route in found if "api" in route]


def test_every_route_of_the_api_fails_with_the_one_body() -> None:
    optional = r"\(\?:[^()]*(?:\([^()]*\)[^()]*)?\)\?"
    routes = [re.sub(optional, "", route).removesuffix("/?").replace("\\", "") for route in addresses()]
    assert "/api/endpoints/query/logs.all" in routes
    assert "/api/openapi.json" in routes
    served = {route.replace("(?:api/logs/json|logs)", "api/logs/json"): (401, "not_authenticated") for route in routes}
    served |= {"/api/docs": (405, "method_not_allowed"), "/api": (404, "not_found")}
    others = ("/api/nothing", "/api/", "/nothing", "/api/endpoints/query/", "/api/endpoints")
    for route, refused in (served | dict.fromkeys(others, (404, "not_found"))).items():
        assert_error(Client().generic("DELETE", route), *refused)


@pytest.mark.parametrize("cookies", [{}, {"sessionid": "x", "csrftoken": "y"}])
@pytest.mark.parametrize(
    "path", ["/api", "/api/", "/api/nothing", "/api/nothing/", "/nothing", "/api/endpoints/query/"]
)
def test_an_unknown_address_is_a_404_in_the_one_body_for_every_method(path: str, cookies: dict[str, str]) -> None:
    client = Client(enforce_csrf_checks=True)
    client.cookies.load(cookies)
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"):
        assert_error(client.generic(method, path), 404, "not_found")
    assert client.head(path).status_code == 404


def test_a_health_check_by_post_is_not_asked_for_a_form(db: None) -> None:
    client = Client(enforce_csrf_checks=True)
    assert [client.post(path).status_code for path in ("/livez", "/health", "/metrics")] == [200, 200, 404]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("DELETE", "/api/endpoints/cache/logs.all", 403),
        ("DELETE", "/api/calls/none", 404),
        ("GET", "/api/openapi.json", 200),
    ],
)
def test_a_route_of_one_form_asks_first_who_calls_and_leaves_accept_alone(
    api: ApiClient, method: str, path: str, status: int
) -> None:
    for accept in ("image/png", "text/csv", "nonsense"):
        assert Client().generic(method, path, headers={"Accept": accept}).status_code == 401
        assert api.generic(method, path, headers={"Accept": accept}).status_code == status
