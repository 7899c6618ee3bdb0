"""X-Result-Truncated: limit, where the stored query's own LIMIT is reached: there may be more rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from endpoints.access.access_tokens import issue_access_token
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.conftest import ApiClient
from tests.endpoints.api.conftest import Ask

pytestmark = pytest.mark.django_db
HEADER = "X-Result-Truncated"
SERIES = "SELECT n FROM generate_series(1, @rows::int) AS n"


def save(sql: str, **settings: Any) -> None:
    parameters = [DeclaredParameter(name, type=ParameterType.INTEGER) for name in ("rows", "most") if f"@{name}" in sql]
    save_endpoint(Endpoint(name="limited", sql=sql, **settings), parameters)


CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], str | None]] = {
    "below": (f"{SERIES} LIMIT 5", {}, {"rows": 4}, None),
    "just reached, and no more there": (f"{SERIES} LIMIT 5", {}, {"rows": 5}, "limit"),
    "more there": (f"{SERIES} LIMIT 5", {}, {"rows": 50}, "limit"),
    "no rows": (f"{SERIES} LIMIT 5", {}, {"rows": 0}, None),
    "a limit of none": (f"{SERIES} LIMIT 0", {}, {"rows": 5}, None),
    "no limit": (SERIES, {}, {"rows": 5}, None),
    "max rows cut first": (f"{SERIES} LIMIT 5", {"max_rows": 4}, {"rows": 5}, "true"),
    "max rows and the limit are one": (f"{SERIES} LIMIT 5", {"max_rows": 5}, {"rows": 9}, "limit"),
    "an argument": (f"{SERIES} LIMIT @most", {}, {"rows": 9, "most": 3}, "limit"),
    "an argument that is not reached": (f"{SERIES} LIMIT @most", {}, {"rows": 9, "most": 10}, None),
    "no argument: all rows": (f"{SERIES} LIMIT @most", {}, {"rows": 9}, None),
    "behind an offset": (f"{SERIES} LIMIT 5 OFFSET 3", {}, {"rows": 7}, None),
    "an inner limit": (f"SELECT * FROM ({SERIES} LIMIT 5) AS inner_rows", {}, {"rows": 7}, None),
}


@pytest.mark.parametrize("case", CASES)
def test_says_whether_there_may_be_more(api: ApiClient, case: str) -> None:
    sql, settings, arguments, expected = CASES[case]
    save(sql, **settings)
    assert api.query("limited", arguments).headers.get(HEADER) == expected


@pytest.mark.parametrize("accept", ["application/json", "text/csv", "application/vnd.apache.parquet"])
def test_a_cached_answer_says_it_too(api: ApiClient, accept: str) -> None:
    save(f"{SERIES} LIMIT 5", cache_seconds=60)
    answers = [api.query("limited", {"rows": 9}, accept=accept) for _ in range(2)]
    assert [(each["X-Cache"], each[HEADER]) for each in answers] == [("miss", "limit"), ("hit", "limit")]
    known = api.query("limited", {"rows": 9}, accept=accept, if_none_match=answers[0]["ETag"])
    assert (known.status_code, known[HEADER]) == (304, "limit")


def test_the_way_before_django_says_it_too(ask: Ask, secret: str) -> None:
    save(f"{SERIES} LIMIT 5", cache_seconds=60)
    for _ in range(3):
        _, headers, _ = ask("rows=6", path="/api/endpoints/query/limited", x_api_key=secret)
        assert headers[HEADER] == "limit"


def test_a_page_has_a_next_one_instead(api: ApiClient) -> None:
    save(f"{SERIES} LIMIT 5", page_order="n")
    first = api.query("limited", {"rows": 9, "page_size": 5})
    assert (HEADER in first, "Link" in first) == (False, True)
    assert api.query("limited", {"rows": 9})[HEADER] == "limit"


def test_neither_a_stream_nor_a_sandbox_query_says_it(api: ApiClient) -> None:
    sql = "WITH numbers AS (SELECT n FROM generate_series(1, 9) AS n) SELECT n FROM numbers LIMIT 5"
    save(sql, sandboxing=True, stream_rows=100)
    stream = api.query("limited", accept="text/csv")
    assert HEADER not in stream
    assert b"".join(stream)
    assert HEADER not in api.query("limited", {"sql": "select n from numbers limit 5"})


def test_logs_all_says_it_of_its_hundred_newest_rows(insert_rows: Callable[..., None]) -> None:
    row = {"timestamp": "2026-11-23T00:00:00Z", "event_message": "m"}
    insert_rows("edge_logs", [{**row, "project": "acme"} for _ in range(100)])
    insert_rows("edge_logs", [{**row, "project": "globex"} for _ in range(50)])
    for project, expected in (("acme", "limit"), ("globex", None)):
        bound = ApiClient(issue_access_token(name=project, bound_arguments={"project": project}).secret)
        assert bound.query("logs.all").headers.get(HEADER) == expected
