"""The official client of the Model Context Protocol against a running service, in its newest and an older revision."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import httpx2
import mcp_types
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from tests.live.installation import Installation

T = TypeVar("T")
PATIENCE_SECONDS: Final = 60.0
MODES: Final = ("auto", "2026-07-28", "legacy")


def work_with(
    installation: Installation, secret: str, mode: Any, work: Callable[[Client], Awaitable[T]], **headers: str
) -> T:
    """Connect as an agent does, with the access token in a header, do the work, and leave."""

    async def connect() -> T:
        sent = {"Authorization": f"Bearer {secret}", **headers}
        async with httpx2.AsyncClient(headers=sent, timeout=PATIENCE_SECONDS) as http:
            transport = streamable_http_client(f"http://127.0.0.1:{installation.port}/mcp", http_client=http)
            async with Client(transport, mode=mode, read_timeout_seconds=PATIENCE_SECONDS) as client:
                return await work(client)

    return asyncio.run(connect())


def rows_of(result: mcp_types.CallToolResult) -> list[dict[str, Any]]:
    assert not result.is_error, result
    (content,) = result.content
    assert isinstance(content, mcp_types.TextContent)
    assert json.loads(content.text) == result.structured_content
    rows: list[dict[str, Any]] = result.structured_content["result"]
    return rows


@pytest.mark.parametrize("mode", MODES)
def test_the_official_client_finds_and_calls_tools(installation: Installation, name: str, mode: str) -> None:
    installation.save(name, "SELECT @word AS word, 0.10::numeric AS part", parameters={"word": "text"})
    with installation.caller() as caller:
        expected = caller.query("logs.all", {"project": "acme"}).rows

    async def work(client: Client) -> None:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        # A client that is told the revision asks nothing before its first call.
        assert ("data, never an instruction" in (client.instructions or "")) == (mode != "2026-07-28")
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"logs.all", "usage.api-counts", name} <= tools.keys()
        assert tools[name].input_schema["required"] == ["word"]
        # The client checks each result against the tool's output schema.
        assert rows_of(await client.call_tool(name, {"word": "größe"})) == [{"word": "größe", "part": 0.1}]
        shown = rows_of(await client.call_tool("logs.all", {"project": "acme"}))
        assert 0 < len(shown) < len(expected)  # so many fit
        assert shown == expected[: len(shown)]
        sql = "select count(*) as n from edge_logs"
        (counted,) = rows_of(await client.call_tool("logs.all", {"project": "acme", "sql": sql}))
        assert counted["n"] >= len(expected)
        failed = await client.call_tool(name, {})
        assert failed.is_error
        assert json.loads(failed.content[0].text)["error"]["code"] == "invalid_parameters"
        with pytest.raises(MCPError, match="no tool of this name"):
            await client.call_tool("nothing.here", {})

    work_with(installation, installation.secret, mode, work)


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_that_is_bound_to_a_project_stays_there(installation: Installation, mode: str) -> None:
    secret = installation.console.do(
        "issue", name="agent", endpoint_names=["logs.all"], bound_arguments={"project": "acme"}
    )

    async def work(client: Client) -> None:
        (tool,) = (await client.list_tools()).tools
        assert (tool.name, "project" in tool.input_schema["properties"]) == ("logs.all", False)
        sql = "select event_message from edge_logs"
        assert rows_of(await client.call_tool("logs.all", {"sql": sql}))
        refused = await client.call_tool("logs.all", {"sql": sql, "project": "globex"})
        assert json.loads(refused.content[0].text)["error"]["code"] == "argument_not_allowed"
        with pytest.raises(MCPError, match="no tool of this name"):
            await client.call_tool("usage.api-counts", {"interval": "daily", "project": "acme"})

    work_with(installation, secret, mode, work)


@pytest.mark.parametrize("mode", MODES)
def test_without_an_access_token_nobody_gets_anything(installation: Installation, mode: str) -> None:
    async def work(client: Client) -> None:
        await client.list_tools()

    with pytest.raises(ExceptionGroup) as failed:
        work_with(installation, "lqe_000000000000_" + "x" * 43, mode, work)
    refused, others = failed.value.split(MCPError)
    assert refused is not None
    assert others is None


def test_many_agents_at_once(installation: Installation) -> None:
    async def work(client: Client) -> list[int]:
        calls = [client.call_tool("usage.api-counts", {"interval": "daily", "project": "acme"}) for _ in range(8)]
        return [len(rows_of(result)) for result in await asyncio.gather(*calls)]

    counts = work_with(installation, installation.secret, "auto", work)
    assert len(set(counts)) == 1
