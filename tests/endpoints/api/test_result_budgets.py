"""A result is as large as its body: what escapes, names and separators add is counted while it is written."""

from __future__ import annotations

from typing import Any

import pytest

from endpoints.calling.query_requests import Call
from endpoints.defining.drafts import Draft, run_draft
from endpoints.defining.saving import save_endpoint
from endpoints.errors import EndpointError, InvalidLQL, InvalidSQL, ResultTooLarge
from endpoints.models import Endpoint
from tests.conftest import ApiClient

pytestmark = pytest.mark.django_db
BUDGET = 256 * 1024
ROWS = 2_000
NAMES = ", ".join(f"1 AS a_name_of_fifty_characters_that_comes_with_each_row_{number:03}" for number in range(240))
# Each of them within the budget as PostgreSQL writes it, and far beyond it as a body.
SWOLLEN = {
    "control characters": "SELECT repeat(E'\\x01', 200000) AS text",
    "control characters in many rows": f"SELECT repeat(E'\\x01', 100) AS text FROM generate_series(1, {ROWS})",
    "names": f"SELECT {NAMES} FROM generate_series(1, 30)",
    "names in many rows": f"SELECT {NAMES} FROM generate_series(1, {ROWS})",
    "narrow values": f"SELECT 1 AS a, NULL AS b, '' AS c, true AS d FROM generate_series(1, {8 * ROWS})",
}


# For readers of the sandbox, who may not call repeat().
CONTROLS = r"\x01" * 1_000
TEXTS = f"WITH texts AS (SELECT E'{CONTROLS}' AS text FROM generate_series(1, 200)) SELECT text FROM texts"


@pytest.fixture(autouse=True)
def small_budgets(settings: Any) -> None:
    settings.ENDPOINTS_SANDBOX_MAX_BYTES = BUDGET
    settings.ENDPOINTS_MAX_RESULT_BYTES = BUDGET


def endpoint_of(sql: str) -> Endpoint:
    sandboxing = sql.startswith("WITH")
    return save_endpoint(Endpoint(name="test.swollen", sql=sql, max_rows=100_000, sandboxing=sandboxing), [])


def assert_over_budget(response: Any, error: type[EndpointError]) -> None:
    assert response.status_code == 400, response.content[:1000]
    answer = response.json()["error"]
    assert answer["code"] == error.code
    assert "The result is larger than 0.25 MiB." in answer["message"]
    assert answer["details"][0]["hint"] in answer["message"]


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson", "text/csv"])
@pytest.mark.parametrize("sql", SWOLLEN.values(), ids=SWOLLEN)
def test_a_stored_query_has_a_budget(api: ApiClient, sql: str, accept: str) -> None:
    endpoint_of(sql)
    response = api.query("test.swollen", Accept=accept)
    if accept == "text/csv" and ("E'" in sql or "generate_series(1, 30)" in sql):
        assert response.status_code == 200  # neither escapes nor names with each row
        assert len(response.content) < BUDGET
    else:
        assert_over_budget(response, ResultTooLarge)


@pytest.mark.parametrize(
    "sql", ["select text from texts", SWOLLEN["names"], SWOLLEN["names in many rows"], SWOLLEN["narrow values"]]
)
def test_a_sandbox_query_has_a_budget(api: ApiClient, sql: str) -> None:
    endpoint_of(TEXTS)
    assert_over_budget(api.query("test.swollen", {"sql": sql}), InvalidSQL)


def test_lql_has_a_budget(api: ApiClient) -> None:
    endpoint_of(TEXTS)
    assert_over_budget(api.query("test.swollen", {"lql": "f:texts s:text"}), InvalidLQL)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (Call(), ResultTooLarge),
        (Call(sandbox_sql="select text from texts"), InvalidSQL),
        (Call(sandbox_lql="f:texts s:text"), InvalidLQL),
    ],
)
def test_a_draft_has_the_budget_of_what_it_tries(call: Call, error: type[EndpointError]) -> None:
    draft = Draft(sql=TEXTS, sandboxing=True, max_rows=10_000)
    with pytest.raises(error, match=r"The result is larger than 0\.25 MiB"):
        run_draft(draft, call=call, run_id="test-budget")


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson", "text/csv"])
def test_what_is_within_the_budget_is_answered_whole(api: ApiClient, accept: str) -> None:
    endpoint_of(f"SELECT n, repeat('x', 80) AS text FROM generate_series(1, {ROWS}) AS n")
    response = api.query("test.swollen", Accept=accept)
    assert (response.status_code, response["X-Result-Rows"]) == (200, str(ROWS))
    assert response.content.count(b"x" * 80) == ROWS


def test_the_next_call_is_answered(api: ApiClient) -> None:
    endpoint_of(SWOLLEN["names in many rows"])
    for _ in range(20):  # more than there are connections
        assert_over_budget(api.query("test.swollen"), ResultTooLarge)
    assert api.query("logs.all", {"project": "acme"}).status_code == 200
