"""An access token over plain HTTP, where HTTPS is demanded: refused; a redirect would hide that it has travelled."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from tests.endpoints.api.conftest import HOST, Ask

pytestmark = pytest.mark.django_db
PATH = "/api/endpoints/query/plain"
FORWARDED = ("HTTP_X_FORWARDED_PROTO", "https")


@pytest.fixture(autouse=True)
def endpoint(db: None, settings: Any) -> Endpoint:
    settings.SECURE_SSL_REDIRECT = True  # which Django reads when it is made: before `ask`
    return save_endpoint(Endpoint(name="plain", sql="SELECT 1 AS n", tenant_parameter=""), [])


def assert_refused(answer: tuple[int, dict[str, str], bytes], secret: str) -> None:
    status, headers, body = answer
    assert status == 403
    error = json.loads(body)["error"]
    assert error["code"] == "https_required"
    assert "consider it exposed" in error["message"]
    assert error["request_id"] == headers["X-Request-ID"]
    assert headers["Cache-Control"] == "no-store"
    assert "Location" not in headers
    assert secret not in repr(answer)


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "PUT"])
@pytest.mark.parametrize("path", [PATH, f"{PATH}/", "/api/openapi.json", "/api/logs", "/mcp", "/api/tokens", "/api/x"])
def test_is_refused_at_every_address_by_every_method(ask: Ask, secret: str, method: str, path: str) -> None:
    answer = ask("", path=path, method=method, body=b"{}" if method == "POST" else b"", x_api_key=secret)
    if method == "HEAD":
        assert answer[0] == 403
    else:
        assert_refused(answer, secret)


@pytest.mark.parametrize("header", ["x_api_key", "authorization"])
@pytest.mark.parametrize("value", ["{}", "lqe_0_wrong", "a.browser.token"])
def test_right_or_wrong_is_not_looked_up(
    ask: Ask, secret: str, django_assert_num_queries: Any, header: str, value: str
) -> None:
    sent = value.format(secret)
    with django_assert_num_queries(0):
        assert_refused(ask("", path=PATH, **{header: f"Bearer {sent}" if header == "authorization" else sent}), secret)


@pytest.mark.parametrize(
    ("proxy", "scheme", "sent", "expected"),
    [
        (None, "http", {}, 403),
        (None, "https", {}, 200),
        (None, "http", {"x_forwarded_proto": "https"}, 403),  # anybody can send it
        (FORWARDED, "http", {}, 403),
        (FORWARDED, "http", {"x_forwarded_proto": "https"}, 200),
        (FORWARDED, "http", {"x_forwarded_proto": "https, http"}, 200),
        (FORWARDED, "http", {"x_forwarded_proto": "http"}, 403),
        (FORWARDED, "https", {"x_forwarded_proto": "http"}, 403),
        (FORWARDED, "https", {"x_forwarded_proto": "HTTPS"}, 403),
    ],
)
def test_what_counts_as_https_is_what_counts_for_the_redirect(
    ask: Ask, secret: str, settings: Any, proxy: Any, scheme: str, sent: dict[str, str], expected: int
) -> None:
    settings.SECURE_PROXY_SSL_HEADER = proxy
    assert ask("", path=PATH, x_api_key=secret, wsgi=scheme, **sent)[0] == expected


def test_without_an_access_token_there_is_a_redirect(ask: Ask) -> None:
    for path in (PATH, "/admin/login/"):
        status, headers, _ = ask("a=1", path=path)
        assert (status, headers["Location"]) == (301, f"https://{HOST}{path}?a=1")


def test_probes_over_plain_http_stay_allowed(ask: Ask, secret: str) -> None:
    assert ask("", path="/livez", x_api_key=secret)[0] == 200


TOKEN = "for-prometheus"


@pytest.mark.parametrize("path", ["/metrics", "/metrics/"])
@pytest.mark.parametrize(
    ("remote", "sent", "status", "code"),
    [
        ("127.0.0.1", {"Authorization": f"Bearer {TOKEN}"}, 200, None),
        ("::1", {"Authorization": f"Bearer {TOKEN}"}, 200, None),
        ("10.1.2.3", {"Authorization": f"Bearer {TOKEN}"}, 200, None),
        ("172.18.0.7", {"Authorization": f"Bearer {TOKEN}"}, 200, None),
        ("192.168.3.4", {"Authorization": f"Bearer {TOKEN}"}, 200, None),
        ("fd00::7", {"Authorization": f"Bearer {TOKEN}"}, 200, None),
        ("::ffff:172.18.0.7", {"Authorization": f"Bearer {TOKEN}"}, 200, None),
        ("127.0.0.1", {"Authorization": "Bearer wrong"}, 404, "not_found"),
        ("127.0.0.1", {}, 404, "not_found"),
        ("127.0.0.1", {"X-API-KEY": TOKEN}, 404, "not_found"),
        ("203.0.113.9", {"Authorization": f"Bearer {TOKEN}"}, 403, "https_required"),
        ("172.32.0.7", {"Authorization": f"Bearer {TOKEN}"}, 403, "https_required"),
        ("2001:db8::7", {"Authorization": f"Bearer {TOKEN}"}, 403, "https_required"),
        ("::ffff:203.0.113.9", {"Authorization": f"Bearer {TOKEN}"}, 403, "https_required"),
        ("", {"Authorization": f"Bearer {TOKEN}"}, 403, "https_required"),
        ("203.0.113.9", {}, 404, "not_found"),
        # A proxy is near, whoever stands behind it.
        ("127.0.0.1", {"Authorization": f"Bearer {TOKEN}", "X-Forwarded-For": "10.1.2.3"}, 403, "https_required"),
        ("10.1.2.3", {"Authorization": f"Bearer {TOKEN}", "X-Forwarded-Proto": "http"}, 403, "https_required"),
        ("10.1.2.3", {"Authorization": f"Bearer {TOKEN}", "Via": "1.1 proxy"}, 403, "https_required"),
    ],
)
def test_metrics_over_plain_http_are_for_the_private_network_alone(
    settings: Any, path: str, remote: str, sent: dict[str, str], status: int, code: str | None
) -> None:
    settings.ENDPOINTS_METRICS_TOKEN = TOKEN
    answer = Client().get(path, REMOTE_ADDR=remote, headers=sent)
    assert answer.status_code == status
    assert (answer.json()["error"]["code"] if code else None) == code


def test_metrics_over_https_are_for_who_has_the_token(settings: Any) -> None:
    settings.ENDPOINTS_METRICS_TOKEN = TOKEN
    answers = [Client().get("/metrics", REMOTE_ADDR="203.0.113.9", headers=sent, secure=True) for sent in (
        {"Authorization": f"Bearer {TOKEN}"}, {},
    )]  # fmt: skip
    assert [answer.status_code for answer in answers] == [200, 404]


@pytest.mark.parametrize("path", ["/metricsx", "/metrics/x", "/api/metrics", "/admin/metrics"])
def test_nothing_beside_metrics_is_exempt(settings: Any, path: str) -> None:
    assert Client().get(path, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 403
    assert Client().get(path).status_code == 301


def test_a_page_of_an_allowed_origin_can_read_the_refusal(settings: Any, secret: str) -> None:
    settings.CORS_ALLOWED_ORIGINS = ["https://app.example.org"]
    client = Client(headers={"X-API-KEY": secret, "Origin": "https://app.example.org"})
    answer = client.get(PATH)
    assert answer.status_code == 403
    assert answer["Access-Control-Allow-Origin"] == "https://app.example.org"


def test_without_the_demand_plain_http_is_answered(ask: Ask, secret: str, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = False
    assert ask("", path=PATH, x_api_key=secret)[0] == 200


def test_the_log_has_the_refusal_and_no_secret(ask: Ask, secret: str, capfd: pytest.CaptureFixture[str]) -> None:
    ask("", path=PATH, x_api_key=secret)
    written = capfd.readouterr().err
    assert "https_required" in written
    assert secret not in written
    assert secret.split("_", 2)[2] not in written
