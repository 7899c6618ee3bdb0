"""Signing keys in the admin: made, rotated and revoked after a question; no page has a secret."""

from __future__ import annotations

import base64
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from endpoints.access import signing_keys
from endpoints.access.access_tokens import authenticate_access_token, issue_access_token
from endpoints.access.signing_keys import create_signing_key, rotate_signing_key, sign
from endpoints.admin.signing_keys import state_of
from endpoints.models import AccessToken, SigningKey

pytestmark = pytest.mark.django_db
LIST = "/admin/endpoints/signingkey/"
ADD = f"{LIST}add/"
APP = "https://app.example.org"


def form(**fields: str) -> dict[str, str]:
    return {"name": "dashboard", "algorithm": "EdDSA", "allowed_origins": APP, **fields}


def page_of(key: SigningKey, page: str = "change") -> str:
    return reverse(f"admin:endpoints_signingkey_{page}", args=[key.pk])


def text(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return str(answer.content.decode())


@pytest.mark.parametrize("algorithm", ["HS256", "EdDSA"])
def test_a_key_is_made_and_signs(admin_client: Client, algorithm: str) -> None:
    answer = admin_client.post(ADD, form(algorithm=algorithm, allowed_origins=f"{APP}\n\nhttp://127.0.0.1:8080\n"))
    assert answer.status_code == 302
    key = SigningKey.objects.get()
    assert (key.name, key.algorithm, key.allowed_origins) == ("dashboard", algorithm, [APP, "http://127.0.0.1:8080"])
    assert sign(key, {"a": 1}).count(".") == 2


@pytest.mark.parametrize("algorithm", ["HS256", "EdDSA"])
def test_no_page_has_its_secret(admin_client: Client, algorithm: str) -> None:
    key = create_signing_key(name="dashboard", algorithm=algorithm, allowed_origins=[APP])
    secret, sealed = signing_keys._unseal(key), bytes(key.sealed_secret)
    hidden = {form(value) for value in (secret, sealed) for form in (bytes.hex, _base64, _base64url, repr)}
    entry = reverse("admin:endpoints_signingkey_simple_history", args=[key.pk, key.history.get().pk])
    pages = [LIST, ADD, entry, *(page_of(key, page) for page in ("change", "history", "rotate_this", "revoke_this"))]
    for address in pages:
        shown = text(admin_client, address)
        assert not [one for one in hidden if one in shown], address


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode().rstrip("=")


def _base64url(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def test_the_page_shows_the_public_key_and_changes_origins_alone(admin_client: Client) -> None:
    key = create_signing_key(name="dashboard", allowed_origins=[APP])
    page = text(admin_client, page_of(key))
    assert "BEGIN PUBLIC KEY" in page
    assert key.kid in page
    sent = form(name="other", algorithm="HS256", allowed_origins="https://new.example.org")
    assert admin_client.post(page_of(key), sent).status_code == 302
    key.refresh_from_db()
    assert (key.name, key.algorithm, key.allowed_origins) == ("dashboard", "EdDSA", ["https://new.example.org"])
    assert "allowed origins" in text(admin_client, page_of(key, "history"))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"allowed_origins": "*"}, "An origin is scheme, host"),
        ({"allowed_origins": f"{APP}/page"}, "An origin is scheme, host"),
        ({"name": "two words"}, "A name must start with a letter"),
        ({"algorithm": "none"}, "Select a valid choice"),
    ],
)
def test_a_mistake_is_said(admin_client: Client, fields: dict[str, str], said: str) -> None:
    answer = admin_client.post(ADD, form(**fields))
    assert answer.status_code == 200
    assert said in answer.content.decode()
    assert not SigningKey.objects.exists()


def test_a_second_current_key_of_a_name_is_refused(admin_client: Client) -> None:
    create_signing_key(name="dashboard")
    answer = admin_client.post(ADD, form())
    assert "There is a current key of this name" in answer.content.decode()
    assert SigningKey.objects.count() == 1


def test_rotating_asks_first(admin_client: Client) -> None:
    key = create_signing_key(name="dashboard", allowed_origins=[APP])
    button = page_of(key, "rotate_this")
    assert button in text(admin_client, page_of(key))
    assert "A new key with the same name signs from now on" in text(admin_client, button)
    assert SigningKey.objects.count() == 1
    answer = admin_client.post(button, follow=True)
    new = SigningKey.objects.exclude(pk=key.pk).get()
    assert f"has a new key, {new.kid}" in answer.content.decode()
    key.refresh_from_db()
    assert (state_of(key), state_of(new)) == ("retiring", "current")
    assert button not in text(admin_client, page_of(key))
    assert "retiring: signs nothing more" in text(admin_client, page_of(key))
    assert "Only a current key can be rotated" in admin_client.post(button, follow=True).content.decode()
    assert "rotation" in text(admin_client, page_of(key, "history"))


def test_revoking_asks_first(admin_client: Client) -> None:
    key = create_signing_key(name="dashboard")
    button = page_of(key, "revoke_this")
    assert "stops working at once and for good" in text(admin_client, button)
    key.refresh_from_db()
    assert state_of(key) == "current"
    for _ in range(2):
        assert "Revoked; calls with its tokens" in admin_client.post(button, follow=True).content.decode()
    key.refresh_from_db()
    assert state_of(key) == "revoked"
    assert key.history.count() == 2
    page = text(admin_client, page_of(key))
    assert button not in page
    assert page_of(key, "rotate_this") not in page


def test_a_retired_key_can_still_be_revoked(admin_client: Client) -> None:
    key = create_signing_key(name="dashboard")
    rotate_signing_key(key)
    assert page_of(key, "revoke_this") in text(admin_client, page_of(key))


def test_a_day_after_its_retirement_a_key_is_retired() -> None:
    assert state_of(SigningKey(retired_at=timezone.now() - timedelta(days=1))) == "retired"


def test_no_key_is_deleted(admin_client: Client) -> None:
    key = create_signing_key(name="dashboard")
    assert admin_client.post(page_of(key, "delete"), {"post": "yes"}).status_code == 403
    admin_client.post(LIST, {"action": "delete_selected", "_selected_action": [key.pk], "post": "yes"})
    assert SigningKey.objects.filter(pk=key.pk).exists()


def test_what_is_not_there_is_not_found(admin_client: Client) -> None:
    for page in ("rotate_this", "revoke_this"):
        address = reverse(f"admin:endpoints_signingkey_{page}", args=["1"])
        assert (admin_client.get(address).status_code, admin_client.post(address).status_code) == (404, 404)


@pytest.mark.parametrize("role", ["viewer", "editor"])
def test_only_owners_see_keys(client: Client, role: str) -> None:
    key = create_signing_key(name="dashboard")
    person = User.objects.create_user(role, is_staff=True)
    person.groups.add(Group.objects.get(name=role))
    client.force_login(person)
    for page in (LIST, ADD, page_of(key), page_of(key, "rotate_this"), page_of(key, "revoke_this")):
        assert client.get(page).status_code == 403
        assert client.post(page, form()).status_code == 403
    key.refresh_from_db()
    assert state_of(key) == "current"


def test_two_people_who_edit_a_key_do_not_overwrite_each_other(admin_client: Client) -> None:
    key = create_signing_key(name="dashboard")
    (opened,) = re.findall(r'name="opened_as" value="([0-9a-f]{64})"', text(admin_client, page_of(key)))
    sent = {**form(), "opened_as": opened}
    assert admin_client.post(page_of(key), sent).status_code == 302
    answer = admin_client.post(page_of(key), {**sent, "allowed_origins": ""})
    assert "since you opened this page" in answer.content.decode()


# --- The right to issue -----------------------------------------------------------------------------------------------
def token_form(**fields: Any) -> dict[str, Any]:
    return {"name": "backend", "every_endpoint": "on", "bound_arguments": "", "expires_at_0": "", "expires_at_1": "",
            **fields}  # fmt: skip


def test_the_right_to_issue_is_given_and_taken_in_the_admin(admin_client: Client) -> None:
    page = admin_client.post(
        "/admin/endpoints/accesstoken/add/", token_form(may_issue="on"), follow=True
    ).content.decode()
    assert "every endpoint and issue browser tokens\n" in page
    (secret,) = re.findall(r"lqe_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", page)
    assert authenticate_access_token(secret).may_issue
    token = AccessToken.objects.get()
    address = reverse("admin:endpoints_accesstoken_change", args=[token.pk])
    assert admin_client.post(address, token_form()).status_code == 302
    assert not authenticate_access_token(secret).may_issue
    assert "issuing" in text(admin_client, reverse("admin:endpoints_accesstoken_history", args=[token.pk]))


def test_an_access_token_may_not_issue_unless_it_is_said() -> None:
    assert not authenticate_access_token(issue_access_token(name="caller").secret).may_issue
