"""The pages of somebody who gets no page: in plain words, under the content security policy, without a database."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Group, User
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.views.defaults import server_error


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


def test_what_a_role_may_not_do_is_said(viewer: Client) -> None:
    response = viewer.get("/admin/auth/user/")
    check(response, 403, "Your role may not do this")
    assert "default-src 'self'" in response["Content-Security-Policy"]


def test_a_form_without_its_token_is_said_to_have_done_nothing(viewer: Client) -> None:
    check(viewer.post("/admin/password_change/"), 403, "This form could not be checked, so nothing was done")


def test_an_address_where_nothing_is_is_said(viewer: Client) -> None:
    check(viewer.get("/admin/nothing"), 404, "There is nothing at this address")


def test_a_failure_is_said_without_its_reason() -> None:
    check(server_error(RequestFactory().get("/admin/")), 500, "Something went wrong")
