"""Every page of the admin: answers, takes nothing from elsewhere, and lets nobody in but staff."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.contrib.staticfiles import finders
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django_celery_beat.models import ClockedSchedule, CrontabSchedule, IntervalSchedule, PeriodicTask, SolarSchedule

from endpoints.access.access_tokens import issue_access_token
from endpoints.models import AccessToken, Alert, Endpoint
from logsources.models import LogSource

pytestmark = pytest.mark.django_db


@pytest.fixture
def one_of_each(db: None, admin_user: User) -> dict[type[Model], Model]:
    """One row of every registered model."""
    interval = IntervalSchedule.objects.create(every=1, period="hours")
    made = [
        Endpoint.objects.get(name="logs.all"),
        issue_access_token(name="one", endpoint_names=["logs.all"], bound_arguments={"project": "a"}).access_token,
        Alert.objects.create(name="one", threshold=5, webhook_url="https://hooks.example.org/alerts"),
        LogSource.objects.get(name="edge_logs"),
        admin_user,
        Group.objects.create(name="operators"),
        interval,
        CrontabSchedule.objects.create(),
        ClockedSchedule.objects.create(clocked_time=timezone.now()),
        SolarSchedule.objects.create(event="sunset", latitude=1, longitude=1),
        PeriodicTask.objects.create(name="task", task="logsources.tasks.roll_partitions", interval=interval),
        AccessAttempt.objects.create(username="somebody", ip_address="192.0.2.1", failures_since_start=1),
    ]
    return {type(row): row for row in made}


def addresses(rows: dict[type[Model], Model]) -> list[str]:
    """The index, and list, search, add, change, history and delete page of every registered model."""
    found = [reverse("admin:index"), reverse("admin:password_change")]
    for model, model_admin in admin.site._registry.items():
        base = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        found.append(reverse(f"{base}_changelist"))
        if model is not AccessAttempt:  # made by failed logins alone
            found.append(reverse(f"{base}_add"))
        found += [reverse("admin:app_list", args=[model._meta.app_label])]
        if model_admin.search_fields:
            found.append(reverse(f"{base}_changelist") + "?q=x")
        found += [reverse(f"{base}_{page}", args=[rows[model].pk]) for page in ("change", "history", "delete")]
    for model in (Endpoint, AccessToken):
        version = rows[model].history.first().pk  # type: ignore[attr-defined]
        base = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        found.append(reverse(f"{base}_simple_history", args=[rows[model].pk, version]))
    return found


class Sources(HTMLParser):
    """Collects what a page makes the browser load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        loads = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "video": "src"}
        self.found += [value for name, value in attrs if value and loads.get(tag) == name]


def assert_local(page: str) -> None:
    """Check that everything a page loads is a static file that exists here."""
    for source in Sources(page).found:
        if source == reverse("admin:jsi18n"):
            continue
        assert source.startswith("/static/"), source
        assert finders.find(source.removeprefix("/static/").partition("?")[0]), source
    assert not re.search(r"@import|url\(\s*['\"]?(https?:)?//", page)


def test_the_registered_models_are_known(one_of_each: dict[type[Model], Model]) -> None:
    assert set(admin.site._registry) == set(one_of_each)


def test_every_page_answers_a_superuser_and_loads_nothing_from_elsewhere(
    admin_client: Client, one_of_each: dict[type[Model], Model]
) -> None:
    for address in addresses(one_of_each):
        response = admin_client.get(address)
        assert response.status_code == 200, address
        page = response.content.decode()
        assert_local(page)
        assert "unfold/css/styles.css" in page, address


def test_static_files_load_nothing_from_elsewhere(admin_client: Client, one_of_each: dict[type[Model], Model]) -> None:
    pages = [admin_client.get(address).content.decode() for address in addresses(one_of_each)]
    sheets = {source for page in pages for source in Sources(page).found if source.partition("?")[0].endswith(".css")}
    for sheet in sheets:
        path: Any = finders.find(sheet.removeprefix("/static/").partition("?")[0])
        with open(path, encoding="utf-8") as file:
            assert not re.search(r"@import\s+(url\()?['\"]?(https?:)?//|url\(\s*['\"]?(https?:)?//", file.read()), sheet


def test_the_login_page_loads_nothing_from_elsewhere(client: Client) -> None:
    assert_local(client.get(reverse("admin:login")).content.decode())


@pytest.mark.parametrize("staff", [None, False])
def test_nobody_but_staff_gets_in(client: Client, one_of_each: dict[type[Model], Model], staff: bool | None) -> None:
    if staff is not None:
        client.force_login(User.objects.create_user("visitor", is_staff=staff))
    for address in addresses(one_of_each):
        response = client.get(address)
        assert response.status_code == 302, address
        assert response["Location"].startswith(reverse("admin:login")), address


def test_staff_without_permissions_see_an_empty_index(client: Client, one_of_each: dict[type[Model], Model]) -> None:
    client.force_login(User.objects.create_user("staff", is_staff=True))
    index = client.get(reverse("admin:index"))
    assert index.status_code == 200
    assert b"/admin/endpoints/" not in index.content
    own = {reverse("admin:index"), reverse("admin:password_change")}
    answers = {address: client.get(address).status_code for address in addresses(one_of_each) if address not in own}
    assert {address for address, status in answers.items() if status not in (403, 404)} == set()


def test_the_sidebar_groups_what_belongs_together(admin_client: Client) -> None:
    page = admin_client.get(reverse("admin:index")).content.decode()
    positions = [page.index(title) for title in (">Endpoints<", ">Logs<", ">People<") if title in page]
    sidebar = page[page.index('id="nav-sidebar"') :]
    labels = ["Access tokens", "Schedules", "Log sources", "Users", "Groups"]
    found = [sidebar.index(label) for label in labels]
    assert found == sorted(found)
    assert positions == sorted(positions)


def test_the_sidebar_shows_what_one_may_see(client: Client) -> None:
    person = User.objects.create_user("staff", is_staff=True)
    person.user_permissions.add(Permission.objects.get(codename="view_endpoint"))
    client.force_login(person)
    page = client.get(reverse("admin:index")).content.decode()
    assert "Intervals" not in page
    assert "Access tokens" not in page
    endpoint = Endpoint.objects.get(name="logs.all")
    change = client.get(reverse("admin:endpoints_endpoint_change", args=[endpoint.pk]))
    assert change.status_code == 200
    assert b'name="_save"' not in change.content
