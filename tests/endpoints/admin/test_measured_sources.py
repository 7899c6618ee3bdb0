"""The pages of log sources: what the table holds, quickly, and for whom rows are shown."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import connections
from django.test import Client
from django.urls import reverse

from endpoints.admin.measured_sources import told_rows
from endpoints.cache.usage import forget_load_ends, load_ends, note_load_end
from endpoints.cache.usage.load_ends import flush
from logsources import services
from logsources.measures import Measure, MeasuredPartition
from tests.logsources.conftest import insert, logs
from tests.moments import now

__all__ = ["insert", "logs"]  # fixtures

pytestmark = pytest.mark.django_db(databases=["default", "logs"])
LIST = "admin:logsources_logsource_changelist"
CHANGE = "admin:logsources_logsource_change"


@pytest.fixture
def source(logs):
    forget_load_ends("measured")
    return services.create_source(name="measured", holds="test rows", project_location="row field", retention_days=30)


def page(client: Client, name: str, *args: object) -> str:
    response = client.get(reverse(name, args=args))
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def operator(*permissions: str) -> Client:
    person = User.objects.create_user("operator", is_staff=True)
    person.groups.add(Group.objects.get(name="viewer"))
    for codename in permissions:
        person.user_permissions.add(Permission.objects.get(codename=codename, content_type__app_label="endpoints"))
    client = Client()
    client.force_login(person)
    return client


def test_the_list_tells_how_much_there_is(admin_client, logs, insert, source) -> None:
    newest = datetime.now(UTC) - timedelta(minutes=5, seconds=10)
    for n in range(1234):
        insert("measured", id=str(n), timestamp=newest, project="acme")
    logs.execute("ANALYZE logs.measured")
    shown = page(admin_client, LIST)
    assert "about 1,234" in shown
    assert f"{newest:%Y-%m-%d %H:%M}" in shown
    assert any(f"{minutes} minutes ago" in shown for minutes in (5, 6, 7))  # as slow as the machine may be
    assert "30 days" in shown


def test_list_and_page_tell_how_loads_ended(admin_client, source) -> None:
    assert "none noted" in page(admin_client, LIST)
    note_load_end("measured", rows=1200)
    flush()
    for name, arguments in ((LIST, ()), (CHANGE, (source.pk,))):
        shown = page(admin_client, name, *arguments)
        assert "1,200 new rows" in shown
        assert "ls-failed" not in shown
    note_load_end("measured", failure="invalid_rows")
    flush()
    assert re.search(r'class="ls-failed">failed (just now|\d+ minutes? ago): invalid rows<', page(admin_client, LIST))
    assert "Last load that failed" in page(admin_client, CHANGE, source.pk)
    note_load_end("measured", rows=1)
    flush()
    assert "ls-failed" not in page(admin_client, LIST)
    assert "invalid rows" in page(admin_client, CHANGE, source.pk)


def test_a_dropped_source_leaves_no_loads_to_another_of_its_name(admin_client, source) -> None:
    note_load_end("measured", failure="invalid_rows")
    flush()
    admin_client.post(reverse("admin:logsources_logsource_delete", args=[source.pk]), {"post": "yes"})
    assert "measured" not in load_ends()


def test_without_redis_the_loads_are_unknown(admin_client, source, settings, redis_not_met_yet) -> None:
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": "redis://127.0.0.1:1/0"}}
    assert "unknown: Redis does not answer" in page(admin_client, CHANGE, source.pk)
    assert "no answer in time" in page(admin_client, LIST)


def test_the_sample_is_of_the_rows_loaded_last(admin_client, insert, source) -> None:
    insert("measured", id="newer", timestamp=now(), project="acme", metadata=[{"n": "loaded-first"}])
    for n in range(5):
        insert(
            "measured", id=str(n), timestamp=now() - timedelta(days=1), project="acme", metadata=[{"n": f"later-{n}"}]
        )
    shown = page(admin_client, CHANGE, source.pk)
    assert "loaded-first" not in shown
    assert [shown.index(f"later-{n}") for n in range(5)] == sorted(
        (shown.index(f"later-{n}") for n in range(5)), reverse=True
    )


def test_an_empty_source_says_what_to_do(admin_client, source) -> None:
    shown = page(admin_client, CHANGE, source.pk)
    assert "manage.py load_logs measured FILE" in shown
    assert "no rows" in shown
    assert "10 partitions, 0 with rows" in shown


def test_the_page_shows_rows_without_taking_them_for_markup(admin_client, insert, source) -> None:
    insert("measured", timestamp=now(), project="acme", metadata=[{"html": "<script>alert(1)</script>"}])
    shown = page(admin_client, CHANGE, source.pk)
    assert "&lt;script&gt;alert(1)" in shown
    assert "<script>alert" not in shown
    assert "1 with rows" in shown
    assert "/admin/logs/?source=measured" in shown


@pytest.mark.parametrize(
    ("permissions", "sees_rows", "explores"),
    [
        ((), False, False),
        (("run_draft",), False, True),
        (("add_endpoint",), False, False),
        (("run_draft", "change_endpoint"), True, True),
    ],
)
def test_rows_of_every_project_are_for_who_may_write_endpoints(
    insert, source, permissions, sees_rows, explores
) -> None:
    insert("measured", timestamp=now(), project="acme", metadata=[{"whose": "customer-data"}])
    shown = page(operator(*permissions), CHANGE, source.pk)
    assert ("customer-data" in shown) is sees_rows
    assert ("Explore its rows" in shown) is explores
    assert "Rows, estimated" in shown


def test_a_locked_table_keeps_nobody_waiting(admin_client, logs, insert, source, django_db_blocker) -> None:
    insert("measured", timestamp=now(), project="acme")
    logs.execute("BEGIN")
    logs.execute(f"LOCK TABLE logs.measured_p{now():%Y%m%d} IN ACCESS EXCLUSIVE MODE")
    try:
        assert "The log database did not answer in time" in page(admin_client, CHANGE, source.pk)
        assert "no answer in time" in page(admin_client, LIST)
    finally:
        logs.execute("ROLLBACK")
    assert "about" in page(admin_client, LIST)


def test_without_the_log_database_the_pages_are_there(admin_client, source, monkeypatch) -> None:
    monkeypatch.setitem(connections["logs"].settings_dict, "PORT", "1")
    assert "The log database did not answer in time" in page(admin_client, CHANGE, source.pk)
    assert "no answer in time" in page(admin_client, LIST)


def partition(rows: int | None) -> MeasuredPartition:
    return MeasuredPartition("p", None, 8192, rows)


@pytest.mark.parametrize(
    ("measure", "told"),
    [
        (None, "no answer in time"),
        (Measure(()), "0"),
        (Measure((partition(0),)), "0"),
        (Measure((partition(None), partition(0))), "not counted yet"),
        (Measure((partition(None), partition(5000))), "more than\xa05,000"),
        (Measure((partition(1), partition(5000))), "about\xa05,001"),
    ],
)
def test_rows_are_told_as_what_they_are(measure, told) -> None:
    assert told_rows(measure) == told
