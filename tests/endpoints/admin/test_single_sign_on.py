"""Logging in to the admin through a real provider of OpenID Connect: roles, refusals, and what gets nobody in."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.test import Client

from config.setting_values import read_roles
from endpoints.access import identity_provider
from endpoints.access.logins import PASSWORD_TURNS
from endpoints.models import Identity
from tests.live.identity_provider import CLIENT_ID, CLIENT_SECRET, SETTINGS, IdentityProvider
from tests.live.installation import free_port

pytestmark = pytest.mark.django_db
BEGIN, CALLBACK, LOGIN = "/admin/sso/", "/admin/sso/callback/", "/admin/login/"
PHRASE = "a pass phrase"


@pytest.fixture(scope="module")
def running_provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as provider:
        yield provider


@pytest.fixture
def provider(running_provider: IdentityProvider, settings: Any) -> Iterator[IdentityProvider]:
    """The provider with Anna, an editor, and the settings that name it."""
    for name, value in running_provider.environment.items():
        setattr(settings, name, value)
    settings.OIDC_ROLES = read_roles(SETTINGS["OIDC_ROLES"], setting="OIDC_ROLES")
    settings.ROOT_URLCONF = "tests.endpoints.admin.sso_addresses"
    settings.AUTHENTICATION_BACKENDS = [
        "axes.backends.AxesStandaloneBackend",
        "endpoints.access.single_sign_on.PasswordBackend",
        "endpoints.access.single_sign_on.SingleSignOnBackend",
    ]
    running_provider.change_answers()
    running_provider.add("anna-1", groups=["staff", "log-editors"], preferred_username="anna", given_name="Anna")
    yield running_provider
    running_provider.change_answers()
    identity_provider.PROVIDER.__init__()  # type: ignore[misc]  # forgets what it has been told


def begin(client: Client, *, next_page: str | None = None) -> str:
    """Click on "Log in with …"; return where that leads."""
    answer = client.get(BEGIN + (f"?{urlencode({'next': next_page})}" if next_page else ""))
    assert answer.status_code == 302
    return str(answer["Location"])


def come_back(client: Client, address: str) -> Any:
    """Follow the provider's redirect."""
    parts = urlsplit(address)
    assert (parts.netloc, parts.path) == ("testserver", CALLBACK)
    return client.get(f"{parts.path}?{parts.query}")


def log_in(client: Client, provider: IdentityProvider, subject: str = "anna-1", **options: Any) -> Any:
    return come_back(client, provider.log_in(begin(client, **options), subject))


def is_in(client: Client) -> bool:
    return bool(client.get("/admin/").status_code == 200)


def person(subject: str = "anna-1") -> User:
    return Identity.objects.get(subject=subject).user


def role(subject: str = "anna-1") -> tuple[bool, bool, list[str]]:
    found = person(subject)
    return found.is_staff, found.is_superuser, list(found.groups.values_list("name", flat=True))


class TestLogin:
    def test_somebody_new_comes_in_with_the_role_of_a_group(self, client: Client, provider: IdentityProvider) -> None:
        answer = log_in(client, provider)
        assert (answer.status_code, answer["Location"]) == (302, "/admin/")
        assert is_in(client)
        assert role() == (True, False, ["editor"])
        assert (person().username, person().first_name) == ("anna", "Anna")
        assert not person().has_usable_password()
