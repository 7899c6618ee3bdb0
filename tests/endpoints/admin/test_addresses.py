"""Every address of the admin, asked by every role: refused or not as its table says; and no page offers a refusal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.test import Client
from django.urls import resolve
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    SolarSchedule,
)

from endpoints.access.access_tokens import issue_access_token
from endpoints.alerting.messages import give_secret
from endpoints.defining.saving import save_endpoint
from endpoints.models import Alert, Endpoint
from logsources.models import LogSource
from tests.endpoints.admin.addresses import MODELS, ROLES, RULES, Pattern, address_of, admin_patterns

pytestmark = pytest.mark.django_db
REFUSED = {401, 403, 405}
METHODS = ("get", "post")
LOGIN = "/admin/login/"


@pytest.fixture
def rows(db: None) -> Mapping[str, tuple[Any, ...]]:
    """The key of a row of each model and, where there is one, of an entry of its history."""
    endpoint = save_endpoint(Endpoint(name="test.endpoint", sql="SELECT 1 AS one", cache_seconds=60), [])
    endpoint.sql = "SELECT 2 AS two"
    endpoint = save_endpoint(endpoint, [])
    token = issue_access_token(name="test token").access_token
    interval = IntervalSchedule.objects.create(every=1, period="days")
    found: dict[str, tuple[Any, ...]] = {
        "endpoints_endpoint": (endpoint.pk, endpoint.history.get(version=1).pk),
        "endpoints_accesstoken": (token.pk, token.history.get().pk),
        "endpoints_alert": (_alert().pk,),
        "logsources_logsource": (LogSource.objects.get(name="edge_logs").pk,),
        "auth_user": (User.objects.create_user("somebody").pk,),
        "auth_group": (Group.objects.create(name="some").pk,),
        "axes_accessattempt": (_failed_login().pk,),
        "django_celery_beat_periodictask": (PeriodicTask.objects.create(name="a", task="b", interval=interval).pk,),
        "django_celery_beat_intervalschedule": (interval.pk,),
        "django_celery_beat_crontabschedule": (CrontabSchedule.objects.create().pk,),
        "django_celery_beat_clockedschedule": (ClockedSchedule.objects.create(clocked_time="2030-01-01T00:00Z").pk,),
        "django_celery_beat_solarschedule": (
            SolarSchedule.objects.create(event="sunrise", latitude=1, longitude=1).pk,
        ),
    }
    assert found.keys() == MODELS.keys()
    return found


def _alert() -> Alert:
    alert = Alert(name="test alert", threshold=1, webhook_url="https://127.0.0.1/refused")
    give_secret(alert)
    alert.save()
    return alert


def _failed_login() -> AccessAttempt:
    found, _ = AccessAttempt.objects.get_or_create(
        username="somebody", ip_address="192.0.2.1", defaults={"failures_since_start": 1}
    )
    return found


def person(role: str) -> User:
    one, _ = User.objects.get_or_create(username=f"test-{role}", defaults={"is_staff": True})
    one.groups.set([Group.objects.get(name=role)])
    return one


class Visitor:
    """Somebody who asks; what a request saves is undone, so that the next one finds everything as it was."""

    def __init__(self, user: User | None) -> None:
        self._client = Client(raise_request_exception=False)
        if user is not None:
            self._client.force_login(user)
        self._cookies = deepcopy(self._client.cookies)

    def ask(self, method: str, address: str) -> Any:
        with transaction.atomic():
            answer = getattr(self._client, method)(address)
            transaction.set_rollback(True)
        self._client.cookies = deepcopy(self._cookies)  # it may have logged out
        return answer


def addresses(rows: Mapping[str, tuple[Any, ...]]) -> list[tuple[Pattern, str]]:
    return [(pattern, address_of(pattern, rows)) for pattern in admin_patterns()]


def test_every_address_is_classified() -> None:
    assert sorted({pattern.key for pattern in admin_patterns()}) == sorted(RULES)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_refused_what_is_not_for_it(rows: Mapping[str, tuple[Any, ...]], role: str, method: str) -> None:
    visitor = Visitor(person(role))
    answers = {pattern.key: visitor.ask(method, address).status_code for pattern, address in addresses(rows)}
    assert [f"{key}: {status}" for key, status in answers.items() if status >= 500] == []
    expected = {key: role in getattr(access, method) for key, access in RULES.items()}
    assert {key: status not in REFUSED for key, status in answers.items()} == expected


@pytest.mark.parametrize("method", METHODS)
def test_nobody_gets_in_without_logging_in(rows: Mapping[str, tuple[Any, ...]], method: str) -> None:
    outsiders = [None, User.objects.create_user("no staff")]
    for visitor in map(Visitor, outsiders):
        for pattern, address in addresses(rows):
            if pattern.key in ("admin:login", "admin:logout"):
                continue
            answer = visitor.ask(method, address)
            to_login = answer.status_code == 302 and answer["Location"].startswith(LOGIN)
            assert to_login or answer.status_code in REFUSED, f"{method} {address}: {answer.status_code}"


@pytest.mark.parametrize("role", ROLES)
def test_no_page_offers_what_is_refused(rows: Mapping[str, tuple[Any, ...]], role: str) -> None:
    """Neither a link nor a form nor an address for a script: what would be refused is not there."""
    visitor = Visitor(person(role))
    found = addresses(rows)
    forbidden = [address for pattern, address in found if role not in RULES[pattern.key].get + RULES[pattern.key].post]
    marks = re.compile("|".join(f"{re.escape(address)}(?=[\"'?#&<\\s\\\\])" for address in forbidden))
    offered: list[str] = []
    for pattern, address in found:
        if role not in RULES[pattern.key].get:
            continue
        answer = visitor.ask("get", address)
        if answer.status_code != 200 or not answer["Content-Type"].startswith("text/html"):
            continue
        page = answer.content.decode()
        offered += [f"{address}: {mark}" for mark in set(marks.findall(page)) if forbidden]
        offered += [f"{address}: form to {target}" for target in _targets(page) if not _may_post(role, target)]
    assert offered == []


def _targets(page: str) -> set[str]:
    """Return where the forms and buttons of a page lead."""
    return {found.split("?")[0] for found in re.findall(r'\b(?:form)?action="(/admin/[^"]*)"', page)}


def _may_post(role: str, target: str) -> bool:
    return role in RULES[resolve(target).view_name].post


@pytest.mark.parametrize("role", ROLES)
def test_buttons_to_save_are_for_those_who_may(rows: Mapping[str, tuple[Any, ...]], role: str) -> None:
    visitor = Visitor(person(role))
    for model, rules in MODELS.items():
        if role not in rules.view:
            continue
        page = visitor.ask("get", address_of(_pattern(f"admin:{model}_change"), rows)).content.decode()
        assert ('name="_save"' in page) == (role in rules.change), model


def _pattern(key: str) -> Pattern:
    return next(pattern for pattern in admin_patterns() if pattern.key == key)
