"""Roles: three groups with exactly their permissions, made and put back as often as one likes."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import ValidationError

from endpoints.access.admin_roles import EDITOR, OWNER, ROLES, VIEWER, keep_roles

pytestmark = pytest.mark.django_db


def labels(role: str) -> set[str]:
    permissions = Group.objects.get(name=role).permissions.select_related("content_type")
    return {f"{one.content_type.app_label}.{one.codename}" for one in permissions}


def test_the_shipped_fixtures_have_made_them() -> None:
    assert {role: labels(role) for role in ROLES} == ROLES


def test_each_role_may_do_what_the_one_before_may() -> None:
    assert VIEWER < EDITOR < OWNER


def test_making_them_again_changes_nothing() -> None:
    assert keep_roles() == []


def test_a_missing_group_is_made_again() -> None:
    Group.objects.get(name="editor").delete()
    assert [str(change) for change in keep_roles()] == ["role editor: created"]
    assert labels("editor") == EDITOR


def test_permissions_are_put_back_and_members_stay() -> None:
    group = Group.objects.get(name="viewer")
    person = User.objects.create_user("person")
    person.groups.add(group)
    group.permissions.set([Permission.objects.get(codename="delete_user")])
    assert [str(change) for change in keep_roles()] == ["role viewer: permissions restored"]
    assert labels("viewer") == VIEWER
    assert list(group.user_set.all()) == [person]


def test_a_group_of_ones_own_stays_as_it_is() -> None:
    own = Group.objects.create(name="own")
    own.permissions.set([Permission.objects.get(codename="view_endpoint")])
    keep_roles()
    assert labels("own") == {"endpoints.view_endpoint"}


def test_a_permission_that_is_not_there_is_named() -> None:
    Permission.objects.get(codename="run_draft").delete()
    with pytest.raises(ValidationError, match=r"endpoints.run_draft: run `manage.py migrate` first"):
        keep_roles()
