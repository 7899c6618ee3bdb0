"""Calls of tools: the rows, how they are cut, errors for the agent, and everything that limits a caller."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django_redis import get_redis_connection
from mcp_types import methods

from endpoints.access.access_tokens import issue_access_token, revoke_access_tokens
from endpoints.access.change_marker import CHANGING_KEY
from endpoints.api.mcp.protocol import REVISIONS
from endpoints.api.mcp.tools import RESULT_BYTES, RESULT_ROWS, first_lines
from endpoints.cache import usage
from endpoints.cache.usage import recent_calls
from endpoints.defining.saving import save_endpoint
from endpoints.models import AccessToken, Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.conftest import ApiClient
from tests.endpoints.api.mcp.agents import WITH_HANDSHAKE, Agent
from tests.endpoints.conftest import age_results
from tests.files import CASES
from tests.moments import now

pytestmark = pytest.mark.django_db


@pytest.fixture
def rows(insert_rows: Callable[..., None]) -> None:
    """Two rows of acme, one of globex."""
    for number, project in enumerate(("acme", "globex", "acme")):
        message = f"{project} {number} from 203.0.113.{number}"
        insert_rows(
            "edge_logs",
            [{"timestamp": now() - timedelta(minutes=number), "project": project, "event_message": message}],
        )


@pytest.fixture
def agent(secret: str) -> Agent:
    return Agent(secret)


@pytest.fixture
def bound(db: None) -> Agent:
    """An agent that is bound to the project acme."""
    return Agent(issue_access_token(name="acme's agent", bound_arguments={"project": "acme"}).secret)


@pytest.fixture
def series(db: None) -> Endpoint:
    """An endpoint of as many rows, each of as many characters, as its caller wants."""
    sql = "SELECT n, repeat('x', @width::int) AS filling FROM generate_series(1, @rows) AS n"
    parameters = [DeclaredParameter(name=name, type=ParameterType.INTEGER, required=True) for name in ("rows", "width")]
    return save_endpoint(Endpoint(name="series", sql=sql, max_rows=1000), parameters)


def messages(found: list[dict[str, Any]]) -> list[str]:
    return [row["event_message"] for row in found]


# --- Rows -------------------------------------------------------------------------------------------------------------
def test_returns_the_rows_of_the_query_route(agent: Agent, api: ApiClient, rows: None) -> None:
    expected = api.query("logs.all", {"project": "acme"}).json()["result"]
    assert len(expected) == 2
    assert agent.rows("logs.all", {"project": "acme"}) == expected


@pytest.mark.parametrize("revision", REVISIONS)
def test_is_what_the_specification_says(secret: str, rows: None, revision: str) -> None:
    result = Agent(secret, revision).call("logs.all", {"project": "acme"})
    methods.validate_server_result("tools/call", revision, result)
    (content,) = result["content"]
    assert content["type"] == "text"
    document = json.loads(content["text"])
    assert document.keys() == {"result"}
    assert result["structuredContent"] == document


def test_keeps_every_digit(agent: Agent) -> None:
    save_endpoint(
        Endpoint(
            name="digits", sql="SELECT 0.1000000000000000000000000001::numeric AS n, '{\"a\": 1e400}'::jsonb AS j"
        ),
        [],
    )
    text = agent.call("digits")["content"][0]["text"]
    assert '"n":0.1000000000000000000000000001' in text
    assert f'"a": 1{"0" * 400}' in text


@pytest.mark.parametrize("query", [{"sql": "select event_message from edge_logs"}, {"lql": "s:event_message"}])
def test_runs_sandbox_queries(agent: Agent, rows: None, query: dict[str, str]) -> None:
    found = agent.rows("logs.all", {"project": "globex", **query})
    assert found == [{"event_message": "globex 1 from 203.0.113.1"}]


def test_ignores_the_query_string_and_the_formats_of_the_request(secret: str, rows: None) -> None:
    client = Client(headers={"X-API-KEY": secret, "Accept": "application/json", "MCP-Protocol-Version": "2025-11-25"})
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "logs.all", "arguments": {"project": "acme"}},
    }
    answer = client.post("/mcp?project=globex&sql=select+1", body, content_type="application/json").json()
    assert len(json.loads(answer["result"]["content"][0]["text"])["result"]) == 2


def test_results_come_from_the_cache(agent: Agent) -> None:
    save_endpoint(Endpoint(name="drawn", sql="SELECT random() AS number", cache_seconds=60), [])
    assert agent.rows("drawn") == agent.rows("drawn")


# --- Cut results ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "most", "most_bytes", "lines"),
    [
        (b"", 5, 5, []),
        (b"a\nb\n", 5, 5, [b"a", b"b"]),
        (b"a\nb\n", 1, 5, [b"a"]),
        (b"a\nb\n", 0, 5, []),
        (b"aa\nbb\nc\n", 5, 4, [b"aa", b"bb"]),
        (b"aa\nbbb\nc\n", 5, 4, [b"aa"]),  # never a row without those before it
        (b"aaaaa\nb\n", 5, 4, []),
    ],
)
def test_takes_whole_lines_from_the_beginning(body: bytes, most: int, most_bytes: int, lines: list[bytes]) -> None:
    assert first_lines(body, most=most, most_bytes=most_bytes) == lines


@pytest.mark.parametrize(
    ("wanted", "width", "shown", "note"),
    [
        (RESULT_ROWS, 1, RESULT_ROWS, ""),
        (RESULT_ROWS + 1, 1, RESULT_ROWS, f"Only the first {RESULT_ROWS} of {RESULT_ROWS + 1} rows are here"),
        (100, 1000, 64, "Only the first 64 of 100 rows are here"),
        (2, RESULT_BYTES, 0, "Only the first 0 of 2 rows are here"),
        (1000, 1, RESULT_ROWS, f"Only the first {RESULT_ROWS} of 1000 rows are here"),
        (1001, 1, RESULT_ROWS, "The query has more rows than the 1000 that this endpoint returns."),
        (0, 1, 0, ""),
    ],
)
def test_cuts_results_and_says_so(
    agent: Agent, series: Endpoint, wanted: int, width: int, shown: int, note: str
) -> None:
    document = agent.call("series", {"rows": wanted, "width": width})["structuredContent"]
    assert [row["n"] for row in document["result"]] == list(range(1, shown + 1))
    assert len(json.dumps(document["result"], separators=(",", ":"))) <= RESULT_BYTES + RESULT_ROWS + 2
    assert ("note" in document) == bool(note)
    assert note in document.get("note", "")


def test_says_how_to_get_fewer_rows_where_sandbox_queries_are_allowed(agent: Agent, series: Endpoint) -> None:
    sent = {"rows": 999, "width": 1}
    assert "sql" not in agent.call("series", sent)["structuredContent"]["note"]
    sql = "WITH t AS (SELECT n FROM generate_series(1, 999) AS n) SELECT n FROM t"
    save_endpoint(Endpoint(name="open", sql=sql, sandboxing=True), [])
    assert "filter or count with sql or lql" in agent.call("open")["structuredContent"]["note"]
    document = agent.call("open", {"sql": "select count(*) as n from t"})["structuredContent"]
    assert document == {"result": [{"n": 999}]}


def test_says_that_the_stored_query_stopped_at_its_own_limit(agent: Agent) -> None:
    sql = "SELECT n, @format AS format FROM generate_series(1, 9) AS n LIMIT 2"
    save_endpoint(Endpoint(name="limited", sql=sql), [])
    document = agent.call("limited", {"format": "csv"})["structuredContent"]
    assert document["result"] == [{"n": 1, "format": "csv"}, {"n": 2, "format": "csv"}]
    assert document["note"] == "The stored query stops at 2 rows; there may be more."


# --- Errors -----------------------------------------------------------------------------------------------------------
def test_errors_are_those_of_the_query_route(agent: Agent, api: ApiClient) -> None:
    sent = {"interval": "weekly"}
    expected = api.query("usage.api-counts", sent).json()["error"]
    error = agent.failure("usage.api-counts", sent)
    assert error["details"] == expected["details"]
    assert {detail["name"] for detail in error["details"]} == {"interval", "project"}
    assert (error["code"], error["message"]) == (expected["code"], expected["message"])


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("logs.all", {}, "invalid_parameters"),
        ("logs.all", {"project": ["acme", "globex"]}, "invalid_parameters"),
        ("logs.all", {"project": {"x": 1}}, "invalid_parameters"),
        ("logs.all", {"project": "a\0b"}, "invalid_request"),
        ("logs.all", {"project": "acme", "sql": 1}, "invalid_request"),
        ("logs.all", {"project": "acme", "sql": "select 1", "lql": "id:a"}, "ambiguous_sandbox_query"),
        ("logs.all", {"project": "acme", "sql": "select * from pg_class"}, "sandbox_violation"),
        ("logs.all", {"project": "acme", "sql": "select nothing from edge_logs"}, "invalid_sql"),
        ("logs.all", {"project": "acme", "lql": "c:"}, "invalid_lql"),
        ("series", {"rows": 1, "width": 1, "sql": "select 1"}, "sandbox_disabled"),
        ("series", {"rows": "many", "width": 1}, "invalid_parameters"),
        ("broken", {}, "stored_query_failed"),
        ("slow", {}, "query_timeout"),
    ],
)
def test_failures_are_results_of_the_tool(
    agent: Agent, series: Endpoint, name: str, arguments: dict[str, Any], code: str
) -> None:
    save_endpoint(Endpoint(name="broken", sql="SELECT 1 / (random() * 0)::int AS one"), [])
    save_endpoint(Endpoint(name="slow", sql="SELECT pg_sleep(60)::text AS x", statement_timeout_seconds=1), [])
    error = agent.failure(name, arguments)
    assert error["code"] == code
    assert error["request_id"]


def test_refuses_arguments_that_do_not_exist(agent: Agent) -> None:
    error = agent.failure("logs.all", {"project": "acme", "iso_timestamp_begin": "2026-01-01", "limit": 5})
    assert error["code"] == "invalid_parameters"
    assert [detail["name"] for detail in error["details"]] == ["iso_timestamp_begin", "limit"]


@pytest.mark.parametrize(
    "params", [{}, {"name": 1}, {"name": "logs.all", "arguments": []}, {"name": "logs.all", "arguments": "x"}]
)
def test_refuses_calls_that_are_none(secret: str, params: dict[str, Any]) -> None:
    response = Agent(secret, WITH_HANDSHAKE[0]).ask("tools/call", params)
    assert Agent.protocol_error(response) == (200, -32602)


def test_a_call_needs_no_arguments_if_the_tool_needs_none(agent: Agent) -> None:
    save_endpoint(Endpoint(name="one", sql="SELECT 1 AS one"), [])
    for params in ({"name": "one"}, {"name": "one", "arguments": None}, {"name": "one", "arguments": {}}):
        assert agent.result("tools/call", params)["structuredContent"] == {"result": [{"one": 1}]}


def test_a_stale_result_is_told_as_one(agent: Agent, no_log_database: Callable[[], None]) -> None:
    endpoint = save_endpoint(Endpoint(name="old", sql="SELECT 7 AS n", cache_seconds=60), [])
    assert agent.call("old")["structuredContent"] == {"result": [{"n": 7}]}
    age_results(endpoint, seconds=97)
    no_log_database()
    document = agent.call("old")["structuredContent"]
    assert document["result"] == [{"n": 7}]
    assert re.fullmatch(r"These rows are (9[7-9]|1\d\d) s old: nothing newer could be read\.", document["note"])


def test_every_call_is_noted_as_it_ended(agent: Agent, series: Endpoint) -> None:
    get_redis_connection("default").delete(CHANGING_KEY)  # in a test's transaction the save counts as under way
    agent.rows("series", {"rows": 3, "width": 1})
    agent.failure("series", {"rows": 3})
    limited = Agent(issue_access_token(name="limited", endpoint_names=["logs.all"]).secret)
    get_redis_connection("default").delete(CHANGING_KEY)
    limited.ask("tools/call", {"name": "series"})
    recent_calls.flush()
    calls = usage.last_calls(series.pk.hex)
    assert [(call.access_token, call.status, call.error_code, call.rows) for call in reversed(calls)] == [
        ("test caller", 200, "", 3),
        ("test caller", 400, "invalid_parameters", 0),
        ("limited", 404, "endpoint_not_found", 0),
    ]


# --- Attacks ----------------------------------------------------------------------------------------------------------
UNKNOWN = (400, -32602)


@pytest.mark.parametrize("revision", REVISIONS)
def test_other_endpoints_are_neither_listed_nor_called(revision: str) -> None:
    agent = Agent(issue_access_token(name="limited", endpoint_names=["usage.api-counts"]).secret, revision)
    assert list(agent.tools()) == ["usage.api-counts"]
    refused = agent.ask("tools/call", {"name": "logs.all", "arguments": {"project": "acme"}})
    absent = agent.ask("tools/call", {"name": "nothing.here", "arguments": {"project": "acme"}})
    assert refused.json() == absent.json()  # nobody learns which endpoints exist
    assert refused.json()["error"]["code"] == -32602


@pytest.mark.parametrize(
    "spell", [lambda one: str(one.pk), lambda one: one.pk.hex, lambda one: one.name.upper(), lambda one: f"{one.name}/"]
)
def test_a_tool_has_one_name(agent: Agent, spell: Callable[[Endpoint], str]) -> None:
    name = spell(Endpoint.objects.get(name="logs.all"))
    response = agent.ask("tools/call", {"name": name, "arguments": {"project": "acme"}})
    assert Agent.protocol_error(response) == UNKNOWN


def test_a_bound_argument_is_put_in_and_cannot_be_overridden(bound: Agent, rows: None) -> None:
    for sent in ({}, {"project": "acme"}, {"project": ""}, {"project": None}):
        found = bound.rows("logs.all", sent)
        assert len(found) == 2
        assert all(message.startswith("acme") for message in messages(found))


@pytest.mark.parametrize(
    "project", ["globex", "ACME", " acme", "acme ", "%", ["acme", "globex"], ["acme"], 1, True, {"acme": 1}]
)
def test_another_value_of_a_bound_argument_is_refused(bound: Agent, rows: None, project: Any) -> None:
    error = bound.failure("logs.all", {"project": project})
    assert error["code"] in ("argument_not_allowed", "invalid_parameters")
    assert "acme" not in json.dumps(error)


@pytest.mark.parametrize(
    "params",
    [
        {"name": "logs.all", "project": "globex"},
        {"name": "logs.all", "arguments": {}, "_meta": {"project": "globex", "arguments": {"project": "globex"}}},
        {"name": "logs.all", "arguments": {}, "inputResponses": {"project": "globex"}},
    ],
)
def test_arguments_come_from_nowhere_else(rows: None, params: dict[str, Any]) -> None:
    secret = issue_access_token(name="acme's agent", bound_arguments={"project": "acme"}).secret
    result = Agent(secret, WITH_HANDSHAKE[0]).result("tools/call", params)
    assert all(message.startswith("acme") for message in messages(result["structuredContent"]["result"]))


def test_an_argument_sent_twice_is_refused(bound: Agent) -> None:
    arguments = b'{"project":"acme","project":"globex"}'
    params = b'{"name":"logs.all","arguments":%b}' % arguments
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}' % params
    assert Agent.protocol_error(bound.post(body)) == (400, -32700)


ATTACKS = [json.loads(line) for line in (CASES / "attacks.jsonl").read_text(encoding="utf-8").splitlines()]


def test_attacks_on_the_sandbox_fail_here_too(bound: Agent, rows: None) -> None:
    refused = [attack for attack in ATTACKS if attack["expect"] == "reject"]
    assert len(refused) > 400
    for attack in refused:
        error = bound.failure("logs.all", {"sql": attack["sql"]})
        assert error["code"] in ("sandbox_violation", "invalid_sql", "invalid_request", "request_too_large"), attack


def test_a_sandbox_query_sees_one_tenant(bound: Agent, rows: None) -> None:
    found = bound.rows("logs.all", {"sql": "select event_message from edge_logs where event_message like '%globex%'"})
    assert found == []
    error = bound.failure("logs.all", {"sql": "select @project as p from edge_logs", "project": "globex"})
    assert error["code"] == "argument_not_allowed"


# --- Redaction --------------------------------------------------------------------------------------------------------
ON = {"svc_endpoint_redact_pii": "true"}
OFF = {"svc_endpoint_redact_pii": "false"}


def test_redacts_if_the_request_asks(agent: Agent, rows: None) -> None:
    assert "203.0.113.0" in str(agent.call("logs.all", {"project": "acme"}))
    for query in ({}, {"sql": "select event_message from edge_logs"}, {"lql": "s:event_message"}):
        result = str(agent.call("logs.all", {"project": "acme", **query}, **ON))
        assert "REDACTED" in result
        assert "203.0.113" not in result


def test_nothing_switches_off_the_operators_redaction(agent: Agent) -> None:
    save_endpoint(Endpoint(name="private", sql="SELECT '203.0.113.7' AS ip", redact_pii=True), [])
    for headers in ({}, ON, OFF):
        assert agent.rows("private", **headers) == [{"ip": "REDACTED"}]
    assert agent.failure("private", {"redact": False, "redact_pii": False})["code"] == "invalid_parameters"


def test_a_misspelt_redaction_header_is_an_error(agent: Agent) -> None:
    assert agent.failure("logs.all", {"project": "acme"}, svc_endpoint_redact_pii="ture")["code"] == "invalid_request"


def test_redacted_and_plain_results_never_meet_in_the_cache(agent: Agent) -> None:
    save_endpoint(Endpoint(name="cached", sql="SELECT '203.0.113.7' AS ip", cache_seconds=60), [])
    for _ in range(2):
        assert agent.rows("cached") == [{"ip": "203.0.113.7"}]
        assert agent.rows("cached", **ON) == [{"ip": "REDACTED"}]


# --- Limits -----------------------------------------------------------------------------------------------------------
def test_limits_of_an_access_token_hold(agent: Agent, settings: Any) -> None:
    settings.ENDPOINTS_OVERRUN_SECONDS = 30.0
    sql = "WITH t AS (SELECT n FROM generate_series(1, 10000) AS n) SELECT max(n) AS n FROM t"
    save_endpoint(Endpoint(name="strict", sql=sql, sandboxing=True, statement_timeout_seconds=1), [])
    without_end = "select count(*) from t a cross join t b cross join t c cross join t d"
    assert agent.failure("strict", {"sql": without_end})["code"] == "query_timeout"
    error = agent.failure("strict", {"sql": "select n from t"})
    assert error["code"] == "sandbox_suspended"
    assert error["details"][0]["retry_after_seconds"] > 0
    assert agent.rows("strict") == [{"n": 10000}]


def test_large_results_and_queries_meet_the_limits_of_the_service(
    agent: Agent, series: Endpoint, settings: Any
) -> None:
    settings.ENDPOINTS_MAX_RESULT_BYTES = 10_000
    assert agent.failure("series", {"rows": 100, "width": 1000})["code"] == "result_too_large"
    settings.ENDPOINTS_SANDBOX_MAX_SQL_BYTES = 100
    sql = f"select 1 from edge_logs where id = '{'x' * 100}'"
    assert agent.failure("logs.all", {"project": "acme", "sql": sql})["code"] == "request_too_large"


def test_a_revoked_access_token_calls_nothing(agent: Agent, db: None) -> None:
    assert agent.ask("tools/list").status_code == 200
    revoke_access_tokens(AccessToken.objects.filter(name="test caller"))
    for method, params in (("server/discover", {}), ("tools/list", {}), ("tools/call", {"name": "logs.all"})):
        assert agent.ask(method, params).status_code == 401
