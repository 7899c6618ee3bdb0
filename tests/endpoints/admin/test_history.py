"""The versions of an endpoint in the admin: compared word by word, and put back by a button."""

from __future__ import annotations

import re

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter

pytestmark = pytest.mark.django_db


@pytest.fixture
def endpoint(db: None) -> Endpoint:
    saved = save_endpoint(
        Endpoint(name="test.endpoint", sql="SELECT @project AS project"), [DeclaredParameter("project")]
    )
    saved.sql, saved.max_rows = "SELECT @project AS owner", 7
    return save_endpoint(saved, [DeclaredParameter("project", required=True)])


def record(endpoint: Endpoint, version: int) -> int:
    return int(endpoint.history.get(version=version).pk)


def version_page(endpoint: Endpoint, version: int) -> str:
    return reverse("admin:endpoints_endpoint_simple_history", args=[endpoint.pk, record(endpoint, version)])


def restore(endpoint: Endpoint, version: int) -> str:
    return reverse("admin:endpoints_endpoint_restore", args=[endpoint.pk, record(endpoint, version)])


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page))


def test_the_list_says_what_each_version_changed(admin_client: Client, admin_user: User, endpoint: Endpoint) -> None:
    admin_client.post(restore(endpoint, 1))
    page = admin_client.get(reverse("admin:endpoints_endpoint_history", args=[endpoint.pk])).content.decode()
    assert page.index(">version 3<") < page.index(">version 2<") < page.index(">version 1<")
    assert "changed, restored from version 1" in page
    assert "SQL, parameters, result columns, max rows" in page
    assert str(admin_user) in page


def test_a_version_is_shown_beside_the_one_before(admin_client: Client, endpoint: Endpoint) -> None:
    page = admin_client.get(version_page(endpoint, 2)).content.decode()
    assert "From version 1 to version 2" in page
    assert "SELECT @project AS <del>project</del>" in page
    assert "SELECT @project AS <ins>owner</ins>" in page
    assert "<del>1000</del><ins>7</ins>" in page
    assert "text<ins>, required</ins>" in page
    assert "endpoints/differences.css" in page


def test_signs_tell_what_colours_tell(admin_client: Client, endpoint: Endpoint) -> None:
    text = text_of(admin_client.get(version_page(endpoint, 2)).content.decode())
    assert re.search(r"1 − SELECT @project AS project", text)
    assert re.search(r"1 \+ SELECT @project AS owner", text)


def test_an_older_version_is_shown_beside_the_newest(admin_client: Client, endpoint: Endpoint) -> None:
    page = admin_client.get(version_page(endpoint, 1), {"with": "newest"}).content.decode()
    assert "From version 1 to version 2, the latest" in page
    assert "<ins>owner</ins>" in page


def test_the_first_version_is_shown_whole(admin_client: Client, endpoint: Endpoint) -> None:
    page = admin_client.get(version_page(endpoint, 1)).content.decode()
    assert "The SQL of version 1" in page
    assert "<del>" not in page
    assert "SELECT @project AS project" in page


def test_a_version_that_changed_nothing_says_so(admin_client: Client, endpoint: Endpoint) -> None:
    save_endpoint(endpoint, [DeclaredParameter("project", required=True)])
    assert "Nothing differs." in admin_client.get(version_page(endpoint, 3)).content.decode()


def test_what_operators_wrote_is_text(admin_client: Client, endpoint: Endpoint) -> None:
    endpoint.sql = "SELECT '<script>alert(1)</script>' AS project, @project AS other"
    save_endpoint(endpoint, [])
    page = admin_client.get(version_page(endpoint, 3)).content.decode()
    assert "<script>alert" not in page
    assert "alert" in page


def test_the_button_restores_as_a_new_version(admin_client: Client, admin_user: User, endpoint: Endpoint) -> None:
    page = admin_client.get(version_page(endpoint, 1)).content.decode()
    assert f'action="{restore(endpoint, 1)}"' in page
    assert "Restore as version 3" in page
    response = admin_client.post(restore(endpoint, 1), follow=True)
    assert "Version 1 restored as version 3." in response.content.decode()
    saved = Endpoint.objects.get(pk=endpoint.pk)
    assert (saved.version, saved.sql, saved.max_rows) == (3, "SELECT @project AS project", 1000)
    assert saved.history.first().history_user == admin_user
    assert "Restored version 1 as version 3." in LogEntry.objects.get(object_id=str(saved.pk)).change_message


def test_the_newest_version_has_no_button_and_is_refused(admin_client: Client, endpoint: Endpoint) -> None:
    assert restore(endpoint, 2) not in admin_client.get(version_page(endpoint, 2)).content.decode()
    response = admin_client.post(restore(endpoint, 2), follow=True)
    assert "Version 2 was not restored. Version 2 is the latest already." in response.content.decode()
    assert Endpoint.objects.get(pk=endpoint.pk).version == 2


def test_a_version_that_no_longer_prepares_is_refused_with_the_reason(admin_client: Client, endpoint: Endpoint) -> None:
    endpoint.history.filter(version=1).update(sql="SELECT gone AS a FROM edge_logs", declared_parameters=[])
    response = admin_client.post(restore(endpoint, 1), follow=True)
    assert "Version 1 was not restored. Line 1, column 8: PostgreSQL: column" in response.content.decode()
    assert Endpoint.objects.get(pk=endpoint.pk).version == 2


def test_a_link_alone_restores_nothing(admin_client: Client, endpoint: Endpoint) -> None:
    assert admin_client.get(restore(endpoint, 1)).status_code == 405
    assert Endpoint.objects.get(pk=endpoint.pk).version == 2


def test_a_version_of_another_endpoint_is_not_found(admin_client: Client, endpoint: Endpoint) -> None:
    other = Endpoint.objects.get(name="logs.all")
    address = reverse("admin:endpoints_endpoint_restore", args=[other.pk, record(endpoint, 1)])
    assert admin_client.post(address).status_code == 404
    assert Endpoint.objects.get(pk=other.pk).version == other.version


def test_a_deleted_endpoint_keeps_its_pages_without_the_button(admin_client: Client, endpoint: Endpoint) -> None:
    address, button = version_page(endpoint, 1), restore(endpoint, 1)
    endpoint.delete()
    page = admin_client.get(address).content.decode()
    assert "The endpoint has been deleted." in page
    assert button not in page
    assert admin_client.post(button).status_code == 404


def test_any_two_versions_are_compared(admin_client: Client, endpoint: Endpoint) -> None:
    endpoint.sql = "SELECT @project AS third"
    save_endpoint(endpoint, [DeclaredParameter("project")])
    history = admin_client.get(reverse("admin:endpoints_endpoint_history", args=[endpoint.pk])).content.decode()
    address = reverse("admin:endpoints_endpoint_compare", args=[endpoint.pk])
    assert f'action="{address}"' in history
    assert re.findall(r'name="(\w+)" value="(\d)" checked', history) == [("to", "3"), ("from", "2")]
    page = admin_client.get(address, {"from": "1", "to": "3"}).content.decode()
    assert "From version 1 to version 3" in page
    assert "SELECT @project AS <del>project</del>" in page
    assert "SELECT @project AS <ins>third</ins>" in page
    assert "owner" not in text_of(page)
    backwards = admin_client.get(address, {"from": "3", "to": "1"}).content.decode()
    assert "SELECT @project AS <ins>project</ins>" in backwards
    assert "From version 2 to version 3" in admin_client.get(address).content.decode()
    assert "Nothing differs." in admin_client.get(address, {"from": "2", "to": "2"}).content.decode()


@pytest.mark.parametrize("number", ["0", "9", "-1", "one", "1; select 1", "9" * 30, "²"])
def test_a_version_that_does_not_exist_is_not_found(admin_client: Client, endpoint: Endpoint, number: str) -> None:
    address = reverse("admin:endpoints_endpoint_compare", args=[endpoint.pk])
    assert admin_client.get(address, {"from": number}).status_code == 404


def test_versions_of_a_deleted_endpoint_are_still_compared_and_of_none_not_found(
    admin_client: Client, endpoint: Endpoint
) -> None:
    address = reverse("admin:endpoints_endpoint_compare", args=[endpoint.pk])
    endpoint.delete()
    assert "From version 1 to version 2" in admin_client.get(address).content.decode()
    nothing = reverse("admin:endpoints_endpoint_compare", args=["00000000-0000-0000-0000-000000000000"])
    assert admin_client.get(nothing).status_code == 404


def test_who_may_not_see_endpoints_compares_no_versions(client: Client, endpoint: Endpoint) -> None:
    client.force_login(User.objects.create_user("nobody", password="x", is_staff=True))
    assert client.get(reverse("admin:endpoints_endpoint_compare", args=[endpoint.pk])).status_code == 403
