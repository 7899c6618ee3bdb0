"""Streams: their rows, their last line, who gets one, and what one holds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.results.encoding import CHUNK_ROWS
from endpoints.results.outcomes import ResultFormat
from tests.conftest import ApiClient

pytestmark = pytest.mark.django_db

NDJSON, CSV = ResultFormat.NDJSON.value, ResultFormat.CSV.value
NAME = "test.stream"


def numbers(rows: int, **settings: Any) -> Endpoint:
    sql = f"SELECT n, 'row ' || n AS text FROM generate_series(1, {rows}) AS n"
    return save_endpoint(Endpoint(name=NAME, sql=sql, **{"stream_rows": 1_000_000, "max_rows": 10, **settings}), [])


def lines_of(response: Any) -> list[Any]:
    return [json.loads(line) for line in b"".join(response).splitlines()]


@pytest.mark.parametrize("rows", [0, 1, CHUNK_ROWS - 1, CHUNK_ROWS, CHUNK_ROWS + 1, 5 * CHUNK_ROWS + 3])
def test_sends_every_row_and_a_last_line(api: ApiClient, rows: int) -> None:
    numbers(rows)
    response = api.query(NAME, Accept=NDJSON)
    assert response.status_code == 200
    assert response.headers["X-Cache"] == "bypass"
    *sent, last = lines_of(response)
    assert sent == [{"n": n, "text": f"row {n}"} for n in range(1, rows + 1)]
    assert last == {"end": {"rows": rows, "truncated": False, "request_id": response.headers["X-Request-ID"]}}
