"""The page "Schedules": what is warmed and kept in order, last and next, and who may go on to the forms behind it."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from time import time
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from endpoints.calling.scheduled_runs import ScheduledRun, last_scheduled_runs, note_scheduled_run
from endpoints.defining.saving import save_endpoint
from endpoints.defining.schedules import read_schedules
from endpoints.defining.upkeep import warming_schedule_name
from endpoints.models import Endpoint

pytestmark = pytest.mark.django_db
UPKEEP = "logsources.tasks.roll_partitions"


@pytest.fixture
def endpoint(db: None) -> Endpoint:
    return save_endpoint(
        Endpoint(name="test.Warmed", sql="SELECT 1 AS one", cache_seconds=60, warm_every_seconds=30), []
    )


@pytest.fixture
def upkeep(db: None) -> PeriodicTask:
    hourly = IntervalSchedule.objects.create(every=3600, period="seconds")
    return PeriodicTask.objects.create(name="test upkeep", task=UPKEEP, interval=hourly)


def client_of(role: str) -> Client:
    person = User.objects.create_user(f"test-{role}", is_staff=True)
    person.groups.add(Group.objects.get(name=role))
    client = Client()
    client.force_login(person)
    return client


def rows(client: Client) -> dict[str, str]:
    """Return the rows of the page's tables as text, by their heading."""
    response = client.get(reverse("schedules"))
    assert response.status_code == 200
    page = response.content.decode()
    found = {}
    for row in re.findall(r"(?s)<tr>\s*<th scope=\"row\">(.*?)</tr>", page):
        heading, _, rest = row.partition("</th>")
        found[text(heading)] = text(rest)
    return found


def text(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", markup)).split())


def test_it_tells_the_last_run_of_a_warmed_endpoint_and_its_next(endpoint: Endpoint) -> None:
    name = warming_schedule_name(endpoint.pk)
    note_scheduled_run(name, ScheduledRun(time() - 12, 0.25, "Results: 3 renewed, 1 failed (query timeout).", 1))
    row = rows(client_of("viewer"))["test.Warmed"]
    assert row.startswith("every 30 seconds")
    assert "250 ms" in row
    assert "3 renewed, 1 failed (query timeout)" in row
    assert re.search(r"1[2-9] seconds ago|2\d seconds ago", row)
    assert re.search(r"(in \d+ seconds?|now) , 0 results", row)


def test_upkeep_has_the_words_of_the_product(upkeep: PeriodicTask) -> None:
    found = rows(client_of("viewer"))
    (name,) = [name for name in found if name.startswith("Partitions of log sources")]
    assert "drops the days" in name
    assert found[name].startswith("every hour not yet")
    assert UPKEEP not in "".join([*found, *found.values()])


def test_a_schedule_that_somebody_made_keeps_its_name(db: None) -> None:
    nightly = CrontabSchedule.objects.create(hour="4", minute="30")
    PeriodicTask.objects.create(name="mine", task="my.task", crontab=nightly, description="Sends my report.")
    assert rows(client_of("viewer"))["mine Sends my report."].startswith("At 04:30 AM")


@pytest.mark.parametrize("role", ["viewer", "editor"])
def test_only_owners_reach_the_forms_behind_it(role: str, endpoint: Endpoint, upkeep: PeriodicTask) -> None:
    client = client_of(role)
    page = client.get(reverse("schedules")).content.decode()
    assert "/admin/django_celery_beat/" not in page
    for model in ("periodictask", "intervalschedule", "crontabschedule", "clockedschedule", "solarschedule"):
        assert client.get(reverse(f"admin:django_celery_beat_{model}_changelist")).status_code == 403
    assert client.get(reverse("admin:django_celery_beat_periodictask_change", args=[upkeep.pk])).status_code == 403


def test_an_owner_goes_on_to_the_forms(endpoint: Endpoint, upkeep: PeriodicTask) -> None:
    client = client_of("owner")
    page = client.get(reverse("schedules")).content.decode()
    for address in (
        reverse("admin:django_celery_beat_periodictask_changelist"),
        reverse("admin:django_celery_beat_periodictask_change", args=[upkeep.pk]),
    ):
        assert f'href="{address}"' in page
        assert client.get(address).status_code == 200


def test_staff_without_endpoints_are_refused(db: None) -> None:
    client = Client()
    client.force_login(User.objects.create_user("staff", is_staff=True))
    assert client.get(reverse("schedules")).status_code == 403
    assert reverse("schedules") not in client.get(reverse("admin:index")).content.decode()


def test_a_stopped_and_a_late_schedule_are_said(upkeep: PeriodicTask) -> None:
    PeriodicTask.objects.filter(pk=upkeep.pk).update(last_run_at=datetime.now(UTC) - timedelta(hours=3))
    (late,) = [row for name, row in rows(client_of("viewer")).items() if name.startswith("Partitions")]
    assert "2 hours late : see Health on the dashboard" in late
    PeriodicTask.objects.filter(pk=upkeep.pk).update(enabled=False)
    (stopped,) = [row for name, row in rows(client_of("editor")).items() if name.startswith("Partitions")]
    assert "stopped" in stopped


def test_it_is_there_without_redis(
    endpoint: Endpoint, upkeep: PeriodicTask, redis_not_met_yet: None, settings: Any
) -> None:
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": "redis://127.0.0.1:1/0"}}
    page = text(client_of("viewer").get(reverse("schedules")).content.decode())
    assert "the last runs are unknown at the moment" in page
    assert "test.Warmed" in page


def test_runs_of_deleted_schedules_are_forgotten(db: None) -> None:
    note_scheduled_run("test gone", ScheduledRun(time(), 0.1, "Done.", 0))
    read_schedules(now=datetime.now(UTC))
    assert "test gone" not in last_scheduled_runs()


@pytest.mark.parametrize(
    ("every", "period", "words"),
    [
        (1, "minutes", "every minute"),
        (90, "seconds", "every 90 seconds"),
        (300, "seconds", "every 5 minutes"),
        (48, "hours", "every 2 days"),
    ],
)
def test_intervals_are_in_words(every: int, period: str, words: str, upkeep: PeriodicTask) -> None:
    upkeep.interval = IntervalSchedule.objects.create(every=every, period=period)
    upkeep.save()
    (schedule,) = [each for each in read_schedules(now=datetime.now(UTC)).schedules if each.pk == upkeep.pk]
    assert schedule.every == words
