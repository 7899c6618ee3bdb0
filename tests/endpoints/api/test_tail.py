"""Tails over HTTP: pages of new rows, and nothing that the caller could not read without a tail."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from endpoints.access.access_tokens import issue_access_token
from endpoints.defining.saving import save_endpoint
from endpoints.definition import values_of
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.conftest import ApiClient, LogRow, iso

pytestmark = pytest.mark.django_db
Insert = Callable[[str, Sequence[LogRow]], None]


def row(name: str, *, seconds_ago: float = 0.0, project: str = "acme", message: str = "") -> dict[str, Any]:
    return {
        "id": name,
        "project": project,
        "timestamp": iso(datetime.now(UTC) - timedelta(seconds=seconds_ago)),
        "event_message": message or name,
    }


def ask(api: ApiClient, token: str = "", endpoint: str = "logs.all", **arguments: str) -> Any:
    sent = {"project": "acme", "lql": "s:event_message", "tail": "true", "page_token": token, **arguments}
    return api.query(endpoint, {name: value for name, value in sent.items() if value})


def messages(page: Any) -> list[str]:
    assert page.status_code == 200, page.content
    return [each["event_message"] for each in page.json()["result"]]


def next_of(page: Any) -> str:
    assert page.status_code == 200, page.content
    return str(page.json()["next"])


def error(page: Any, status: int = 400) -> dict[str, Any]:
    assert page.status_code == status, page.content
    found: dict[str, Any] = page.json()["error"]
    return found


def save_like_logs_all(name: str, **changes: Any) -> None:
    """Save an endpoint like logs.all but for these settings."""
    original = Endpoint.objects.get(name="logs.all")
    save_endpoint(Endpoint(**{**values_of(original), "name": name, **changes}), original.parameters_of_version)


def save_again() -> None:
    """Save logs.all as a new version."""
    endpoint = Endpoint.objects.get(name="logs.all")
    endpoint.max_rows = 7
    save_endpoint(endpoint, endpoint.parameters_of_version)


@pytest.fixture(autouse=True)
def no_late_row(settings: Any) -> None:
    settings.ENDPOINTS_TAIL_LATE_SECONDS = 600.0  # however slow the machine is


# --- Pages ------------------------------------------------------------------------------------------------------------
def test_the_first_page_has_the_newest_rows(api: ApiClient, insert_rows: Insert) -> None:
    insert_rows("edge_logs", [row("old", seconds_ago=90), row("new", seconds_ago=1)])
    page = ask(api)
    assert messages(page) == ["new", "old"]
    assert page.json().keys() == {"result", "next"}
    assert page["X-Cache"] == "bypass"
    assert page["Cache-Control"] == "no-store"
    assert page["X-Result-Rows"] == "2"
    assert "ETag" not in page


def test_the_next_page_has_what_came_since_late_rows_included(api: ApiClient, insert_rows: Insert) -> None:
    insert_rows("edge_logs", [row("first", seconds_ago=1)])
    page = ask(api)
    insert_rows("edge_logs", [row("late", seconds_ago=300), row("too late", seconds_ago=900), row("second")])
    page = ask(api, next_of(page))
    assert messages(page) == ["second", "late"]
    assert "Retry-After" not in page
    page = ask(api, next_of(page))
    assert messages(page) == []
    assert page["Retry-After"] == "2"
    insert_rows("edge_logs", [row("third", seconds_ago=20)])
    assert messages(ask(api, next_of(page))) == ["third"]


def test_a_token_may_be_used_again_and_is_answered_from_its_place(api: ApiClient, insert_rows: Insert) -> None:
    token = next_of(ask(api))
    insert_rows("edge_logs", [row("one")])
    assert messages(ask(api, token)) == messages(ask(api, token)) == ["one"]


def test_a_token_of_a_post_stands_in_the_body(api: ApiClient, insert_rows: Insert) -> None:
    token = next_of(ask(api))
    insert_rows("edge_logs", [row("one")])
    for word in ("true", True):
        body = {"project": "acme", "lql": "s:event_message", "tail": word, "page_token": token}
        assert messages(api.post("/api/endpoints/query/logs.all", body, content_type="application/json")) == ["one"]


def test_more_rows_than_a_page_has_come_in_the_following_ones_oldest_first(api: ApiClient, insert_rows: Insert) -> None:
    save_like_logs_all("few.rows", max_rows=3)
    token = next_of(ask(api, endpoint="few.rows"))
    insert_rows("edge_logs", [row(str(number), seconds_ago=20 - number) for number in range(8)])
    found = []
    for truncated in (True, True, False):
        page = ask(api, token, endpoint="few.rows")
        assert ("X-Result-Truncated" in page) == truncated
        found.append(messages(page))
        token = next_of(page)
    assert found == [["2", "1", "0"], ["5", "4", "3"], ["7", "6"]]
    assert messages(ask(api, token, endpoint="few.rows")) == []


def test_rows_of_one_moment_come_once_each(api: ApiClient, insert_rows: Insert) -> None:
    save_like_logs_all("few.rows", max_rows=2)
    token = next_of(ask(api, endpoint="few.rows"))
    moment = row("any")["timestamp"]
    names = ["a", "B", "ä", "Z", "z", "0"]
    insert_rows("edge_logs", [{**row(name), "timestamp": moment} for name in names])
    found: list[str] = []
    for _ in range(4):
        page = ask(api, token, endpoint="few.rows")
        found += messages(page)
        token = next_of(page)
    assert sorted(found) == sorted(names)


def test_selected_columns_alone_are_shown(api: ApiClient, insert_rows: Insert) -> None:
    insert_rows("edge_logs", [{**row("one"), "metadata": [{"level": "error"}]}])
    (found,) = ask(api, lql="s:m.level s:event_message@timestamp").json()["result"]
    assert found == {"metadata.level": "error", "timestamp": "one"}


def test_timestamps_have_the_form_of_the_endpoint(api: ApiClient, insert_rows: Insert) -> None:
    save_like_logs_all("micros", timestamps_as="unix_microseconds")
    insert_rows("edge_logs", [row("one")])
    (found,) = ask(api, endpoint="micros", lql="s:timestamp s:id").json()["result"]
    assert isinstance(found["timestamp"], int)


# --- Refusals ---------------------------------------------------------------------------------------------------------
REFUSED = {
    "no lql": ({"lql": ""}, "invalid_request", "send one"),
    "sql": ({"lql": "", "sql": "select 1"}, "invalid_request", "does not take `sql`"),
    "both": ({"sql": "select 1"}, "ambiguous_sandbox_query", "not both"),
    "a chart": ({"lql": "c:count(*) c:group_by(t::minute)"}, "invalid_lql", "Leave the chart out"),
    "a word": ({"tail": "perhaps"}, "invalid_request", ""),
    "a token of nobody": ({"page_token": "AAAA"}, "invalid_page_token", "begin again without it"),
    "no token at all": ({"page_token": "ü" * 40}, "invalid_page_token", "begin again without it"),
    "a huge token": ({"page_token": "A" * 40_000}, "invalid_page_token", "begin again without it"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_what_is_no_tail_with_words(api: ApiClient, case: str) -> None:
    arguments, code, words = REFUSED[case]
    found = error(ask(api, **arguments))
    assert found["code"] == code
    assert words in found["message"]


def test_refuses_tables_whose_rows_have_no_place(api: ApiClient) -> None:
    found = error(ask(api, endpoint="usage.api-counts", interval="daily", lql="f:chart_counts"))
    assert found["code"] == "invalid_lql"
    assert "`timestamp`, a timestamptz, and `id`" in found["message"]


def test_refuses_endpoints_without_sandboxing(api: ApiClient) -> None:
    save_endpoint(Endpoint(name="closed", sql="SELECT 1 AS one"), [])
    assert error(ask(api, endpoint="closed"))["code"] == "sandbox_disabled"


def test_pages_are_json(api: ApiClient) -> None:
    sent = {"project": "acme", "lql": "s:event_message", "tail": "true"}
    response = api.query("logs.all", sent, Accept="text/csv")
    assert error(response, 406)["code"] == "not_acceptable"


def test_false_is_a_call_like_any_other(api: ApiClient, insert_rows: Insert) -> None:
    insert_rows("edge_logs", [row("one")])
    page = ask(api, tail="false")
    assert page.json().keys() == {"result"}


def test_a_parameter_of_that_name_comes_first(api: ApiClient) -> None:
    save_endpoint(Endpoint(name="shows", sql="SELECT @tail AS tail"), [DeclaredParameter("tail")])
    assert api.query("shows", {"tail": "true"}).json() == {"result": [{"tail": "true"}]}


def test_a_list_of_that_name_is_a_parameter_like_any_other(api: ApiClient) -> None:
    save_endpoint(
        Endpoint(name="shows", sql="SELECT @tail::text[] AS tail"),
        [DeclaredParameter("tail", ParameterType.TEXT_LIST)],
    )
    assert api.query("shows", {"tail": ["a", "b"]}).json() == {"result": [{"tail": ["a", "b"]}]}
    found = api.query("logs.all", {"project": "acme", "lql": "x", "tail": ["true", "true"]})
    assert error(found)["details"] == [{"name": "tail", "reason": "must be true or false"}]


# --- Attempts to get around the walls ---------------------------------------------------------------------------------
def test_rows_of_another_project_never_come(api: ApiClient, insert_rows: Insert) -> None:
    insert_rows("edge_logs", [row("theirs", project="globex")])
    page = ask(api)
    assert messages(page) == []
    insert_rows("edge_logs", [row("theirs again", project="globex"), row("ours")])
    assert messages(ask(api, next_of(page))) == ["ours"]


OTHERS: Mapping[str, Mapping[str, str]] = {
    "project": {"project": "globex"},
    "query": {"lql": "s:id"},
    "table": {"lql": "f:auth_logs s:event_message"},
    "window": {"iso_timestamp_start": "2020-01-01"},
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_token_is_of_no_use_for_another_tail(api: ApiClient, other: str) -> None:
    assert error(ask(api, next_of(ask(api)), **OTHERS[other]))["code"] == "invalid_page_token"


def test_a_token_is_of_no_use_to_another_caller(api: ApiClient) -> None:
    other = ApiClient(issue_access_token(name="other caller").secret)
    assert error(ask(other, next_of(ask(api))))["code"] == "invalid_page_token"


def test_a_token_is_of_no_use_without_the_redaction_that_it_began_with(api: ApiClient) -> None:
    sent = {"project": "acme", "lql": "s:event_message", "tail": "true"}
    token = next_of(api.query("logs.all", sent, SVC_Endpoint_Redact_PII="true"))
    assert error(ask(api, token))["code"] == "invalid_page_token"


def test_a_token_is_of_no_use_for_another_version(api: ApiClient) -> None:
    token = next_of(ask(api))
    save_again()
    assert error(ask(api, token))["code"] == "invalid_page_token"


def test_a_token_of_another_installation_is_of_no_use(api: ApiClient, settings: Any) -> None:
    token = next_of(ask(api))
    settings.SECRET_KEY = "another key of at least forty characters, all of them known"
    assert error(ask(api, token))["code"] == "invalid_page_token"


def test_no_byte_of_a_token_can_be_changed(api: ApiClient, insert_rows: Insert) -> None:
    insert_rows("edge_logs", [row("one")])
    token = next_of(ask(api))
    sealed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    for place in range(0, len(sealed), 5):
        changed = bytearray(sealed)
        changed[place] ^= 1
        sent = base64.urlsafe_b64encode(changed).decode().rstrip("=")
        assert error(ask(api, sent))["code"] == "invalid_page_token"
    assert error(ask(api, token[: len(token) // 2]))["code"] == "invalid_page_token"


def test_a_token_does_not_show_the_ids_in_it(api: ApiClient, insert_rows: Insert) -> None:
    insert_rows("edge_logs", [row(f"someone@example.org {number}") for number in range(5)])
    token = next_of(ask(api))
    assert b"example" not in base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))


def test_a_bound_argument_holds_for_tails(insert_rows: Insert) -> None:
    bound = ApiClient(issue_access_token(name="bound", bound_arguments={"project": "acme"}).secret)
    insert_rows("edge_logs", [row("theirs", project="globex"), row("ours")])
    assert error(ask(bound, project="globex"), 403)["code"] == "argument_not_allowed"
    page = ask(bound, project="")
    assert messages(page) == ["ours"]
    assert error(ask(bound, next_of(page), project="globex"), 403)["code"] == "argument_not_allowed"


def test_an_endpoint_that_the_caller_may_not_call_is_not_found() -> None:
    save_endpoint(Endpoint(name="allowed", sql="SELECT 1 AS one"), [])
    limited = ApiClient(issue_access_token(name="limited", endpoint_names=["allowed"]).secret)
    assert error(ask(limited), 404)["code"] == "endpoint_not_found"


def test_addresses_are_redacted_in_pages(api: ApiClient, insert_rows: Insert) -> None:
    insert_rows("edge_logs", [row("one", message="from 192.0.2.7")])
    sent = {"project": "acme", "lql": "s:event_message", "tail": "true"}
    page = api.query("logs.all", sent, SVC_Endpoint_Redact_PII="true")
    assert messages(page) == ["from REDACTED"]


def test_a_filter_of_the_consumer_holds_for_late_rows_too(api: ApiClient, insert_rows: Insert) -> None:
    token = next_of(ask(api, lql="ours s:event_message"))
    insert_rows("edge_logs", [row("1", message="ours"), row("2", message="theirs"), row("3", message="ours, late")])
    assert sorted(messages(ask(api, token, lql="ours s:event_message"))) == ["ours", "ours, late"]


def test_a_page_has_a_budget_of_bytes(api: ApiClient, insert_rows: Insert, settings: Any) -> None:
    settings.ENDPOINTS_SANDBOX_MAX_BYTES = 2_000
    token = next_of(ask(api))
    insert_rows("edge_logs", [row(str(number), message="x" * 500) for number in range(6)])
    assert error(ask(api, token))["code"] == "invalid_lql"
