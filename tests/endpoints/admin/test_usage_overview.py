"""The pages about calls: figures, charts, refusals and the audit log, of all calls or of some."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import OperationalError
from django.test import Client

from endpoints.access.access_tokens import issue_access_token
from endpoints.admin import usage_overview
from endpoints.auditing import call_queue
from endpoints.auditing.call_log import CallLog
from endpoints.cache.usage import RecentCall
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter
from tests.conftest import ApiClient

pytestmark = pytest.mark.django_db
USAGE, CALLS = "/admin/usage/", "/admin/usage/calls/"


def person(role: str) -> Client:
    user = User.objects.create_user(f"test-{role}", is_staff=True)
    user.groups.add(Group.objects.get(name=role))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def viewer(db: None) -> Client:
    return person("viewer")


def define(name: str, **settings: Any) -> Endpoint:
    return save_endpoint(Endpoint(name=name, sql="SELECT @word::text AS word", **settings), [DeclaredParameter("word")])


def text(client: Client, address: str, **query: str) -> str:
    answer = client.get(address, query)
    assert answer.status_code == 200
    return str(answer.content.decode())


@pytest.mark.parametrize("over", ["hour", "day", "week", "", "no period"])
def test_shows_calls_refusals_and_slow_arguments(audit_log: CallLog, viewer: Client, api: ApiClient, over: str) -> None:
    define("test.secret")
    define("test.open", record_argument_values=True)
    api.query("test.secret", {"word": "hidden-value"})
    api.query("test.open", {"word": "shown-<value>"})
    bound = ApiClient(issue_access_token(name="bound one", bound_arguments={"word": "mine"}).secret)
    bound.query("test.open", {"word": "yours"})
    audit_log.flush()
    for address in (USAGE, CALLS):
        assert "shown-" not in text(viewer, address, over=over)  # a viewer sees no bonds, and no values either
    page = text(person("editor"), USAGE, over=over)
    assert "Calls: 3 calls; at most" in page
    assert "word=shown-&lt;value&gt;" in page
    assert "hidden-value" not in page
    assert "argument not allowed" in page
    for name in ("test.secret", "test.open", "bound one", "test caller"):
        assert name in page
    assert "style=" not in page.split('id="over-time-title"')[1].split("</main>")[0]


def test_access_tokens_of_one_name_are_told_apart(audit_log: CallLog, viewer: Client) -> None:
    define("test.one")
    issued = [issue_access_token(name="demo") for _ in range(2)]
    for each in issued:
        for arguments in ({"word": "used"}, {"page_size": "0"}):
            ApiClient(each.secret).query("test.one", arguments)
    audit_log.flush()
    overview, calls = text(viewer, USAGE), text(viewer, CALLS)
    for prefix in (each.access_token.prefix for each in issued):
        assert f"demo ({prefix}…)" in overview, "its figures"
        named = f'demo <span class="quiet">{prefix}…</span>'
        assert named in overview, "why it was refused"
        assert calls.count(named) == 2


def test_shows_one_endpoint_or_one_access_token_alone(audit_log: CallLog, viewer: Client, api: ApiClient) -> None:
    one = define("test.one")
    define("test.other")
    api.query("test.one")
    api.query("test.other")
    audit_log.flush()
    page = text(viewer, USAGE, endpoint=str(one.pk))
    assert "Calls: 1 call;" in page
    assert text(viewer, CALLS, endpoint=str(one.pk)).count("<time") == 1
    assert text(viewer, CALLS, token="ffffffffffff").count("<time") == 0


@pytest.mark.parametrize(
    "query",
    [
        {"endpoint": "' OR true --"}, {"token": "\0"}, {"token": "'; DROP TABLE endpoints_call; --"},
        {"before": "nan"}, {"before": "1e300"}, {"before": "-1e18"}, {"only": "other"}, {"over": "\0"},
    ],
)  # fmt: skip
def test_an_address_that_was_tampered_with_is_harmless(viewer: Client, query: dict[str, str]) -> None:
    text(viewer, USAGE, **query)
    text(viewer, CALLS, **query)


def test_lists_the_calls_page_by_page(audit_log: CallLog, viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_overview, "CALLS_ON_A_PAGE", 3)
    now = datetime.now(UTC).timestamp()
    for number in range(7):
        call = RecentCall(now - number, "reports", "0123456789ab", 200, "", 1, 2.0, "hit", 1)
        call_queue.note((call, None, f"request-{number}", "query", {}, False))
    audit_log.flush()
    seen: list[str] = []
    answer = viewer.get(CALLS)
    while True:
        seen += [row.call.request_id for row in answer.context["calls"]]
        if not answer.context["older"]:
            break
        answer = viewer.get(answer.context["older"])
    assert seen == [f"request-{number}" for number in range(7)]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT 1 / (length(@word) - 1) AS n", "division by zero (SQLSTATE 22012)"),
        (
            "SELECT ('secret' || @word)::int AS n",
            "invalid input syntax for type integer: QUOTED (SQLSTATE 22P02)",
        ),
        (
            "SELECT ('2026-13-0' || @word)::date AS n",
            "date/time field value out of range: QUOTED (SQLSTATE 22008)",
        ),
        ("SELECT convert_from(decode('c' || @word, 'hex'), 'UTF8') AS n", "QUOTED: … (SQLSTATE 22021)"),
        ("SELECT chr(1114199 + length(@word)) AS n", "requested character too large for encoding: … (SQLSTATE 54000)"),
    ],
)
def test_says_in_postgresqls_words_why_a_stored_query_failed_and_no_value(
    audit_log: CallLog, viewer: Client, api: ApiClient, sql: str, said: str
) -> None:
    save_endpoint(Endpoint(name="test.failing", sql=sql), [DeclaredParameter("word")])
    answer = api.query("test.failing", {"word": "0"})
    assert answer.status_code == 500
    said = said.replace("QUOTED", '"…"')
    assert said.partition(" (")[0].encode() not in answer.content
    audit_log.flush()
    content = html.unescape(viewer.get(CALLS).content.decode())
    assert "stored query failed: " in content
    assert said in content
    assert not re.search("secret0|2026-13|xc0|1114200", content)
    calls = {row.call.request_id: row.call for row in viewer.get(CALLS).context["calls"]}
    call = calls[answer["X-Request-ID"]]
    assert call.reason.endswith(f"(SQLSTATE {said[-6:]}")


def test_says_nothing_of_the_queries_of_consumers(audit_log: CallLog, viewer: Client, api: ApiClient) -> None:
    save_endpoint(Endpoint(name="test.open", sql="WITH t AS (SELECT 0 AS n) SELECT n FROM t", sandboxing=True), [])
    assert api.query("test.open", {"sql": "select 1 / n from t"}).status_code == 400
    audit_log.flush()
    assert viewer.get(CALLS).context["calls"][0].call.reason == ""


def test_says_that_the_database_does_not_answer(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise OperationalError("away")

    monkeypatch.setattr(usage_overview, "usage_over", away)
    monkeypatch.setattr(usage_overview, "recorded_calls", away)
    for address in (USAGE, CALLS):
        assert "does not answer in time" in text(viewer, address)


def test_an_empty_log_has_empty_charts(audit_log: CallLog, viewer: Client) -> None:
    page = text(viewer, USAGE)
    assert page.count("Nothing in this time.") == 4
    assert "Nobody was refused in this time." in page


def test_nobody_without_the_permission_of_the_usage_figures(db: None) -> None:
    client = Client()
    client.force_login(User.objects.create_user("test-nobody", is_staff=True))
    assert [client.get(address).status_code for address in (USAGE, CALLS)] == [403, 403]
