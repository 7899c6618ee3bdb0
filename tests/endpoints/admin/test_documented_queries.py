"""Every stored query that the docs show, pasted into the editor: it has types to declare, and then no error."""

from __future__ import annotations

from typing import Any, Final

import pytest
from django.test import Client
from django.urls import reverse

from tests.documented_queries import documented_queries

pytestmark = pytest.mark.django_db
QUERIES: Final = documented_queries()
TYPES: Final = {
    "project": "text",
    "min_status": "integer",
    "since": "timestamp",
}


def check(client: Client, sql: str, parameters: list[dict[str, Any]]) -> Any:
    draft = {"name": "test.documented", "sql": sql, "parameters": parameters}
    address = reverse("admin:endpoints_endpoint_draft_check")
    return client.post(address, {"draft": draft}, content_type="application/json").json()


def test_the_readme_and_the_pages_on_endpoints_show_queries() -> None:
    assert {"README.md", "endpoints.md", "operators.md"} <= {page for page, _ in QUERIES}


@pytest.mark.parametrize(("page", "sql"), QUERIES, ids=[f"{page}-{number}" for number, (page, _) in enumerate(QUERIES)])
def test_a_documented_query_can_be_saved_with_the_types_that_the_editor_declares(
    admin_client: Client, page: str, sql: str
) -> None:
    found = check(admin_client, sql, [])["parameters"]
    assert {one["name"]: one["guessed_type"] for one in found} == {one["name"]: TYPES[one["name"]] for one in found}
    declared = [{"name": one["name"], "type": one["guessed_type"]} for one in found]
    report = check(admin_client, sql, declared)
    assert report["ok"], (page, report["problems"])
    assert report["columns"]
