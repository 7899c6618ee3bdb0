"""The pages of somebody who gets no page: in plain words, under the content security policy.

Somebody who is logged in keeps the menu; the pages of everybody else need no database.
"""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.test import Client, RequestFactory
from django.urls import reverse
from django.views.defaults import page_not_found, permission_denied, server_error

from endpoints.admin.refusal_pages import RefusalPagesMiddleware


def check(response: HttpResponse, status: int, words: str) -> None:
    page = response.content.decode()
    assert response.status_code == status
    assert f"<h1>{words}</h1>" in page
    assert re.findall(r"<style|<script|\sstyle=|\son\w+=", page) == []
    assert 'href="/admin/"' in page


@pytest.fixture
def viewer(db: None) -> Client:
    person = User.objects.create_user("looks", is_staff=True)
    person.groups.add(Group.objects.get(name="viewer"))
    client = Client(enforce_csrf_checks=True)
    client.force_login(person)
    return client


def check_menu(response: HttpResponse, status: int, words: str) -> None:
    page = response.content.decode()
    assert response.status_code == status
    assert words in page[page.index("<h1") : page.index("</h1>")]
    assert words in page[page.index("<title>") : page.index("</title>")]
    assert "Back to dashboard" in page
    assert reverse("admin:endpoints_endpoint_changelist") in page
    assert reverse("admin:auth_user_changelist") not in page
    assert "default-src 'self'" in response["Content-Security-Policy"]


def test_what_a_role_does_not_include_is_said_beside_the_menu(viewer: Client) -> None:
    check_menu(viewer.get("/admin/auth/user/"), 403, "You don't have permission")


def test_an_address_where_nothing_is_is_said_beside_the_menu(viewer: Client) -> None:
    check_menu(viewer.get("/admin/nothing"), 404, "Page not found")


def test_a_form_without_its_token_is_said_to_have_changed_nothing(viewer: Client) -> None:
    check(viewer.post("/admin/password_change/"), 403, "This form was not accepted, and nothing was changed")


def test_a_person_who_may_not_enter_the_admin_gets_no_menu(db: None) -> None:
    request = RequestFactory().get("/admin/")
    request.user = User.objects.create_user("visitor")
    for refusal in (Http404(), PermissionDenied()):
        assert RefusalPagesMiddleware(lambda _: HttpResponse()).process_exception(request, refusal) is None


def test_the_plain_pages_need_no_person() -> None:
    request = RequestFactory().get("/admin/")
    check(page_not_found(request, Http404()), 404, "Page not found")
    check(permission_denied(request, PermissionDenied()), 403, "You don't have permission")
    check(server_error(request), 500, "Something went wrong")
