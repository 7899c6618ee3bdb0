"""Sessions of the admin: cookies out of reach of scripts and other sites, no frames, no request without its token."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from endpoints.models import Endpoint

pytestmark = pytest.mark.django_db
LOGIN = "/admin/login/"


@pytest.fixture
def person(db: None) -> User:
    return User.objects.create_superuser("person", password="a pass phrase")


def log_in(client: Client) -> None:
    assert client.post(LOGIN, {"username": "person", "password": "a pass phrase"}).status_code == 302


@pytest.mark.parametrize("logged_in", [False, True])
def test_pages_cannot_be_framed_or_sniffed(client: Client, person: User, logged_in: bool) -> None:
    if logged_in:
        log_in(client)
    response = client.get(reverse("admin:index") if logged_in else LOGIN)
    assert response["X-Frame-Options"] == "DENY"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Referrer-Policy"] == "same-origin"
    assert response["Cross-Origin-Opener-Policy"] == "same-origin"


def test_a_login_page_that_was_opened_by_itself_leads_to_the_dashboard(client: Client, person: User) -> None:
    response = client.post(LOGIN, {"username": "person", "password": "a pass phrase"})
    assert (response.status_code, response["Location"]) == (302, reverse("admin:index"))
    assert client.get(response["Location"]).status_code == 200


def test_pages_behind_the_login_are_not_kept(client: Client, person: User) -> None:
    log_in(client)
    control = client.get(reverse("admin:index"))["Cache-Control"]
    assert {"no-store", "private", "no-cache"} <= set(control.replace(" ", "").split(","))


@pytest.mark.parametrize("https_only", [True, False])
def test_the_session_cookie_is_for_this_site_alone(
    client: Client, person: User, settings: object, https_only: bool
) -> None:
    settings.SESSION_COOKIE_SECURE = https_only  # type: ignore[attr-defined]
    log_in(client)
    cookie = client.cookies["sessionid"]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"
    assert bool(cookie["secure"]) is https_only
    assert cookie["max-age"] == 12 * 60 * 60


def test_cookies_are_secure_wherever_https_is_spoken() -> None:
    assert settings.SESSION_COOKIE_SECURE == settings.CSRF_COOKIE_SECURE == settings.HTTPS_ONLY
    assert settings.SECURE_SSL_REDIRECT == settings.HTTPS_ONLY


def test_the_session_changes_its_key_at_login_and_ends_at_logout(client: Client, person: User) -> None:
    session = client.session
    session["before"] = "login"
    session.save()
    before = session.session_key
    log_in(client)
    key = client.session.session_key
    assert key != before
    assert client.get(reverse("admin:logout")).status_code == 405
    client.post(reverse("admin:logout"))
    client.cookies["sessionid"] = key
    assert client.get(reverse("admin:index")).status_code == 302


def is_logged_in(client: Client) -> bool:
    return bool(client.get(reverse("admin:index")).status_code == 200)


def test_a_new_password_ends_every_other_session(client: Client, person: User) -> None:
    elsewhere = Client()
    log_in(client)
    log_in(elsewhere)
    new = {"old_password": "a pass phrase", "new_password1": "another phrase", "new_password2": "another phrase"}
    assert client.post(reverse("admin:password_change"), new).status_code == 302
    assert (is_logged_in(client), is_logged_in(elsewhere)) == (True, False)


def test_a_password_that_an_owner_sets_ends_the_persons_sessions(client: Client, person: User) -> None:
    log_in(client)
    owner = Client()
    owner.force_login(User.objects.create_superuser("owner"))
    new = {"usable_password": "true", "password1": "another phrase", "password2": "another phrase"}
    assert owner.post(reverse("admin:auth_user_password_change", args=[person.pk]), new).status_code == 302
    assert (is_logged_in(client), is_logged_in(owner)) == (False, True)


@pytest.mark.parametrize("field", ["is_active", "is_staff"])
def test_who_may_no_longer_come_in_is_out_at_once(client: Client, person: User, field: str) -> None:
    log_in(client)
    User.objects.filter(pk=person.pk).update(**{field: False})
    assert not is_logged_in(client)


def test_a_role_that_is_taken_away_is_gone_with_the_next_request(client: Client, db: None) -> None:
    one = User.objects.create_user("one", is_staff=True)
    one.groups.add(Group.objects.get(name="editor"))
    client.force_login(one)
    assert client.get(reverse("admin:endpoints_endpoint_add")).status_code == 200
    one.groups.clear()
    assert client.get(reverse("admin:endpoints_endpoint_add")).status_code == 403


def addresses() -> list[str]:
    endpoint = Endpoint.objects.get(name="logs.all")
    record = endpoint.history.first()
    return [
        reverse("admin:endpoints_endpoint_add"),
        reverse("admin:endpoints_endpoint_import_files"),
        reverse("admin:endpoints_endpoint_purge", args=[endpoint.pk]),
        reverse("admin:endpoints_endpoint_restore", args=[endpoint.pk, record.pk]),
        reverse("admin:endpoints_endpoint_delete", args=[endpoint.pk]),
        reverse("admin:endpoints_accesstoken_changelist"),
        reverse("admin:endpoints_accesstoken_revoke_this", args=["1"]),
        *(reverse(f"log_explorer_{word}") for word in ("rows", "histogram", "filter", "cancel")),
        reverse("admin:logout"),
        *(reverse(f"admin:endpoints_endpoint_draft_{word}") for word in ("check", "run", "explain", "cancel")),
    ]


def test_nothing_is_taken_without_the_csrf_token(person: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(person)
    assert {address: client.post(address).status_code for address in addresses()} == dict.fromkeys(addresses(), 403)


def test_a_login_from_another_site_is_refused(person: User) -> None:
    client = Client(enforce_csrf_checks=True)
    assert client.post(LOGIN, {"username": "person", "password": "a pass phrase"}).status_code == 403
