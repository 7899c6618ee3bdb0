from __future__ import annotations

import pytest
from django.urls import reverse

from logsources import services
from logsources.models import LogSource
from tests.logsources.conftest import insert, logs

__all__ = ["insert", "logs"]  # fixtures

pytestmark = pytest.mark.django_db(databases=["default", "logs"])

ADD = "admin:logsources_logsource_add"
CHANGE = "admin:logsources_logsource_change"
DELETE = "admin:logsources_logsource_delete"


def form(*columns, initial=0, **fields):
    """What the browser sends for a source and the rows of its column table."""
    data = {
        "name": "made_in_admin",
        "holds": "test rows",
        "project_location": "row field",
        "project_path": "",
        "retention_days": "90",
        "extracted_columns-TOTAL_FORMS": str(len(columns)),
        "extracted_columns-INITIAL_FORMS": str(initial),
        **fields,
    }
    for number, column in enumerate(columns):
        data |= {f"extracted_columns-{number}-{field}": str(value) for field, value in column.items()}
    return data


STATUS = {"name": "status", "path": "response.status_code", "type": "integer", "indexed": "on", "covered": "on"}


@pytest.fixture
def source(logs):
    return services.create_source(name="made_in_admin", holds="test rows", project_location="row field")


def columns_of(logs):
    rows = logs.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('logs.made_in_admin') AND attnum > 0"
        " AND NOT attisdropped"
    )
    return {name for (name,) in rows}


def test_adding_makes_the_table(admin_client, logs) -> None:
    response = admin_client.post(reverse(ADD), form(STATUS))
    assert response.status_code == 302
    assert columns_of(logs) >= {"metadata", "status"}
    column = LogSource.objects.get(name="made_in_admin").extracted_columns.get()
    assert (column.name, column.type, column.indexed, column.covered) == ("status", "integer", True, True)


def test_shows_the_uuid_that_clients_may_send(admin_client, source) -> None:
    assert str(source.uuid) in admin_client.get(reverse(CHANGE, args=[source.pk])).content.decode()
    found = admin_client.get(reverse("admin:logsources_logsource_changelist"), {"q": str(source.uuid)[:13]})
    assert "made_in_admin" in found.content.decode()
    assert "edge_logs" not in found.content.decode()


def test_producers_names_are_written_with_commas(admin_client, logs) -> None:
    admin_client.post(reverse(ADD), form(producer_names="our.logs, Their Logs"))
    source = LogSource.objects.get(name="made_in_admin")
    assert source.producer_names == ["our.logs", "Their Logs"]
    page = admin_client.get(reverse(CHANGE, args=[source.pk])).content.decode()
    assert 'value="our.logs,Their Logs"' in page


def test_lists_and_shows_sources(admin_client, source) -> None:
    assert b"made_in_admin" in admin_client.get(reverse("admin:logsources_logsource_changelist")).content
    assert b"request.url" in admin_client.get(reverse(CHANGE, args=[source.pk])).content


def test_changing_alters_the_table(admin_client, logs, source) -> None:
    address = reverse(CHANGE, args=[source.pk])
    assert admin_client.post(address, form(STATUS)).status_code == 302
    assert "status" in columns_of(logs)
    column = source.extracted_columns.get()
    gone = {**STATUS, "id": column.pk, "source": source.pk, "DELETE": "on"}
    assert admin_client.post(address, form(gone, initial=1, retention_days="")).status_code == 302
    assert "status" not in columns_of(logs)
    source.refresh_from_db()
    assert source.retention_days is None


def test_the_name_of_a_source_stays(admin_client, source) -> None:
    admin_client.post(reverse(CHANGE, args=[source.pk]), form(name="other_name"))
    source.refresh_from_db()
    assert source.name == "made_in_admin"


@pytest.mark.parametrize(
    ("columns", "fields", "reason"),
    [
        ([], {"name": "Bad Name"}, "A lower-case letter"),
        ([], {"name": "x_default"}, "belongs to a partition"),
        ([], {"project_location": "metadata"}, "Give a project path"),
        ([], {"retention_days": "0"}, "greater than or equal to 1"),
        ([{**STATUS, "name": "metadata"}], {}, "Every log table already has a column of this name"),
        ([{**STATUS, "path": "a b"}], {}, "Keys joined by dots"),
        ([STATUS, STATUS], {}, "duplicate"),
        ([], {"producer_names": "our.logs, postgres.logs"}, "already has the producer name postgres.logs"),
        ([], {"producer_names": "our.logs,our.logs"}, "appears twice"),
    ],
)
def test_refusals_are_form_errors(admin_client, logs, columns, fields, reason) -> None:
    response = admin_client.post(reverse(ADD), form(*columns, **fields))
    assert response.status_code == 200
    assert reason in response.content.decode()
    assert not LogSource.objects.filter(name="made_in_admin").exists()


def test_what_the_log_database_refuses_is_a_form_error(admin_client, logs) -> None:
    logs.execute("CREATE TABLE logs.made_in_admin_default ()")
    response = admin_client.post(reverse(ADD), form(STATUS))
    assert response.status_code == 200
    page = response.content.decode()
    assert "made_in_admin_default" in page
    assert "response.status_code" in page  # what was typed is still there
    assert not LogSource.objects.filter(name="made_in_admin").exists()


def test_moving_the_project_of_rows_is_a_form_error(admin_client, insert, source) -> None:
    insert("made_in_admin", project="acme")
    fields = form(project_location="metadata", project_path="project_ref")
    response = admin_client.post(reverse(CHANGE, args=[source.pk]), fields)
    assert response.status_code == 200
    assert "Create a new source" in response.content.decode()


def test_deleting_asks_and_drops_the_table(admin_client, logs, source) -> None:
    address = reverse(DELETE, args=[source.pk])
    assert "Table logs.made_in_admin" in admin_client.get(address).content.decode()
    assert columns_of(logs)
    assert admin_client.post(address, {"post": "yes"}).status_code == 302
    assert columns_of(logs) == set()
    assert not LogSource.objects.filter(name="made_in_admin").exists()


def test_a_table_in_use_is_not_dropped(admin_client, logs, source) -> None:
    logs.execute("CREATE VIEW logs.reads_it AS SELECT id FROM logs.made_in_admin")
    response = admin_client.post(reverse(DELETE, args=[source.pk]), {"post": "yes"}, follow=True)
    assert "reads_it" in response.content.decode()
    assert LogSource.objects.filter(name="made_in_admin").exists()


def test_tables_are_not_dropped_in_bulk(admin_client, source) -> None:
    data = {"action": "delete_selected", "_selected_action": [source.pk], "post": "yes"}
    admin_client.post(reverse("admin:logsources_logsource_changelist"), data)
    assert LogSource.objects.filter(name="made_in_admin").exists()
