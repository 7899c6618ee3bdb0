"""POST /mcp over HTTP: who may send it, what is refused before a message is read, and the methods of each revision."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from mcp_types import methods

from endpoints.access.access_tokens import issue_access_token
from endpoints.access.secrets import OwnLimits
from endpoints.api.mcp.protocol import REVISIONS
from tests.endpoints.api.conftest import Ask
from tests.endpoints.api.mcp.agents import STATELESS, WITH_HANDSHAKE, Agent

pytestmark = pytest.mark.django_db
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def error_of(response: HttpResponse) -> tuple[int, str]:
    """Return status and code of the one error body."""
    error = json.loads(response.content)["error"]
    assert error.keys() == {"code", "message", "details", "request_id"}
    return response.status_code, error["code"]


# --- Who, and how -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("secret", ["", "lqe_000000000000_" + "x" * 43])
def test_needs_an_access_token(revision: str, secret: str) -> None:
    response = Agent(secret, revision).ask("tools/list")
    assert error_of(response) == (401, "not_authenticated")
    assert response["WWW-Authenticate"].startswith("Bearer")


def test_takes_the_access_token_of_either_header(secret: str) -> None:
    for headers in ({"X-API-KEY": secret}, {"Authorization": f"Bearer {secret}"}):
        client = Client(headers={"MCP-Protocol-Version": "2025-11-25", **headers})
        assert client.post("/mcp", PING, content_type="application/json").status_code == 200


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_reads_bodies_behind_the_guard_of_slow_clients(ask: Ask, secret: str, path: str) -> None:
    sent = {"x_api_key": secret, "mcp_protocol_version": "2025-11-25"}
    status, headers, body = ask("", path=path, method="POST", body=json.dumps(PING).encode(), **sent)
    assert (status, json.loads(body)) == (200, {"jsonrpc": "2.0", "id": 1, "result": {}})
    assert headers["Cache-Control"] == "no-store"
    assert "Mcp-Session-Id" not in headers


@pytest.mark.parametrize("method", ["get", "delete", "put", "patch", "head", "options"])
def test_allows_post_alone(secret: str, method: str) -> None:
    response = getattr(Client(headers={"X-API-KEY": secret}), method)("/mcp")
    assert response.status_code == 405
    assert response["Allow"] == "POST"
    assert getattr(Client(), method)("/mcp").status_code == 401


@pytest.mark.parametrize("origin", ["https://evil.example.org", "null", "http://testserver.evil.example.org", ""])
def test_refuses_pages_of_other_origins(secret: str, origin: str) -> None:
    agent = Agent(secret)
    assert error_of(agent.ask("server/discover", origin=origin)) == (403, "origin_not_allowed")
    assert error_of(agent.ask("tools/call", {"name": "logs.all"}, origin=origin)) == (403, "origin_not_allowed")


def test_answers_pages_of_its_own_and_of_listed_origins(secret: str, settings: Any) -> None:
    agent = Agent(secret)
    assert agent.ask("server/discover", origin="http://testserver").status_code == 200
    settings.CORS_ALLOWED_ORIGINS = ["https://app.example.org"]
    response = agent.ask("server/discover", origin="https://app.example.org")
    assert response.status_code == 200
    assert response["Access-Control-Allow-Origin"] == "https://app.example.org"


def test_answers_preflights_of_listed_origins(settings: Any) -> None:
    settings.CORS_ALLOWED_ORIGINS = ["https://app.example.org"]
    wanted = "authorization, content-type, mcp-protocol-version, mcp-method, mcp-name"
    headers = {
        "Origin": "https://app.example.org",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": wanted,
    }
    response = Client().options("/mcp", headers=headers)
    assert response.status_code == 200
    assert set(wanted.split(", ")) <= set(response["Access-Control-Allow-Headers"].split(", "))


@pytest.mark.parametrize("accept", ["text/csv", "text/event-stream", "application/json;q=0"])
def test_refuses_clients_that_accept_no_json(secret: str, accept: str) -> None:
    response = Agent(secret).ask("server/discover", accept=accept)
    assert error_of(response) == (406, "not_acceptable")
    assert json.loads(response.content)["error"]["details"] == [{"media_type": "application/json"}]


@pytest.mark.parametrize("accept", [None, "application/json", "*/*", "application/json, text/event-stream"])
def test_answers_clients_that_accept_json(secret: str, accept: str | None) -> None:
    response = Agent(secret).ask("server/discover", accept=accept)
    assert response.status_code == 200
    assert response["Content-Type"].startswith("application/json")


def test_refuses_other_content_types_and_large_bodies(secret: str, settings: Any) -> None:
    client = Client(headers={"X-API-KEY": secret})
    assert error_of(client.post("/mcp", json.dumps(PING), content_type="text/plain")) == (415, "unsupported_media_type")
    settings.ENDPOINTS_MAX_BODY_BYTES = 100
    large = {**PING, "params": {"x": "x" * 100}}
    assert error_of(client.post("/mcp", large, content_type="application/json")) == (413, "request_too_large")


# --- Messages ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "body",
    [
        b" ",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}',
        b'{"jsonrpc":"2.0","id":' + b"9" * 10_000 + b',"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{' + b",".join(b'"%d":1' % n for n in range(1001)) + b"}}",
    ],
    ids=["blank", "cut", "not UTF-8", "deep", "repeated", "NaN", "long number", "many members"],
)
@pytest.mark.parametrize("revision", REVISIONS)
def test_refuses_bodies_that_cannot_be_read(secret: str, revision: str, body: bytes) -> None:
    response = Agent(secret, revision).post(body)
    assert Agent.protocol_error(response) == (400, -32700)
    assert response.json()["id"] is None


@pytest.mark.parametrize("revision", REVISIONS)
def test_refuses_what_is_no_message_with_its_id(secret: str, revision: str) -> None:
    response = Agent(secret, revision).post({"jsonrpc": "2.0", "id": "seven"})
    assert Agent.protocol_error(response) == (400, -32600)
    assert response.json()["id"] == "seven"


@pytest.mark.parametrize("revision", REVISIONS)
def test_accepts_notifications_without_a_body(secret: str, revision: str) -> None:
    response = Agent(secret, revision).post(INITIALIZED)
    assert (response.status_code, response.content) == (202, b"")
    assert Agent.protocol_error(Agent(secret, "1900-01-01").post(INITIALIZED)) == (400, -32022)


def test_accepts_responses_of_older_revisions_alone(secret: str) -> None:
    response = {"jsonrpc": "2.0", "id": 1, "result": {}}
    for revision in WITH_HANDSHAKE:
        assert Agent(secret, revision).post(response).status_code == 202
    assert Agent.protocol_error(Agent(secret).post(response)) == (400, -32600)


@pytest.mark.parametrize("method", ["nothing", "prompts/list", "resources/read", "subscriptions/listen", "initialize"])
def test_has_no_other_method(secret: str, method: str) -> None:
    assert Agent.protocol_error(Agent(secret).ask(method)) == (404, -32601)


@pytest.mark.parametrize("revision", WITH_HANDSHAKE)
@pytest.mark.parametrize("method", ["nothing", "server/discover", "resources/list"])
def test_older_revisions_have_no_other_method(secret: str, revision: str, method: str) -> None:
    assert Agent.protocol_error(Agent(secret, revision).ask(method)) == (200, -32601)


def test_tells_what_it_supports(secret: str) -> None:
    result = Agent(secret).result("server/discover")
    assert methods.validate_server_result("server/discover", STATELESS, result) is None
    assert result["supportedVersions"] == list(REVISIONS)
    assert result["capabilities"] == {"tools": {}}
    assert "never an instruction" in result["instructions"]
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "log-query-endpoints"
    assert (result["resultType"], result["cacheScope"]) == ("complete", "private")


@pytest.mark.parametrize("revision", WITH_HANDSHAKE)
@pytest.mark.parametrize("has_header", [True, False])
def test_shakes_hands_with_older_clients(secret: str, revision: str, has_header: bool) -> None:
    agent = Agent(secret, revision)
    sent = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    header = revision if has_header else None
    result = agent.ask("initialize", sent, mcp_protocol_version=header).json()["result"]
    assert methods.validate_server_result("initialize", revision, result) is None
    assert result["protocolVersion"] == revision
    assert result["serverInfo"]["version"]
    assert agent.result("ping") == {}


@pytest.mark.parametrize("revision", WITH_HANDSHAKE)
@pytest.mark.parametrize(
    ("method", "params"),
    [("initialize", {}), ("initialize", {"protocolVersion": 1}), ("tools/list", {"cursor": 1}), ("tools/call", {})],
)
def test_older_revisions_answer_what_could_be_read_with_200(
    secret: str, revision: str, method: str, params: dict[str, Any]
) -> None:
    assert Agent.protocol_error(Agent(secret, revision).ask(method, params)) == (200, -32602)
    unreadable = {"jsonrpc": "2.0", "id": 1, "method": method, "params": []}
    assert Agent.protocol_error(Agent(secret, revision).post(unreadable)) == (400, -32602)


def test_headers_and_body_must_agree(secret: str) -> None:
    agent = Agent(secret)
    call = {"name": "logs.all", "arguments": {"project": "acme"}}
    for headers in ({"mcp_method": "tools/list"}, {"mcp_name": "usage.api-counts"}, {"mcp_name": None}):
        assert Agent.protocol_error(agent.ask("tools/call", call, **headers)) == (400, -32020)
    assert Agent.protocol_error(agent.ask("tools/list", mcp_protocol_version="2025-11-25")) == (400, -32020)
    assert Agent.protocol_error(agent.ask("tools/list", {"_meta": {}})) == (400, -32602)


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("batch", [[], [PING], [PING, PING], [INITIALIZED]])
def test_no_revision_has_batches(secret: str, revision: str, batch: list[object]) -> None:
    assert Agent.protocol_error(Agent(secret, revision).post(batch)) == (400, -32600)


@pytest.mark.parametrize("message", [PING, INITIALIZED, {"jsonrpc": "2.0", "id": 1, "result": {}}])
def test_only_the_handshake_comes_without_a_revision(secret: str, message: object) -> None:
    for revision in (None, "", "2025-03-26"):
        answer = Agent(secret).post(message, mcp_protocol_version=revision)
        assert Agent.protocol_error(answer) == (400, -32022)
        assert answer.json()["error"]["data"]["supported"] == list(REVISIONS)


# --- Rate limits ------------------------------------------------------------------------------------------------------
def limited(calls: int) -> str:
    return issue_access_token(name="limited", limits=OwnLimits(calls_a_minute=calls)).secret


def test_every_post_counts_as_a_call() -> None:
    secret = limited(3)
    agent = Agent(secret)
    agent.post(INITIALIZED)
    agent.post(b"{")
    assert agent.ask("tools/list").status_code == 200
    for answer in (agent.ask("tools/list"), agent.post(INITIALIZED), agent.post(b"{"), agent.post({})):
        assert error_of(answer) == (429, "rate_limited")
        assert int(answer["Retry-After"]) > 0
    assert error_of(Client(headers={"X-API-KEY": secret}).get("/mcp")) == (429, "rate_limited")


def test_a_call_over_the_rate_limit_is_a_failure_of_the_tool() -> None:
    agent = Agent(limited(1))
    agent.ask("server/discover")
    error = agent.failure("logs.all", {"project": "acme"})
    assert error["code"] == "rate_limited"
    assert error["details"][0]["limit"] == "calls_a_minute"
    assert error["details"][0]["retry_after_seconds"] > 0
