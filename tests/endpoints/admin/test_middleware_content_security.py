"""The admin's pages: a strict policy on every answer, nothing inline, and formatting only for who may edit."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from endpoints.admin.middleware import ADMIN_POLICY
from endpoints.models import Endpoint

pytestmark = pytest.mark.django_db
FORMAT = "/admin/endpoints/endpoint/draft/format/"


class InlineFinder(HTMLParser):
    """Collects what the policy would refuse: inline scripts, style elements and attributes, handlers, other hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._is_inline_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self._is_inline_script = tag == "script" and "src" not in attributes
        if self._is_inline_script and attributes.get("type") == "application/json":
            self._is_inline_script = False
        if tag == "style" or "style" in attributes:
            self.found.append(f"<{tag} style={attributes.get('style')}>")
        self.found += [f"<{tag} {name}>" for name in attributes if re.fullmatch(r"on[a-z]+", name)]
        for name in ("src", "href", "action"):
            address = attributes.get(name) or ""
            if tag != "a" and re.match(r"(https?:)?//", address):
                self.found.append(f"<{tag} {name}={address}>")

    def handle_data(self, data: str) -> None:
        if self._is_inline_script and data.strip():
            self.found.append(f"<script>{data.strip()[:60]}")

    def handle_endtag(self, tag: str) -> None:
        self._is_inline_script = False


def inline(response: Any) -> list[str]:
    finder = InlineFinder()
    finder.feed(response.content.decode())
    return finder.found


def test_every_answer_below_the_admin_has_the_policy(client: Client, admin_client: Client) -> None:
    endpoint = Endpoint.objects.get(name="logs.all")
    answers = [
        client.get("/admin/login/"),
        client.get("/admin/"),  # a redirect
        admin_client.get("/admin/"),
        admin_client.get("/admin/nowhere/"),
        admin_client.get(reverse("admin:endpoints_endpoint_change", args=[endpoint.pk])),
        admin_client.post(FORMAT, {"sql": "select 1"}, content_type="application/json"),
    ]
    assert [answer.status_code for answer in answers] == [200, 302, 200, 404, 200, 200]
    assert {answer["Content-Security-Policy"] for answer in answers} == {ADMIN_POLICY}


def test_the_policy_lets_no_inline_script_or_style_in() -> None:
    assert "unsafe-inline" not in ADMIN_POLICY
    assert "frame-ancestors 'none'" in ADMIN_POLICY
    assert "http" not in ADMIN_POLICY


def test_answers_to_consumers_have_no_policy(client: Client) -> None:
    assert "Content-Security-Policy" not in client.get("/api/endpoints/query/logs.all")


@pytest.mark.parametrize("page", ["add", "change"])
def test_the_page_of_an_endpoint_has_nothing_inline(admin_client: Client, page: str) -> None:
    arguments = [Endpoint.objects.get(name="logs.all").pk] if page == "change" else []
    response = admin_client.get(reverse(f"admin:endpoints_endpoint_{page}", args=arguments))
    assert b'id="wb-try"' in response.content
    assert inline(response) == []


def test_formats_for_an_editor(admin_client: Client) -> None:
    response = admin_client.post(FORMAT, {"sql": "select 1 from t"}, content_type="application/json")
    assert response.json() == {"sql": "SELECT 1\nFROM t"}
    assert response["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"sql": "select 'open"}, 422, "not_formattable"),
        ({"sql": 1}, 400, "invalid_request"),
        ([], 400, "invalid_request"),
        ("{", 400, "invalid_request"),
    ],
)
def test_refuses_to_format(admin_client: Client, body: Any, status: int, code: str) -> None:
    response = admin_client.post(FORMAT, body, content_type="application/json")
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


def test_formats_for_nobody_else(client: Client) -> None:
    sql = {"sql": "select 1"}
    assert client.post(FORMAT, sql, content_type="application/json").status_code == 401
    client.force_login(User.objects.create_user("reader", password="x", is_staff=True))
    assert client.post(FORMAT, sql, content_type="application/json").status_code == 403
    assert client.get(FORMAT).status_code == 405


def test_formatting_needs_the_csrf_token(admin_user: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    assert client.post(FORMAT, {"sql": "select 1"}, content_type="application/json").status_code == 403
