"""Pages over HTTP: walked to the end by token and by Link, refused in words, and closed to what others may see."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conftest import ApiClient

pytestmark = pytest.mark.usefixtures("log_database")
MOMENT = datetime(2025, 6, 2, 8, 15, 2, 120450, tzinfo=UTC)


@pytest.fixture
def stored(insert_rows: Callable[..., None]) -> list[str]:
    """Ids of the 250 rows of acme, the newest first; five at a time have the same microsecond."""
    rows = [
        {"id": f"{number:03}", "timestamp": MOMENT + timedelta(microseconds=number // 5), "project": project}
        for number in range(250)
        for project in ("acme", "globex")
    ]
    insert_rows("edge_logs", rows)
    return [f"{number:03}" for number in reversed(range(250))]


def walk(api: ApiClient, endpoint: str, arguments: Mapping[str, Any], **headers: str) -> Iterator[Any]:
    """Yield the body of each page until there is no next one."""
    token = ""
    while True:
        response = api.query(endpoint, {**arguments, "page_token": token}, **headers)
        assert response.status_code == 200, response.content
        body = response.json()
        yield body
        token = body["next"]
        if token is None:
            return


@pytest.mark.parametrize("size", [1, 7, 100, 125, 249, 250, 251, 1000])
def test_a_walk_returns_every_row_once_in_order(api: ApiClient, stored: list[str], size: int) -> None:
    pages = [page["result"] for page in walk(api, "logs.all", {"project": "acme", "page_size": size})]
    assert [row["id"] for page in pages for row in page] == stored
    assert all(len(page) == size for page in pages[:-1])
