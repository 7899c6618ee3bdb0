"""What a role may do works, what it may not changes nothing; `test_addresses` asks every address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import Group, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from endpoints.access.access_tokens import issue_access_token
from endpoints.defining.endpoint_files import write_endpoint_file
from endpoints.defining.saving import save_endpoint
from endpoints.definition import Definition
from endpoints.models import AccessToken, Endpoint
from logsources.models import LogSource

pytestmark = pytest.mark.django_db
ROLES = ("viewer", "editor", "owner")


class World(NamedTuple):
    """What the addresses below are made of."""

    endpoint: Endpoint
    token: AccessToken
    source: LogSource
    superuser: User
    fields: Callable[..., dict[str, str]]


@pytest.fixture
def world(db: None, admin_user: User, fields: Any) -> World:
    endpoint = save_endpoint(Endpoint(name="test.endpoint", sql="SELECT 1 AS one", cache_seconds=60), [])
    endpoint.sql = "SELECT 2 AS two"
    token = issue_access_token(name="test token", bound_arguments={"project": "secret-customer"}).access_token
    return World(save_endpoint(endpoint, []), token, LogSource.objects.get(name="edge_logs"), admin_user, fields)


def member(role: str) -> Client:
    person = User.objects.create_user(f"test-{role}", is_staff=True)
    person.groups.add(Group.objects.get(name=role))
    client = Client()
    client.force_login(person)
    return client


def endpoint_page(page: str) -> Callable[[World], str]:
    return lambda world: reverse(f"admin:endpoints_endpoint_{page}", args=[world.endpoint.pk])


def version_page(page: str) -> Callable[[World], str]:
    return lambda world: reverse(
        f"admin:endpoints_endpoint_{page}", args=[world.endpoint.pk, world.endpoint.history.get(version=1).pk]
    )


def token_page(page: str) -> Callable[[World], str]:
    return lambda world: reverse(f"admin:endpoints_accesstoken_{page}", args=[world.token.pk])


def source_page(page: str) -> Callable[[World], str]:
    return lambda world: reverse(f"admin:logsources_logsource_{page}", args=[world.source.pk])


def fixed(name: str) -> Callable[[World], str]:
    return lambda _: reverse(f"admin:{name}")


def uploaded(_: World) -> dict[str, Any]:
    text = write_endpoint_file(Definition(name="test.uploaded", sql="SELECT 1 AS one"))
    return {"files": [SimpleUploadedFile("a.sql", text.encode())]}


def nothing(_: World) -> dict[str, Any]:
    return {}


def chosen_endpoint(action: str) -> Callable[[World], dict[str, Any]]:
    return lambda world: {"action": action, "_selected_action": [str(world.endpoint.pk)]}


DOING = [
    # A change of the shown version: 302 to the list where it is saved.
    (endpoint_page("change"), lambda world: world.fields(name="test.endpoint"), (403, 302, 302)),
    (fixed("endpoints_endpoint_add"), lambda world: world.fields(name="test.new"), (403, 302, 302)),
    (endpoint_page("purge"), nothing, (403, 302, 302)),
    (version_page("restore"), nothing, (403, 302, 302)),
    (fixed("endpoints_endpoint_import_files"), uploaded, (403, 200, 200)),
    (endpoint_page("delete"), lambda _: {"post": "yes"}, (403, 403, 302)),
    (fixed("endpoints_accesstoken_add"), lambda _: {"name": "n", "every_endpoint": "on"}, (403, 403, 302)),
    (token_page("change"), lambda _: {"name": "n", "every_endpoint": "on"}, (403, 403, 302)),
    (token_page("delete"), lambda _: {"post": "yes"}, (403, 403, 302)),
    (source_page("delete"), nothing, (403, 403, 200)),
    (fixed("auth_user_add"), nothing, (403, 403, 200)),
    (fixed("django_celery_beat_intervalschedule_add"), nothing, (403, 403, 200)),
    (version_page("simple_history"), nothing, (403, 403, 403)),
]


@pytest.mark.parametrize(("address", "data", "expected"), DOING)
def test_does_what_a_role_may(
    world: World,
    address: Callable[[World], str],
    data: Callable[[World], dict[str, Any]],
    expected: tuple[int, int, int],
) -> None:
    for role, status in zip(ROLES, expected, strict=True):
        if status == 403:
            assert member(role).post(address(world), data(world)).status_code == 403, role
    # Of those who may one is enough for what can be done only once.
    allowed = [role for role, status in zip(ROLES, expected, strict=True) if status != 403]
    for role in allowed[-1:]:
        assert member(role).post(address(world), data(world)).status_code == max(expected[ROLES.index(role)], 0), role


@pytest.mark.parametrize(("address", "data", "expected"), [row for row in DOING if row[2][1] != 403])
def test_does_what_an_editor_may(
    world: World,
    address: Callable[[World], str],
    data: Callable[[World], dict[str, Any]],
    expected: tuple[int, int, int],
) -> None:
    assert member("editor").post(address(world), data(world)).status_code == expected[1]


@pytest.mark.parametrize("word", ["check", "run", "explain", "cancel"])
def test_drafts_are_for_those_who_may_run_them(world: World, word: str) -> None:
    address = reverse(f"admin:endpoints_endpoint_draft_{word}")
    body = {"draft": {"sql": "SELECT 1 AS one"}, "run_id": "12345678"}
    statuses = {role: member(role).post(address, body, content_type="application/json").status_code for role in ROLES}
    assert statuses["viewer"] == 403
    assert 403 not in (statuses["editor"], statuses["owner"])


@pytest.mark.parametrize("action", ["purge", "export_chosen", "delete_selected"])
def test_a_viewers_action_is_not_run(world: World, action: str) -> None:
    response = member("viewer").post(reverse("admin:endpoints_endpoint_changelist"), chosen_endpoint(action)(world))
    assert response.status_code == 200  # Django shows the list again: for them it has no actions
    assert "Content-Disposition" not in response
    assert Endpoint.objects.filter(pk=world.endpoint.pk).exists()


@pytest.mark.parametrize("role", ["viewer", "editor"])
def test_an_access_token_is_revoked_by_owners_alone(world: World, role: str) -> None:
    data = {"action": "revoke", "_selected_action": [str(world.token.pk)], "confirmed": "yes"}
    member(role).post(reverse("admin:endpoints_accesstoken_changelist"), data)
    assert AccessToken.objects.get(pk=world.token.pk).is_valid
    member("owner").post(reverse("admin:endpoints_accesstoken_changelist"), data)
    assert not AccessToken.objects.get(pk=world.token.pk).is_valid


ABSENT = [
    ("viewer", fixed("endpoints_endpoint_changelist"), ['value="export_chosen"', 'value="purge"']),
    ("viewer", fixed("endpoints_accesstoken_changelist"), ['value="revoke"', "secret-customer"]),
    ("viewer", token_page("change"), ["secret-customer"]),
    ("editor", fixed("endpoints_accesstoken_changelist"), ['value="revoke"', "secret-customer"]),
    ("editor", token_page("change"), ["secret-customer"]),
    ("editor", fixed("endpoints_endpoint_changelist"), ['value="delete_selected"']),
]


@pytest.mark.parametrize(("role", "address", "absent"), ABSENT)
def test_actions_and_bound_values_are_for_those_who_may(
    world: World, role: str, address: Callable[[World], str], absent: list[str]
) -> None:
    page = member(role).get(address(world)).content.decode()
    assert [mark for mark in absent if mark in page] == []
    whole = member("owner").get(address(world)).content.decode()
    assert [mark for mark in absent if mark not in whole] == []


def test_a_viewer_reads_the_sql_as_it_is_written(world: World) -> None:
    world.endpoint.sql = "SELECT 1\n  AS one"
    save_endpoint(world.endpoint, [])
    assert ">SELECT 1\n  AS one</pre>" in member("viewer").get(endpoint_page("change")(world)).content.decode()


def test_an_owner_makes_no_superuser_and_changes_none(world: World) -> None:
    client = member("owner")
    superuser = reverse("admin:auth_user_change", args=[world.superuser.pk])
    assert b'name="_save"' not in client.get(superuser).content
    assert client.post(superuser, {"username": "mine"}).status_code == 403
    password = reverse("admin:auth_user_password_change", args=[world.superuser.pk])
    new = {"password1": "a new pass phrase", "password2": "a new pass phrase"}
    assert client.post(password, new).status_code == 403
    assert client.post(reverse("admin:auth_user_delete", args=[world.superuser.pk]), {"post": "yes"}).status_code == 403
    own = User.objects.get(username="test-owner")
    page = client.get(reverse("admin:auth_user_change", args=[own.pk])).content.decode()
    assert 'name="_save"' in page
    assert 'name="is_superuser"' not in page
    data = {
        "username": own.username, "is_staff": "on", "is_active": "on", "is_superuser": "on",
        "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00", "groups": [own.groups.get().pk],
    }  # fmt: skip
    assert client.post(reverse("admin:auth_user_change", args=[own.pk]), data).status_code == 302
    own.refresh_from_db()
    assert not own.is_superuser


def test_a_superuser_makes_superusers(admin_client: Client) -> None:
    other = User.objects.create_user("other")
    page = admin_client.get(reverse("admin:auth_user_change", args=[other.pk])).content.decode()
    assert 'name="is_superuser"' in page
