"""The log explorer over HTTP: exact shapes, who may see whose rows, honest refusals."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from endpoints.calling.catalogue import forget_catalogue

pytestmark = pytest.mark.django_db
RUN_ID = "0f1e2d3c-4b5a-6978"
NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)
RANGE = {"start": NOON.isoformat(), "end": (NOON + timedelta(hours=2)).isoformat()}
WORDS = ("rows", "histogram", "filter", "cancel")


def address(word: str) -> str:
    return reverse(f"log_explorer_{word}")


def post(client: Client, word: str, **changes: Any) -> Any:
    exploration = {"source": "edge_logs", "project": "acme", "lql": "", "redact": False, "run_id": RUN_ID, **RANGE}
    return client.post(address(word), exploration | changes, content_type="application/json")


def operator(*permissions: str) -> Client:
    person = User.objects.create_user("operator", is_staff=True)
    for permission in permissions:
        application, codename = permission.split(".")
        person.user_permissions.add(Permission.objects.get(codename=codename, content_type__app_label=application))
    client = Client()
    client.force_login(person)
    return client


@pytest.fixture
def restricted(db: None) -> Client:
    """Of somebody who may explore, and not every project."""
    return operator("endpoints.run_draft", "logsources.view_logsource")


@pytest.fixture
def rows(insert_rows: Any) -> None:
    forget_catalogue()
    insert_rows(
        "edge_logs",
        [
            {"timestamp": NOON + timedelta(minutes=n), "project": project, "id": f"{project}{n}"}
            | {"metadata": [{"level": "error", "of": {project: n}}]}
            for n in range(3)
            for project in ("acme", "globex")
        ],
    )


def error_of(response: Any, status: int, code: str) -> Any:
    assert response.status_code == status
    error = response.json()["error"]
    assert error["code"] == code
    return error


def test_rows_answer_as_described(admin_client: Client, rows: None) -> None:
    answer = post(admin_client, "rows").json()
    assert set(answer) == {"result_json", "row_count", "more", "seconds"}
    assert (answer["row_count"], answer["more"]) == (3, False)
    assert [row["id"] for row in json.loads(answer["result_json"])["result"]] == ["acme2", "acme1", "acme0"]


def test_rows_behind_a_mark(admin_client: Client, rows: None) -> None:
    mark = {"timestamp": (NOON + timedelta(minutes=1)).isoformat(), "id": "~", "rows": 1}
    answer = post(admin_client, "rows", mark=mark).json()
    assert [row["id"] for row in json.loads(answer["result_json"])["result"]] == ["acme1", "acme0"]


def test_a_histogram_answers_as_described(admin_client: Client, rows: None) -> None:
    answer = post(admin_client, "histogram", project="", lql="m.level:error").json()
    assert (answer["aggregate"], answer["period"], len(answer["bars"])) == ("count", "minute", 120)
    assert answer["bars"][0] == [NOON.isoformat(), (NOON + timedelta(minutes=1)).isoformat(), "2"]


def test_fields_answer_as_described(admin_client: Client, rows: None) -> None:
    answer = admin_client.get(address("fields"), {"source": "edge_logs"}).json()
    assert [column["name"] for column in answer["columns"]] == [
        "timestamp", "project", "id", "event_message", "metadata",
    ]  # fmt: skip
    assert {"path": "level", "type": "text", "rows": 6} in answer["paths"]
    assert answer["projects"] == ["acme", "globex"]
    assert datetime.fromisoformat(answer["newest"]) == NOON + timedelta(minutes=2)
    error_of(admin_client.get(address("fields"), {"source": "no_logs"}), 400, "invalid_exploration")


def test_fields_tell_nothing_of_other_projects(restricted: Client, rows: None) -> None:
    answer = restricted.get(address("fields"), {"source": "edge_logs"}).json()
    assert "project" not in [column["name"] for column in answer["columns"]]
    assert (answer["paths"], answer["projects"], answer["newest"]) == ([], [], None)


def test_who_may_not_see_every_project_names_one(restricted: Client, rows: None) -> None:
    for word in ("rows", "histogram"):
        for project in ("", "  "):
            error = error_of(post(restricted, word, project=project), 400, "invalid_exploration")
            assert error["details"] == [{"field": "project"}]
    shown = json.loads(post(restricted, "rows").json()["result_json"])["result"]
    assert {row["id"] for row in shown} == {"acme0", "acme1", "acme2"}


@pytest.mark.parametrize("permissions", [(), ("endpoints.run_draft",), ("logsources.view_logsource",)])
def test_who_may_not_explore_is_refused_everywhere(permissions: tuple[str, ...]) -> None:
    client = operator(*permissions)
    assert client.get(reverse("log_explorer")).status_code == 403
    error_of(client.get(address("fields"), {"source": "edge_logs"}), 403, "not_permitted")
    for word in WORDS:
        error_of(post(client, word), 403, "not_permitted")


def test_who_is_not_logged_in_is_told_so(client: Client) -> None:
    for word in WORDS:
        error_of(post(client, word), 401, "not_logged_in")


def test_a_filter_answers_as_described(admin_client: Client) -> None:
    value = {"kind": "text", "text": "error"}
    answer = post(admin_client, "filter", lql="timeout", path=["metadata", "level"], value=value, negated=True)
    assert answer.json() == {"lql": "timeout -m.level:error"}
    number = {"kind": "number", "text": "12345678901234567890.5"}
    answer = post(admin_client, "filter", path=["metadata", "n"], value=number)
    assert answer.json() == {"lql": "m.n:12345678901234567890.5"}
    answer = post(admin_client, "filter", path=["metadata", "a b", "x.y"], value=value)
    assert answer.json() == {"lql": 'm."a b"."x.y":error'}
    error_of(post(admin_client, "filter", path=["metadata", ""], value=value), 400, "not_filterable")


@pytest.mark.parametrize(
    ("word", "changes", "code"),
    [
        ("rows", {"start": "yesterday"}, "invalid_request"),
        ("rows", {"start": "0001-01-01T00:00:00+14:00"}, "invalid_request"),
        ("rows", {"end": "9999-12-31T23:59:59.999999"}, "invalid_request"),
        ("rows", {"mark": {"timestamp": RANGE["start"], "id": "a", "rows": -1}}, "invalid_request"),
        ("rows", {"mark": {"timestamp": RANGE["start"], "rows": 1}}, "invalid_request"),
        ("rows", {"run_id": "x"}, "invalid_request"),
        ("rows", {"redact": 1}, "invalid_request"),
        ("rows", {"end": RANGE["start"]}, "invalid_exploration"),
        ("histogram", {"source": "no_logs"}, "invalid_exploration"),
        ("rows", {"lql": "m.level:"}, "invalid_lql"),
        ("histogram", {"lql": "c:max(id)"}, "invalid_lql"),
        ("filter", {"path": "level", "value": {"kind": "text", "text": "x"}}, "invalid_request"),
        ("filter", {"path": ["level"], "value": {"kind": "object"}}, "invalid_request"),
    ],
)
def test_what_cannot_be_is_refused(admin_client: Client, word: str, changes: dict[str, Any], code: str) -> None:
    error_of(post(admin_client, word, **changes), 400, code)


def test_a_run_that_is_over_cannot_be_cancelled(admin_client: Client) -> None:
    error_of(post(admin_client, "cancel"), 404, "run_not_found")


def test_the_page_is_started_with_what_this_person_may(admin_client: Client, restricted: Client) -> None:
    started = admin_client.get(reverse("log_explorer")).context["explorer"]
    assert started["every_project"]
    assert "edge_logs" in started["sources"]
    assert started["add_address"] == reverse("admin:endpoints_endpoint_add")
    started = restricted.get(reverse("log_explorer")).context["explorer"]
    assert not started["every_project"]
    assert started["add_address"] is None


ADD = "admin:endpoints_endpoint_add"


def test_what_was_explored_fills_the_form_of_a_new_endpoint(admin_client: Client) -> None:
    query = {"log_source": "edge_logs", "lql": "m.level:error"}
    response = admin_client.get(reverse(ADD), query)
    initial = response.context["adminform"].form.initial
    assert "jsonb_path_exists" in initial["sql"]
    assert (initial["tenant_parameter"], initial["default_sandbox_table"]) == ("project", "edge_logs")
    assert "m.level:error" in initial["description"]
    (parameters,) = response.context["inline_admin_formsets"]
    names = [form.initial.get("name") for form in parameters.formset.forms]
    assert names == ["project", "iso_timestamp_start", "iso_timestamp_end"]


@pytest.mark.parametrize("query", [{"log_source": "no_logs"}, {"log_source": "edge_logs", "lql": "m.level:"}])
def test_what_cannot_be_saved_leaves_the_form_empty_and_says_why(admin_client: Client, query: dict[str, str]) -> None:
    response = admin_client.get(reverse(ADD), query)
    assert "sql" not in response.context["adminform"].form.initial
    (message,) = response.context["messages"]
    assert "cannot be saved" in str(message)
