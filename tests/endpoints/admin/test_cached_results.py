"""The address that removes an endpoint's cached results, and saves nothing."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from endpoints.cache import live_entries
from endpoints.cache.usage import asked
from endpoints.calling.calls import run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint

pytestmark = pytest.mark.django_db


@pytest.fixture
def endpoint(db: None) -> Endpoint:
    saved = save_endpoint(Endpoint(name="test.cached", sql="SELECT @key AS key", cache_seconds=60), [])
    for key in "aab":
        run_endpoint("test.cached", call=Call({"key": key}))
    asked.flush()
    return saved


def purge(endpoint: Endpoint) -> str:
    return reverse("admin:endpoints_endpoint_purge", args=[endpoint.pk])


def test_the_button_removes_the_results_and_makes_no_version(admin_client: Client, endpoint: Endpoint) -> None:
    response = admin_client.post(purge(endpoint), follow=True)
    assert "2 cached results removed" in response.content.decode()
    assert live_entries(endpoint.pk.hex) == 0
    assert Endpoint.objects.get(pk=endpoint.pk).version == endpoint.version


def test_a_link_alone_removes_nothing(admin_client: Client, endpoint: Endpoint) -> None:
    assert admin_client.get(purge(endpoint)).status_code == 405
    assert live_entries(endpoint.pk.hex) == 2


def test_the_button_needs_the_csrf_token(admin_user: User, endpoint: Endpoint) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    assert client.post(purge(endpoint)).status_code == 403


def test_who_may_only_look_may_not_remove(endpoint: Endpoint) -> None:
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_endpoint"))
    client = Client()
    client.force_login(viewer)
    assert client.post(purge(endpoint)).status_code == 403
    assert live_entries(endpoint.pk.hex) == 2


def test_the_action_removes_the_results_of_the_chosen(admin_client: Client, endpoint: Endpoint) -> None:
    data = {"action": "purge", "_selected_action": [str(endpoint.pk)]}
    response = admin_client.post(reverse("admin:endpoints_endpoint_changelist"), data, follow=True)
    assert "test.cached: 2 cached results removed" in response.content.decode()
