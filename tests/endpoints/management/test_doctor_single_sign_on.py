"""What `doctor` says about single sign-on; the rest of it is in tests/faults/test_doctor.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from endpoints.management.commands.doctor import _single_sign_on
from tests.live.identity_provider import IdentityProvider
from tests.live.installation import free_port

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as provider:
        yield provider


def said() -> list[tuple[str, str]]:
    return [(str(finding.mark), finding.told) for finding in _single_sign_on()]


def test_nothing_without_an_issuer() -> None:
    assert said() == []


def test_a_provider_that_responds(provider: IdentityProvider, settings: Any) -> None:
    settings.OIDC_ISSUER, settings.OIDC_NAME = provider.issuer, "Example Login"
    assert said() == [("ok", "Example Login responds, with 4 keys.")]


def test_a_provider_that_is_gone(settings: Any) -> None:
    settings.OIDC_ISSUER = f"http://127.0.0.1:{free_port()}"
    ((mark, told),) = said()
    assert mark == "FAIL"
    assert ".well-known/openid-configuration: ConnectionError" in told


def test_nobody_could_log_in_without_the_provider(provider: IdentityProvider, settings: Any) -> None:
    settings.OIDC_ISSUER, settings.OIDC_ONLY = provider.issuer, True
    User.objects.create_superuser("without a password")
    assert [mark for mark, _ in said()] == ["ok", "warn"]
    User.objects.create_superuser("boss", password="a pass phrase")
    assert [mark for mark, _ in said()] == ["ok"]
