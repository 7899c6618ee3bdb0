"""Counts, notes, files and saved searches of the log explorer over HTTP: exact shapes, and who may have them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

pytestmark = pytest.mark.django_db
RUN_ID = "0f1e2d3c-4b5a-6978"
NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)
RANGE = {"start": NOON.isoformat(), "end": (NOON + timedelta(hours=2)).isoformat()}
EXPLORED = ("values", "severities", "notes", "download")
OWNED = ("save_search", "delete_search")


def post(client: Client, word: str, **changes: Any) -> Any:
    body = {"source": "edge_logs", "project": "acme", "lql": "", "redact": False, "run_id": RUN_ID, **RANGE}
    body |= {"path": "metadata.level", "format": "csv", "rows": 10}
    return client.post(reverse(f"log_explorer_{word}"), body | changes, content_type="application/json")


def operator(name: str, *permissions: str) -> Client:
    person = User.objects.create_user(name, is_staff=True)
    for permission in permissions:
        application, codename = permission.split(".")
        person.user_permissions.add(Permission.objects.get(codename=codename, content_type__app_label=application))
    client = Client()
    client.force_login(person)
    return client


@pytest.fixture
def restricted(db: None) -> Client:
    """Of somebody who may explore, and not every project."""
    return operator("restricted", "endpoints.run_draft", "logsources.view_logsource")


@pytest.fixture
def rows(insert_rows: Any) -> None:
    insert_rows(
        "edge_logs",
        [
            {"timestamp": NOON + timedelta(minutes=n), "project": project, "id": f"{project}{n}"}
            | {"event_message": "from 203.0.113.7", "metadata": [{"level": "error", "of": project}]}
            for n in range(3)
            for project in ("acme", "globex")
        ],
    )


def error_of(response: Any, status: int, code: str) -> Any:
    assert response.status_code == status
    error = response.json()["error"]
    assert error["code"] == code
    return error


def test_top_values_answer_as_described(admin_client: Client, rows: None) -> None:
    assert post(admin_client, "values").json() == {
        "values": [{"kind": "text", "text": "error", "rows": 3}],
        "counted": 3,
        "different": 1,
        "is_part": False,
        "counted_rows": 50_000,
    }


def test_severities_answer_as_described(admin_client: Client, rows: None) -> None:
    counts = post(admin_client, "severities").json()["counts"]
    assert list(counts) == ["error", "warning", "info", "debug", "other"]
    assert counts["error"] == [1, 1, 1, *[0] * 117]


def test_notes_answer_as_described(admin_client: Client, rows: None) -> None:
    (note,) = post(admin_client, "notes", lql="m.levle:error").json()["notes"]
    assert note.endswith("Did you mean m.level?")


def test_a_download_answers_as_described(admin_client: Client, rows: None) -> None:
    response = post(admin_client, "download", rows=2, redact=True)
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert response["Content-Disposition"].startswith('attachment; filename="edge_logs-')
    assert response["Cache-Control"] == "no-store"
    assert (response["X-Result-Rows"], response["X-Result-Truncated"]) == ("2", "true")
    assert response.content.count(b"from REDACTED") == 2
    assert response["Content-Security-Policy"]


def test_saved_searches_answer_as_described(admin_client: Client, restricted: Client) -> None:
    query = "?source=edge_logs&lql=m.level%3Aerror"
    (search,) = post(admin_client, "save_search", name="errors", query=query).json()["searches"]
    assert (search["name"], search["query"]) == ("errors", query)
    assert admin_client.get(reverse("log_explorer_searches")).json() == {"searches": [search]}
    assert restricted.get(reverse("log_explorer_searches")).json() == {"searches": []}
    error_of(post(restricted, "delete_search", id=search["id"]), 404, "search_not_found")
    assert post(admin_client, "delete_search", id=search["id"]).json() == {"searches": []}


# --- Ways around the walls --------------------------------------------------------------------------------------------
def test_who_may_not_see_every_project_names_one(restricted: Client, rows: None) -> None:
    for word in EXPLORED:
        for project in ("", "  "):
            error = error_of(post(restricted, word, project=project), 400, "invalid_exploration")
            assert error["details"] == [{"field": "project"}]
    for path in ("project", "metadata.of"):
        values = post(restricted, "values", path=path).json()["values"]
        assert "globex" not in json.dumps(values)
    assert b"globex" not in post(restricted, "download", format="ndjson").content


def test_nothing_of_this_is_for_others(client: Client, rows: None) -> None:
    strangers = [
        operator("nobody"),
        operator("half", "endpoints.run_draft"),
        operator("h2", "logsources.view_logsource"),
    ]
    for stranger in strangers:
        for word in (*EXPLORED, *OWNED):
            error_of(post(stranger, word), 403, "not_permitted")
        error_of(stranger.get(reverse("log_explorer_searches")), 403, "not_permitted")
    for word in (*EXPLORED, *OWNED):
        error_of(post(client, word), 401, "not_logged_in")


def test_another_site_cannot_save_or_load(rows: None) -> None:
    person = User.objects.create_superuser("checked")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(person)
    for word in (*EXPLORED, *OWNED):
        assert post(strict, word, name="x", query="?source=edge_logs").status_code == 403


@pytest.mark.parametrize(
    ("word", "changes", "code"),
    [
        ("values", {"path": "a b"}, "invalid_exploration"),
        ("values", {"path": ["a"]}, "invalid_request"),
        ("values", {"path": "id.x"}, "invalid_lql"),
        ("values", {"source": "pg_user"}, "invalid_exploration"),
        ("values", {"end": RANGE["start"]}, "invalid_exploration"),
        ("values", {"run_id": "x"}, "invalid_request"),
        ("severities", {"lql": "m.level:"}, "invalid_lql"),
        ("notes", {"lql": "f:auth_logs m.level:"}, "invalid_lql"),
        ("download", {"format": "xlsx"}, "invalid_exploration"),
        ("download", {"format": None}, "invalid_request"),
        ("download", {"rows": 0}, "invalid_exploration"),
        ("download", {"rows": 10**9}, "invalid_exploration"),
        ("download", {"rows": True}, "invalid_request"),
        ("download", {"rows": "10"}, "invalid_request"),
        ("download", {"lql": "f:auth_logs"}, "invalid_lql"),
        ("save_search", {"name": "", "query": "?source=a"}, "invalid_exploration"),
        ("save_search", {"name": "x", "query": ""}, "invalid_exploration"),
        ("save_search", {"name": 1, "query": "?source=a"}, "invalid_request"),
        ("delete_search", {"id": "1"}, "invalid_request"),
        ("delete_search", {"id": 2**70}, "invalid_request"),
    ],
)
def test_what_cannot_be_is_refused(admin_client: Client, word: str, changes: dict[str, Any], code: str) -> None:
    error_of(post(admin_client, word, **changes), 400, code)


@pytest.mark.parametrize("word", [*EXPLORED, *OWNED])
def test_reading_changes_nothing(admin_client: Client, word: str) -> None:
    response = admin_client.get(reverse(f"log_explorer_{word}"))
    assert error_of(response, 405, "method_not_allowed")
    assert response["Allow"] == "POST"
