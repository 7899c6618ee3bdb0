"""The explorer's live rows: the same people and projects as for its other addresses."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.endpoints.admin.test_explorer import error_of, operator

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("log_database")]
ENDLESS = {"start": "2020-01-01", "end": "2030-01-01"}


def ask(client: Client, token: str = "", **changes: Any) -> Any:
    exploration = {"source": "edge_logs", "project": "acme", "lql": "", "redact": False, **ENDLESS, "page_token": token}
    return client.post(reverse("log_explorer_tail"), exploration | changes, content_type="application/json")


def page(response: Any) -> tuple[list[str], str]:
    assert response.status_code == 200, response.content
    answer = response.json()
    assert answer.keys() == {"result_json", "row_count"}
    found = json.loads(answer["result_json"])
    assert answer["row_count"] == len(found["result"])
    return [row["id"] for row in found["result"]], found["next"]


def row(name: str, *, project: str = "acme", seconds_ago: float = 0.0, message: str = "") -> dict[str, Any]:
    moment = datetime.now(UTC) - timedelta(seconds=seconds_ago)
    return {"id": name, "project": project, "timestamp": moment, "event_message": message}


@pytest.fixture
def restricted(db: None) -> Client:
    return operator("endpoints.run_draft", "logsources.view_logsource")


@pytest.fixture(autouse=True)
def no_late_row(settings: Any) -> None:
    settings.ENDPOINTS_TAIL_LATE_SECONDS = 600.0  # however slow the machine is


def test_pages_have_the_rows_of_the_project_that_came(admin_client: Client, insert_rows: Any) -> None:
    insert_rows("edge_logs", [row("old", seconds_ago=900), row("new", seconds_ago=1), row("theirs", project="globex")])
    found, token = page(ask(admin_client))
    assert found == ["new"]
    insert_rows("edge_logs", [row("next"), row("theirs too", project="globex")])
    found, token = page(ask(admin_client, token))
    assert found == ["next"]
    assert page(ask(admin_client, token))[0] == []


def test_every_project_is_for_those_who_may_write_endpoints(
    admin_client: Client, restricted: Client, insert_rows: Any
) -> None:
    insert_rows("edge_logs", [row("theirs", project="globex", seconds_ago=2), row("ours", seconds_ago=1)])
    assert page(ask(admin_client, project=""))[0] == ["ours", "theirs"]
    error_of(ask(restricted, project=""), 400, "invalid_exploration")
    assert page(ask(restricted))[0] == ["ours"]


def test_a_token_is_of_no_use_for_another_exploration_or_person(admin_client: Client, restricted: Client) -> None:
    _, token = page(ask(admin_client))
    for changes in ({"project": "globex"}, {"project": ""}, {"lql": "x"}, {"source": "auth_logs"}, {"redact": True}):
        error_of(ask(admin_client, token, **changes), 400, "invalid_page_token")
    error_of(ask(restricted, token), 400, "invalid_page_token")


def test_a_chart_is_left_out_as_in_the_list_of_rows(admin_client: Client, insert_rows: Any) -> None:
    insert_rows("edge_logs", [row("one")])
    assert page(ask(admin_client, lql="c:count(*) c:group_by(t::minute)"))[0] == ["one"]


def test_addresses_are_redacted(admin_client: Client, insert_rows: Any) -> None:
    insert_rows("edge_logs", [row("one", message="from 192.0.2.7")])
    assert b"192.0.2.7" not in ask(admin_client, redact=True).content


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"lql": "m.a:"}, "invalid_lql"),
        ({"source": "nowhere"}, "invalid_exploration"),
        ({"page_token": "AAAA"}, "invalid_page_token"),
        ({"page_token": 1}, "invalid_request"),
    ],
)
def test_refusals_have_the_form_of_the_explorer(admin_client: Client, changes: Any, code: str) -> None:
    error_of(ask(admin_client, **changes), 400, code)


def test_others_are_sent_away(client: Client, db: None) -> None:
    error_of(ask(client), 401, "not_logged_in")
    error_of(ask(operator("endpoints.run_draft")), 403, "not_permitted")
