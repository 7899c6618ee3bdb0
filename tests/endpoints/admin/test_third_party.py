"""People and their roles in the admin: added ready to log in, given roles, and no way from owner to superuser."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from endpoints.access.admin_roles import OWNER, VIEWER

pytestmark = pytest.mark.django_db
LIST = "/admin/auth/user/"
ADD = "/admin/auth/user/add/"
GROUPS = "/admin/auth/group/"
PHRASE = "a pass phrase"


@pytest.fixture
def owner(db: None) -> Client:
    one = User.objects.create_user("some-owner", is_staff=True)
    one.groups.add(Group.objects.get(name="owner"))
    client = Client()
    client.force_login(one)
    return client


def new_person(*roles: str) -> dict[str, Any]:
    keys = [Group.objects.get(name=role).pk for role in roles]
    words = {"username": "new", "usable_password": "true", "password1": PHRASE, "password2": PHRASE}
    return {**words, "groups": keys}


def test_whom_an_owner_adds_logs_in_with_the_role(owner: Client) -> None:
    assert owner.post(ADD, new_person("viewer")).status_code == 302
    person = User.objects.get(username="new")
    assert (person.is_staff, person.is_superuser) == (True, False)
    client = Client()
    assert client.post("/admin/login/", {"username": "new", "password": PHRASE}).status_code == 302
    assert person.get_all_permissions() == VIEWER
    assert client.get("/admin/endpoints/endpoint/").status_code == 200


@pytest.mark.parametrize("sent", ["is_superuser", "user_permissions"])
def test_an_owner_adds_no_superuser_and_gives_no_single_permissions(owner: Client, sent: str) -> None:
    value = "on" if sent == "is_superuser" else [Permission.objects.get(codename="add_logentry").pk]
    owner.post(ADD, {**new_person(), sent: value})
    person = User.objects.get(username="new")
    assert (person.is_superuser, person.get_all_permissions()) == (False, set())


def test_the_list_tells_the_roles(owner: Client) -> None:
    person = User.objects.create_user("both", is_staff=True)
    person.groups.set(Group.objects.filter(name__in=["viewer", "editor"]))
    page = owner.get(LIST).content.decode()
    assert "editor, viewer" in page


def test_the_page_leads_to_a_new_password(owner: Client) -> None:
    person = User.objects.create_user("one", is_staff=True)
    page = owner.get(reverse("admin:auth_user_change", args=[person.pk])).content.decode()
    assert "../password/" in page
    assert "Set another password" in page


def test_an_owner_deletes_no_superuser_among_others(owner: Client) -> None:
    chosen = [User.objects.create_superuser("root").pk, User.objects.create_user("other").pk]
    data = {"action": "delete_selected", "_selected_action": chosen, "post": "yes"}
    assert owner.post(LIST, data).status_code == 403
    assert User.objects.filter(pk__in=chosen).count() == 2


def test_a_group_is_given_what_roles_can_have_and_nothing_else(owner: Client) -> None:
    allowed = Permission.objects.get(codename="run_draft")
    data = {"name": "testers", "permissions": [allowed.pk]}
    assert owner.post(f"{GROUPS}add/", data).status_code == 302
    assert list(Group.objects.get(name="testers").permissions.all()) == [allowed]
    other = Permission.objects.get(codename="add_logentry")
    refused = owner.post(f"{GROUPS}add/", {"name": "more", "permissions": [other.pk]})
    assert "permissions" in refused.context["adminform"].form.errors
    offered = owner.get(f"{GROUPS}add/").content.decode()
    assert offered.count('name="permissions"') == len(OWNER)


def test_the_list_of_groups_tells_the_members(owner: Client) -> None:
    page = owner.get(GROUPS).content.decode()
    assert "some-owner" in page
    assert "nobody" in page


@pytest.mark.parametrize("action", ["enable_tasks", "disable_tasks", "toggle_tasks", "run_tasks"])
def test_who_may_only_look_at_tasks_neither_switches_nor_runs_them(client: Client, action: str) -> None:
    person = User.objects.create_user("looks", is_staff=True)
    person.user_permissions.add(Permission.objects.get(codename="view_periodictask"))
    client.force_login(person)
    interval = IntervalSchedule.objects.create(every=1, period="days")
    task = PeriodicTask.objects.create(name="a task", task="endpoints.tasks.none", interval=interval)
    address = "/admin/django_celery_beat/periodictask/"
    page = client.get(address).content.decode()
    assert "a task" in page
    assert action not in page
    client.post(address, {"action": action, "_selected_action": [task.pk]})
    task.refresh_from_db()
    assert task.enabled
