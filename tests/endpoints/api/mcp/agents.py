"""An agent: a client of /mcp that writes its messages by hand, in one revision of the specification."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from django.http import HttpResponse
from django.test import Client

STATELESS: Final = "2026-07-28"
WITH_HANDSHAKE: Final = ("2025-11-25", "2025-06-18")
META: Final = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": {"name": "test agent", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Agent:
    """Sends requests as a client of the revision does, with an access token."""

    def __init__(self, secret: str, revision: str = STATELESS, **headers: str) -> None:
        self._client = Client(headers={"Authorization": f"Bearer {secret}", **headers})
        self._revision = revision

    def post(self, document: object, **headers: str | None) -> HttpResponse:
        """Send a body as it is; a header that is None is left out, and names have `_` for `-`."""
        own = {"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": self._revision}
        given = {name.replace("_", "-").title(): value for name, value in headers.items()}
        sent = {name: value for name, value in {**own, **given}.items() if value is not None}
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return self._client.post("/mcp", body, content_type="application/json", headers=sent)

    def ask(self, method: str, params: Mapping[str, Any] | None = None, **headers: str | None) -> HttpResponse:
        """Send a request with everything that its revision wants."""
        sent: dict[str, Any] = dict(params or {})
        repeated: dict[str, str | None] = {}
        if self._revision == STATELESS:
            sent = {"_meta": META, **sent}
            repeated = {"mcp_method": method}
            if method == "tools/call":
                repeated["mcp_name"] = sent["name"]
        return self.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": sent}, **{**repeated, **headers})

    def result(self, method: str, params: Mapping[str, Any] | None = None, **headers: str) -> dict[str, Any]:
        response = self.ask(method, params, **headers)
        assert response.status_code == 200, response.content
        document = response.json()
        assert (document["jsonrpc"], document["id"], set(document)) == ("2.0", 1, {"jsonrpc", "id", "result"}), document
        result: dict[str, Any] = document["result"]
        return result

    def tools(self) -> dict[str, Any]:
        """Return every tool by name, page by page."""
        tools: list[dict[str, Any]] = []
        page = self.result("tools/list")
        tools += page["tools"]
        while "nextCursor" in page:
            page = self.result("tools/list", {"cursor": page["nextCursor"]})
            tools += page["tools"]
        assert len({tool["name"] for tool in tools}) == len(tools)
        return {tool["name"]: tool for tool in tools}

    def call(self, name: str, arguments: Mapping[str, Any] | None = None, **headers: str) -> dict[str, Any]:
        return self.result("tools/call", {"name": name, "arguments": dict(arguments or {})}, **headers)

    def rows(self, name: str, arguments: Mapping[str, Any] | None = None, **headers: str) -> list[dict[str, Any]]:
        result = self.call(name, arguments, **headers)
        assert result["isError"] is False, result
        rows: list[dict[str, Any]] = result["structuredContent"]["result"]
        return rows

    def failure(self, name: str, arguments: Mapping[str, Any] | None = None, **headers: str) -> dict[str, Any]:
        """Return the error of a call that fails inside the tool."""
        result = self.call(name, arguments, **headers)
        assert result["isError"] is True, result
        assert "structuredContent" not in result
        (content,) = result["content"]
        document = json.loads(content["text"])
        assert document.keys() == {"error"}
        assert document["error"].keys() == {"code", "message", "details", "request_id"}
        error: dict[str, Any] = document["error"]
        return error

    @staticmethod
    def protocol_error(response: HttpResponse) -> tuple[int, int]:
        """Return HTTP status and code of a response with a JSON-RPC error."""
        document = response.json()
        assert document["jsonrpc"] == "2.0"
        assert set(document) == {"jsonrpc", "id", "error"}
        assert document["error"]["message"]
        return response.status_code, document["error"]["code"]
