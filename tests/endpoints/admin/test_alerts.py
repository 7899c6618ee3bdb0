"""The admin's pages of alerts: made with a secret that is shown once, tested, changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils.html import escape

from endpoints.alerting.webhooks import signature
from endpoints.models import Alert
from tests.endpoints.alerting.receiver import Receiver, receiving

pytestmark = pytest.mark.django_db
LIST = "/admin/endpoints/alert/"
SECRET = re.compile(r"lqa_[A-Za-z0-9_-]{43}")


@pytest.fixture
def owner(db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("test-owner"))
    return client


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    settings.ALERT_WEBHOOK_PRIVATE = True
    with receiving() as one:
        yield one


def form(url: str, **fields: str) -> dict[str, str]:
    return {
        "name": "errors",
        "enabled": "on",
        "endpoint": "",
        "condition": "failed_share",
        "threshold": "5",
        "minutes": "5",
        "minimum_calls": "10",
        "column": "",
        "arguments": "{}",
        "webhook_url": url,
        "remind_minutes": "60",
        **fields,
    }


def secret_behind(owner: Client, answer: Any) -> str:
    """Follow the answer to a POST, as browsers do."""
    assert answer.status_code == 302
    assert SECRET.search(answer.content.decode()) is None
    found = SECRET.search(owner.get(answer["Location"]).content.decode())
    assert found
    return found[0]


def test_its_secret_is_shown_once_and_signs(owner: Client, receiver: Receiver) -> None:
    secret = secret_behind(owner, owner.post(f"{LIST}add/", form(receiver.url)))
    alert = Alert.objects.get()
    page = f"{LIST}{alert.pk}/change/"
    assert secret not in owner.get(page).content.decode()
    answer = owner.post(f"{LIST}{alert.pk}/test/", follow=True)
    assert "The webhook took the test message." in answer.content.decode()
    ((_, headers, body),) = receiver.received
    assert headers["X-Alert-Signature"] == signature(secret, int(headers["X-Alert-Timestamp"]), body)


def test_the_secret_stays_with_another_address_and_goes_with_a_new_one(owner: Client, receiver: Receiver) -> None:
    first = secret_behind(owner, owner.post(f"{LIST}add/", form(receiver.url)))
    alert = Alert.objects.get()
    owner.post(f"{LIST}{alert.pk}/change/", form(f"{receiver.url}&moved"))
    owner.post(f"{LIST}{alert.pk}/test/")
    second = secret_behind(owner, owner.post(f"{LIST}{alert.pk}/new-secret/"))
    owner.post(f"{LIST}{alert.pk}/test/")
    for secret, (path, headers, body) in zip((first, second), receiver.received, strict=True):
        assert path.endswith("&moved")
        assert headers["X-Alert-Signature"] == signature(secret, int(headers["X-Alert-Timestamp"]), body)


def test_reloading_the_page_of_a_secret_makes_nothing(owner: Client, receiver: Receiver) -> None:
    shown = owner.post(f"{LIST}add/", form(receiver.url))["Location"]
    assert SECRET.search(owner.get(shown).content.decode())
    sealed = Alert.objects.get().sealed_secret
    again = owner.get(shown).content.decode()
    assert "The secret was shown once" in again
    assert f"{LIST}{Alert.objects.get().pk}/new-secret/" in again
    assert SECRET.search(again) is None
    assert [alert.sealed_secret for alert in Alert.objects.all()] == [sealed]


def test_a_failed_test_says_why(owner: Client, receiver: Receiver) -> None:
    owner.post(f"{LIST}add/", form(receiver.url))
    receiver.status = 410
    answer = owner.post(f"{LIST}{Alert.objects.get().pk}/test/", follow=True)
    assert "it answered 410" in answer.content.decode()


@pytest.mark.parametrize("url", ["http://hooks.example.org/", "https://me:word@hooks.example.org/", "hooks"])
def test_refuses_an_address_with_the_reason(owner: Client, url: str, settings: Any) -> None:
    settings.ALERT_WEBHOOK_PRIVATE = False
    answer = owner.post(f"{LIST}add/", form(url))
    assert "The address must" in answer.content.decode()
    assert not Alert.objects.exists()


def test_a_change_leaves_the_state_to_the_worker(owner: Client, receiver: Receiver) -> None:
    owner.post(f"{LIST}add/", form(receiver.url))
    alert = Alert.objects.get()
    opened = owner.get(f"{LIST}{alert.pk}/change/").context["original"]
    Alert.objects.filter(pk=alert.pk).update(is_firing=True, told_firing=True, last_value=7.5)
    owner.post(f"{LIST}{alert.pk}/change/", form(receiver.url, threshold="9"))
    alert.refresh_from_db()
    assert (opened.is_firing, alert.is_firing, alert.told_firing, alert.threshold) == (False, True, True, 9.0)


def test_the_list_says_when_it_fires_in_words(owner: Client, receiver: Receiver) -> None:
    owner.post(f"{LIST}add/", form(receiver.url, name="a <b>"))
    page = owner.get(LIST).content.decode()
    assert "more than 5 % of calls failed in 5 min" in page
    assert escape("a <b>") in page
    assert "a <b>" not in page


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.1", "2130706433", "0x7f.0.0.1", "0.0.0.0", "10.1.2.3", "[::1]", "[::ffff:127.0.0.1]",
        "localhost", "LOCALHOST", "localhost.", "db.localhost",
    ],
)  # fmt: skip
def test_an_address_that_is_surely_private_is_an_error_of_the_form(owner: Client, settings: Any, host: str) -> None:
    settings.ALERT_WEBHOOK_PRIVATE = False
    answer = owner.post(f"{LIST}add/", form(f"https://{host}/hook"))
    assert answer.status_code == 200
    assert "ALERT_WEBHOOK_PRIVATE" in answer.context["adminform"].form.errors["webhook_url"][0]
    settings.ALERT_WEBHOOK_PRIVATE = True
    assert owner.post(f"{LIST}add/", form(f"https://{host}/hook")).status_code == 302


@pytest.mark.parametrize("host", ["8.8.8.8", "[2606:4700:4700::1111]", "hooks.example.org", "localhost.example.org"])
def test_a_public_address_and_a_name_are_taken(owner: Client, settings: Any, host: str) -> None:
    settings.ALERT_WEBHOOK_PRIVATE = False
    assert owner.post(f"{LIST}add/", form(f"https://{host}/hook")).status_code == 302
