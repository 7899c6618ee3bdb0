"""Persons and roles by the claims of a provider; the walk through a provider is in admin/test_single_sign_on.py."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client

from endpoints.access.single_sign_on import AccountInactive, NoRole, groups_of, person_of, role_of
from endpoints.models import Identity

ISSUER = "https://login.example.org/realms/main"


@pytest.fixture(autouse=True)
def mapped(settings: Any) -> None:
    settings.OIDC_ISSUER = ISSUER
    settings.OIDC_ROLES = {"all": "viewer", "ops": "owner", "root": "superuser"}


@pytest.mark.parametrize(
    ("claims", "name", "groups"),
    [
        ({"groups": ["a", "b"]}, "groups", ("a", "b")),
        ({"hd": "example.org"}, "hd", ("example.org",)),
        ({"realm_access": {"roles": ["a"]}}, "realm_access.roles", ("a",)),
        ({"https://example.org/groups": ["a"]}, "https://example.org/groups", ("a",)),
        ({"a.b": ["flat"], "a": {"b": ["deep"]}}, "a.b", ("flat",)),
        ({"groups": ["a", 1, None, ["ops"], {"ops": 1}]}, "groups", ("a",)),
        ({"groups": []}, "groups", ()),
        ({"groups": {"ops": True}}, "groups", ()),
        ({"groups": None}, "groups", None),
        ({}, "groups", None),
        ({"realm_access": "x"}, "realm_access.roles", None),
        ({"_claim_names": {"groups": "src1"}}, "groups", None),  # Entra ID, when there are too many
    ],
)
def test_groups_are_texts_in_a_claim(claims: Mapping[str, Any], name: str, groups: tuple[str, ...] | None) -> None:
    assert groups_of(claims, name) == groups


@pytest.mark.parametrize(
    ("groups", "role"),
    [(["all"], "viewer"), (["all", "root", "ops"], "superuser"), (["ALL", "all ", "owner"], None), ([], None)],
)
def test_a_group_is_compared_to_the_letter(groups: list[str], role: str | None) -> None:
    assert role_of(groups) == role


@pytest.mark.django_db
def test_rights_of_ones_own_are_taken_away_too() -> None:
    person = person_of({"sub": "anna", "groups": ["all"]})
    person.user_permissions.add(Permission.objects.get(codename="add_endpoint"))
    assert not person_of({"sub": "anna", "groups": ["all"]}).has_perm("endpoints.add_endpoint")


@pytest.mark.django_db
def test_who_has_no_mapped_group_any_more_loses_the_role_of_before() -> None:
    person = person_of({"sub": "anna", "groups": ["ops"]})
    assert person.groups.get().name == "owner"
    with pytest.raises(NoRole):
        person_of({"sub": "anna", "groups": ["another"]})
    person.refresh_from_db()
    assert (person.is_staff, person.groups.count()) == (False, 0)


@pytest.mark.django_db
def test_who_is_inactive_stays_out() -> None:
    person = person_of({"sub": "anna", "groups": ["all"]})
    person.is_active = False
    person.save(update_fields=["is_active"])
    with pytest.raises(AccountInactive):
        person_of({"sub": "anna", "groups": ["all"]})


@pytest.mark.django_db
def test_the_page_of_a_person_says_how_they_log_in(admin_client: Client) -> None:
    person = person_of({"sub": "anna", "groups": ["all"]})
    page = admin_client.get(f"/admin/auth/user/{person.pk}/change/").content.decode()
    assert f"anna of {ISSUER}" in page
    person.identity.delete()
    assert "Single sign-on" not in admin_client.get(f"/admin/auth/user/{person.pk}/change/").content.decode()


@pytest.mark.django_db
def test_a_person_who_is_deleted_is_somebody_new_at_the_next_login(admin_client: Client) -> None:
    person = person_of({"sub": "anna", "groups": ["all"]})
    assert admin_client.post(f"/admin/auth/user/{person.pk}/delete/", {"post": "yes"}).status_code == 302
    assert person_of({"sub": "anna", "groups": ["all"]}).pk != person.pk


def test_two_first_logins_at_once_make_one_person_and_two_people_of_a_name_two(committed: None) -> None:
    def log_in(number: int) -> int:
        try:
            claims = {"sub": f"many-{number % 2}", "groups": ["all"], "preferred_username": "many"}
            return person_of(claims).pk
        finally:
            connection.close()

    try:
        with ThreadPoolExecutor(6) as pool:
            made = [future.result(timeout=60) for future in [pool.submit(log_in, number) for number in range(12)]]
        assert len(set(made)) == Identity.objects.filter(subject__startswith="many-").count() == 2
        names = User.objects.filter(pk__in=made).values_list("username", flat=True)
        assert {name.partition("-")[0] for name in names} == {"many"}
    finally:
        User.objects.filter(username__startswith="many").delete()
