"""Export and import in the admin: what is downloaded can be uploaded, seen before it is saved, and confirmed."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from endpoints.admin.transfers import MAX_IMPORT_BYTES
from endpoints.defining.endpoint_files import read_endpoint_file, write_endpoint_file
from endpoints.defining.saving import save_endpoint
from endpoints.definition import Definition
from endpoints.models import Endpoint

pytestmark = pytest.mark.django_db
IMPORT = "/admin/endpoints/endpoint/import/"
LIST = "/admin/endpoints/endpoint/"


def text(name: str = "test.imported", sql: str = "SELECT 'é' AS one") -> bytes:
    return write_endpoint_file(Definition(name=name, sql=sql)).encode()


def upload(client: Client, *files: tuple[str, bytes]) -> Any:
    return client.post(IMPORT, {"files": [SimpleUploadedFile(name, content) for name, content in files]})


def confirmation(response: Any) -> dict[str, str]:
    """What the button of the page sends."""
    return {"contents": response.context["contents"], "shown": response.context["shown"]}


def test_the_pages_offer_it(admin_client: Client) -> None:
    endpoint = Endpoint.objects.get(name="logs.all")
    change = reverse("admin:endpoints_endpoint_change", args=[endpoint.pk])
    assert f"/admin/endpoints/endpoint/{endpoint.pk}/export/" in admin_client.get(change).content.decode()
    page = admin_client.get(LIST).content.decode()
    assert IMPORT in page
    assert "export_chosen" in page


def test_one_endpoint_is_downloaded_as_a_file(admin_client: Client) -> None:
    endpoint = Endpoint.objects.get(name="logs.all")
    response = admin_client.get(f"/admin/endpoints/endpoint/{endpoint.pk}/export/")
    assert response["Content-Disposition"] == 'attachment; filename="logs.all.sql"'
    assert response["Content-Type"] == "application/sql; charset=utf-8"
    assert read_endpoint_file(response.content.decode()).sql == endpoint.sql.strip()


def test_an_endpoint_that_is_not_there_is_not_found(admin_client: Client) -> None:
    assert admin_client.get("/admin/endpoints/endpoint/00000000-0000-0000-0000-000000000000/export/").status_code == 404


def test_the_chosen_are_downloaded_together_and_can_be_uploaded(admin_client: Client) -> None:
    chosen = [str(pk) for pk in Endpoint.objects.values_list("pk", flat=True)]
    response = admin_client.post(LIST, {"action": "export_chosen", "_selected_action": chosen})
    assert response["Content-Disposition"] == 'attachment; filename="endpoints.zip"'
    archive = zipfile.ZipFile(io.BytesIO(response.content))
    assert sorted(archive.namelist()) == ["logs.all.sql", "usage.api-counts.sql"]
    again = upload(admin_client, *((name, archive.read(name)) for name in archive.namelist()))
    assert "Nothing to import" in again.content.decode()


def test_an_upload_shows_what_it_would_change_and_saves_nothing(admin_client: Client) -> None:
    save_endpoint(Endpoint(name="test.imported", sql="SELECT 1 AS one"), [])
    response = upload(admin_client, ("a.sql", text()), ("b.sql", text("test.new")))
    page = response.content.decode()
    assert response.status_code == 200
    assert "a.sql: would be changed, test.imported" in page
    assert "b.sql: would be created, test.new" in page
    assert "SELECT <del>1</del>" in page
    assert not Endpoint.objects.filter(name="test.new").exists()
    assert Endpoint.objects.get(name="test.imported").version == 1


def test_a_confirmed_upload_is_saved_in_the_name_of_who_confirmed(admin_client: Client, admin_user: User) -> None:
    shown = upload(admin_client, ("a.sql", text()), ("logs.sql", text("test.more")))
    response = admin_client.post(IMPORT, confirmation(shown), follow=True)
    assert "Imported: 2 created." in response.content.decode()
    saved = Endpoint.objects.get(name="test.imported")
    assert (saved.version, saved.sql, saved.history.get().history_user) == (1, "SELECT 'é' AS one", admin_user)
    assert LogEntry.objects.get(object_id=str(saved.pk)).change_message == "Imported from a.sql as version 1."


def test_a_refused_file_is_told_and_cannot_be_confirmed(admin_client: Client) -> None:
    response = upload(admin_client, ("a.sql", text()), ("b.sql", text("test.bad", sql="SELECT nothing")))
    page = response.content.decode()
    assert response.status_code == 400
    assert "b.sql: refused" in page
    lines = text("test.bad", sql="SELECT nothing").decode().splitlines()
    assert f"line {lines.index('SELECT nothing') + 1}, column 8: PostgreSQL: column" in page
    assert 'name="contents"' not in page
    assert not Endpoint.objects.filter(name__startswith="test.").exists()


def test_a_confirmation_is_checked_again(admin_client: Client) -> None:
    shown = confirmation(upload(admin_client, ("a.sql", text())))
    sent = {**shown, "contents": shown["contents"].replace("'é' AS one", "nothing")}
    assert admin_client.post(IMPORT, sent).status_code == 400
    assert not Endpoint.objects.filter(name="test.imported").exists()


def test_what_was_saved_in_between_is_shown_before_it_is_overwritten(admin_client: Client) -> None:
    shown = confirmation(upload(admin_client, ("a.sql", text())))
    save_endpoint(Endpoint(name="test.imported", sql="SELECT 'theirs' AS one"), [])
    response = admin_client.post(IMPORT, shown)
    assert response.status_code == 400
    assert "Endpoints have been changed since" in response.content.decode()
    assert Endpoint.objects.get(name="test.imported").version == 1
    assert admin_client.post(IMPORT, confirmation(response)).status_code == 302
    assert Endpoint.objects.get(name="test.imported").version == 2


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ([], "Choose at least one .sql file"),
        ([("a.sql", b"x" * (MAX_IMPORT_BYTES + 1))], "The files are too large"),
        ([("a.sql", text()), ("b.sql", b"x" * (MAX_IMPORT_BYTES - 10))], "The files are too large"),
        ([("a.sql", text()), ("a.sql", text())], "Two files have the name a.sql."),
        ([("a.sql", b"\xff")], "line 1: the file is not UTF-8"),
        ([("a.zip", b"PK\x03\x04")], "a.zip: refused"),
    ],
)
def test_an_upload_that_cannot_be_read_is_told(
    admin_client: Client, files: list[tuple[str, bytes]], reason: str
) -> None:
    response = upload(admin_client, *files)
    assert response.status_code == 400
    assert reason in response.content.decode()


@pytest.mark.parametrize("contents", ["no json", "[]", '{"a.sql": 1}'])
def test_a_made_up_confirmation_is_refused(admin_client: Client, contents: str) -> None:
    assert admin_client.post(IMPORT, {"contents": contents, "shown": ""}).status_code == 400
