"""Tails over HTTP: pages of new rows, and nothing that the caller could not read without a tail."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conftest import ApiClient, iso

pytestmark = pytest.mark.django_db


def row(name: str, *, seconds_ago: float = 0.0, project: str = "acme", message: str = "") -> dict[str, Any]:
    return {
        "id": name,
        "project": project,
        "timestamp": iso(datetime.now(UTC) - timedelta(seconds=seconds_ago)),
        "event_message": message or name,
    }


def ask(api: ApiClient, token: str = "", **arguments: str) -> Any:
    sent = {"project": "acme", "lql": "s:event_message", "tail": "true", "page_token": token, **arguments}
    return api.query("logs.all", sent)


def messages(page: Any) -> list[str]:
    assert page.status_code == 200, page.content
    return [each["event_message"] for each in page.json()["result"]]


@pytest.fixture(autouse=True)
def no_wait(settings: Any) -> None:
    settings.ENDPOINTS_TAIL_SECONDS = 0.0


def test_the_first_page_has_the_newest_rows(api: ApiClient, insert_rows: Any) -> None:
    insert_rows("edge_logs", [row("old", seconds_ago=90), row("new", seconds_ago=1)])
    page = ask(api)
    assert messages(page) == ["new", "old"]
    assert page.json().keys() == {"result", "next"}
    assert page["X-Cache"] == "bypass"
    assert page["Cache-Control"] == "no-store"
    assert page["X-Result-Rows"] == "2"
    assert "ETag" not in page


def test_the_next_page_has_what_came_since_late_rows_included(api: ApiClient, insert_rows: Any) -> None:
    insert_rows("edge_logs", [row("first", seconds_ago=1)])
    page = ask(api)
    insert_rows("edge_logs", [row("late", seconds_ago=30), row("too late", seconds_ago=90), row("second")])
    page = ask(api, page.json()["next"])
    assert messages(page) == ["second", "late"]
    page = ask(api, page.json()["next"])
    assert messages(page) == []
    insert_rows("edge_logs", [row("third", seconds_ago=20)])
    assert messages(ask(api, page.json()["next"])) == ["third"]
