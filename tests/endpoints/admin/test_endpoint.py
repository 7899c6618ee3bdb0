"""What the endpoint's page is started with: nothing for readers, no way to run drafts without the permission."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from endpoints.definition import SETTINGS_IN_DRAFTS
from endpoints.models import Endpoint

pytestmark = pytest.mark.django_db
WORKS = ("check", "run", "explain", "cancel", "catalogue")


def client_of(*codenames: str) -> Client:
    user = User.objects.create_user("somebody", password="x", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames, content_type__app_label="endpoints"))
    client = Client()
    client.force_login(user)
    return client


def change_page(client: Client) -> str:
    endpoint = Endpoint.objects.get(name="logs.all")
    return client.get(reverse("admin:endpoints_endpoint_change", args=[endpoint.pk])).content.decode()


def start_of(page: str) -> Any:
    found = re.search(r'<script id="workbench" type="application/json">(.*?)</script>', page)
    return json.loads(found[1]) if found else None


def test_who_may_try_gets_every_address_and_the_endpoint_it_is_about() -> None:
    page = change_page(client_of("view_endpoint", "change_endpoint", "run_draft"))
    start = start_of(page)
    assert start["id"] == str(Endpoint.objects.get(name="logs.all").pk)
    assert set(start["addresses"]) == {*WORKS, "format", "latest"}
    assert start["settings"] == list(SETTINGS_IN_DRAFTS)
    assert 'id="wb-try"' in page


def test_who_may_edit_and_not_try_gets_the_editor_alone() -> None:
    page = change_page(client_of("view_endpoint", "change_endpoint"))
    start = start_of(page)
    assert not start["may_try"]
    assert set(start["addresses"]) == {"format", "latest"}
    for gone in ('id="wb-try"', 'id="wb-problems"', 'id="wb-results"', 'id="wb-form"', "try_it.css"):
        assert gone not in page
    assert 'id="wb-format"' in page


def test_who_may_only_read_gets_no_script_and_no_editor() -> None:
    page = change_page(client_of("view_endpoint", "run_draft"))
    assert start_of(page) is None
    for gone in ("wb-toolbar", "wb-try", "main.js", "django-ace-widget"):
        assert gone not in page
    assert "from logs.edge_logs" in page


def test_a_new_endpoint_has_no_id(admin_client: Client) -> None:
    page = admin_client.get(reverse("admin:endpoints_endpoint_add")).content.decode()
    assert start_of(page)["id"] is None


def test_a_version_of_the_past_is_not_edited(admin_client: Client) -> None:
    endpoint = Endpoint.objects.get(name="logs.all")
    version = endpoint.history.first()
    address = reverse("admin:endpoints_endpoint_simple_history", args=[endpoint.pk, version.pk])
    assert start_of(admin_client.get(address).content.decode()) is None
