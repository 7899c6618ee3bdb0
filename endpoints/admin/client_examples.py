"""Ways to call from other clients, and what goes with a call: browser tokens, agents, cancelling, types, traces.

The rules are those of docs/access-tokens.md, docs/mcp.md, docs/calling.md, docs/clients.md and docs/tracing.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from endpoints.admin.call_examples import ACCESS_TOKEN, Language, Target, Value, WayToCall, example
from endpoints.admin.example_texts import KEY_OPTION, command, curl, javascript, literal, pairs, quoted

_TOKEN_SECONDS: Final = 900
_BACKEND: Final = "/my-backend/log-token"


def browser_tokens(target: Target, *, tokens_address: str, endpoint: str, bound: Mapping[str, Value]) -> WayToCall:
    """Return a backend that issues a token for the endpoint alone, bound to arguments, and the page that calls."""
    body: dict[str, object] = {"endpoints": [endpoint]}
    if bound:
        body["arguments"] = dict(pairs(bound))
    body["expires_in"] = _TOKEN_SECONDS
    issue = command(
        f"curl {quoted(tokens_address)}",
        KEY_OPTION,
        "--header 'Content-Type: application/json'",
        f"--data {quoted(json.dumps(body, ensure_ascii=False))}",
    )
    sent = {name: value for name, value in target.arguments.items() if name not in bound}
    call = javascript(replace(target, arguments=sent), options="headers: { Authorization: `Bearer ${token}` }")
    page = f"const {{ token }} = await (await fetch({literal(_BACKEND)})).json();\n{call}"
    examples = (
        example(target, "backend", "Your backend", Language.JSON_IN_SHELL, issue),
        example(target, "page", "The page", Language.JAVASCRIPT, page),
    )
    note = (
        f"Your backend issues a token for one visitor, valid for {_TOKEN_SECONDS // 60} minutes, and the page calls "
        "with it. Its access token must be allowed to issue browser tokens, and list the page's origin."
    )
    return WayToCall("browser", "Browser token", note, examples, takes_query=True)


def agent(target: Target, *, mcp_address: str, tool: str) -> WayToCall:
    """Return the command that shows the endpoint to Claude Code as a tool."""
    header = quoted(f"Authorization: Bearer {ACCESS_TOKEN}")
    added = command(f"claude mcp add --transport http logs {quoted(mcp_address)}", f"--header {header}")
    note = f"The agent has this endpoint as the tool {tool}, and every other one that the access token may call."
    return WayToCall("agent", "Agent (MCP)", note, (example(target, "claude", "Claude Code", Language.SHELL, added),))


def cancelling(target: Target, *, calls_address: str) -> WayToCall:
    """Return a call with a request id, which the second command cancels, and a call that the client leaves."""
    begun = curl(target, '--header "X-Request-ID: $id"')
    cancelled = command(f'curl --request DELETE {quoted(calls_address)}"$id"', KEY_OPTION)
    shell = "\n".join(['id="call-$(date +%s)-$$"', f"{begun} &", cancelled, "wait"])
    headers = f'headers: {{ "X-API-KEY": {literal(ACCESS_TOKEN)} }}, signal: AbortSignal.timeout(5000)'
    examples = (
        example(target, "shell", "curl", Language.SHELL, shell),
        example(target, "javascript", "JavaScript", Language.JAVASCRIPT, javascript(target, options=headers)),
    )
    note = (
        "DELETE cancels the call of this access token with this request id. A client that closes its connection, as "
        "JavaScript does here after 5 seconds, cancels its call too."
    )
    return WayToCall("cancelling", "Cancelling", note, examples, takes_query=True)


def typed_clients(target: Target, *, openapi_address: str, operation: str) -> WayToCall:
    """Return commands that get the document of the access token and make a client of it."""
    saved = f"{command(f'curl --fail {quoted(openapi_address)}', KEY_OPTION, '--output openapi.json')} &&"
    python = "openapi-python-client generate --path openapi.json --meta none --output-path logs_client"
    typescript = "npx openapi-typescript openapi.json --output logs.ts"
    examples = (
        example(target, "python", "Python", Language.SHELL, f"{saved}\n{python}  # pip install openapi-python-client"),
        example(target, "typescript", "TypeScript", Language.SHELL, f"{saved}\n{typescript}  # npm, Node.js"),
    )
    note = (
        f"The client has the endpoints that the access token may call; in Python this one is the function {operation}. "
        "Generate it again when an endpoint has a new version."
    )
    return WayToCall("clients", "Typed clients", note, examples)


def tracing(target: Target) -> WayToCall:
    """Return a call in a trace."""
    sent = curl(target, '--header "traceparent: 00-$trace-$(openssl rand -hex 8)-01"')
    text = "\n".join(["trace=$(openssl rand -hex 16)", sent])
    note = (
        "Libraries of OpenTelemetry send traceparent by themselves. The trace id is in the log lines of the call and, "
        "while its statement runs, in PostgreSQL's application_name."
    )
    return WayToCall(
        "tracing", "Trace", note, (example(target, "curl", "curl", Language.SHELL, text),), takes_query=True
    )
