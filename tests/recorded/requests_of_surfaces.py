"""Requests of the other routes: loads, OTLP, tokens for browsers, MCP, purging, monitoring; who is refused where."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import zstandard

from tests.endpoints.api.mcp.agents import META, STATELESS
from tests.logsources.otlp.requests import as_json, as_protobuf, record, request
from tests.recorded.requests import PROJECT, QUERY, Request

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
PROTOBUF: Final = "application/x-protobuf"
EVENTS: Final = "application/json, text/event-stream"
HANDSHAKES: Final = ("2025-11-25", "2025-06-18")
LOADS: Final = "/api/logs?source=edge_logs"
ROW: Final[Mapping[str, Any]] = {
    "id": "s-1",
    "timestamp": "2025-06-02T08:15:02Z",
    "project": "acme",
    "event_message": "m",
    "metadata": {"request": {"path": "/orders"}},
}
# Each route, by an address of it and a method that it has.
ROUTES: Final[Mapping[str, str]] = {
    f"{QUERY}/recorded.rows": "GET",
    f"{QUERY}/name/recorded.rows": "GET",
    "/endpoints/query/recorded.rows": "GET",
    "/api/endpoints/cache/recorded.rows": "DELETE",
    "/api/calls/none": "DELETE",
    "/api/logs": "POST",
    "/api/logs/json": "POST",
    "/logs": "POST",
    "/logs/json": "POST",
    "/v1/logs": "POST",
    "/mcp": "POST",
    "/api/tokens": "POST",
    "/api/openapi.json": "GET",
    "/api/docs": "GET",
    "/api/nothing": "GET",
    "/metrics": "GET",
    "/livez": "GET",
    "/health": "GET",
    "/readyz": "GET",
}


def requests_of_surfaces() -> Iterator[Request]:
    """Yield all requests; no two have the same name."""
    yield from _refused_everywhere()
    yield from _tokens()
    yield from _mcp()
    yield from _calls_and_purging()
    yield from _monitoring()
    # Last: rows without a time get one that is another each time, so no query follows.
    yield from _loads()
    yield from _otlp()


def _refused_everywhere() -> Iterator[Request]:
    """No access token, a wrong one, and a good one, each with a method and with an Accept that no route has."""
    for path, method in ROUTES.items():
        for caller, headers in {"no token": {}, "a wrong token": {"X-API-KEY": "lqe_0"}, "a token": {}}.items():
            who = "bound" if caller == "a token" else ""
            yield Request(f"{path}: {caller}, method PATCH", path, headers=headers, method="PATCH", caller=who)
            image = {**headers, "Accept": "image/png"}
            if path != "/api/openapi.json" or caller != "a token":  # what it says is recorded by itself
                yield Request(f"{path}: {caller}, {method} of an image", path, headers=image, method=method, caller=who)
        yield Request(f"{path}: OPTIONS", path, method="OPTIONS", caller="")
        if path != "/api/openapi.json":  # what it says is recorded by itself
            yield Request(f"{path}/: with a slash", f"{path}/", method=method, caller="bound")


# --- Loads ------------------------------------------------------------------------------------------------------------
def _loads() -> Iterator[Request]:
    post: dict[str, Any] = {"method": "POST", "content_type": JSON, "caller": "shipper"}
    lines = b"".join(json.dumps({**ROW, "id": f"line-{number}"}).encode() + b"\n" for number in range(3))
    yield Request("load NDJSON", LOADS, body=lines, **{**post, "content_type": NDJSON})
    yield Request("load NDJSON again", LOADS, body=lines, **{**post, "content_type": NDJSON})
    yield Request("load NDJSON as JSON", LOADS, body=lines, **post)
    yield Request("load NDJSON with a bad line", LOADS, body=lines + b"no JSON\n", **{**post, "content_type": NDJSON})
    for coding, body in {"gzip": gzip.compress(lines, mtime=0), "zstd": zstandard.compress(lines)}.items():
        packed = {"Content-Encoding": coding}
        yield Request(f"load in {coding}", LOADS, headers=packed, body=body, **{**post, "content_type": NDJSON})
        yield Request(f"load in half of {coding}", LOADS, headers=packed, body=body[:-9], **post)
    one = json.dumps({**ROW, "id": "chunked"}).encode()
    yield Request("load in chunks", LOADS, body=one, in_chunks=True, **post)
    yield Request("load nothing in chunks", LOADS, in_chunks=True, **post)
    yield Request("load without a type", LOADS, body=one, **{**post, "content_type": ""})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonl", "APPLICATION/JSON"):
        yield Request(f"load {kind}", LOADS, body=one, **{**post, "content_type": kind})
    bodies: dict[str, Any] = {
        "without a time": _row("t", without="timestamp"),
        "without an id": _row("i", without="id"),
        "without a project": _row("p", without="project"),
        "without a message": _row("e", without="event_message"),
        "without metadata": _row("m", without="metadata"),
        "with more fields": {**ROW, "id": "more", "level": "info"},
        "with a NUL": {**ROW, "id": "nul", "event_message": "a\0b"},
        "with half of a pair": {**ROW, "id": "half", "event_message": "\ud83d"},
        "of a number": {**ROW, "id": 7, "event_message": 8},
        "metadata that is a list": {**ROW, "id": "list", "metadata": [{"a": 1}]},
        "metadata that is a text": {**ROW, "id": "text", "metadata": "a"},
        "of long ago": {**ROW, "id": "old", "timestamp": "0001-01-01T00:00:00Z"},
        "of far away": {**ROW, "id": "far", "timestamp": "9999-12-31T23:59:59Z"},
        "seconds": {**ROW, "id": "seconds", "timestamp": 1748852102},
        "local time": {**ROW, "id": "local", "timestamp": "2025-06-02 08:15:02"},
        "null": None,
        "an empty list": [],
        "a list of lists": [[ROW]],
        "the same twice": [{**ROW, "id": "twice"}] * 2,
        "in an object": {"logs": [ROW]},
        "in batches": {"batch": [{**ROW, "id": "batch"}]},
    }
    for name, body in bodies.items():
        yield Request(f"load {name}", LOADS, body=json.dumps(body).encode(), **post)
    some = json.dumps([{**ROW, "id": "good"}, {**ROW, "id": "bad", "timestamp": "soon"}]).encode()
    for wanted in ("skip", "refuse", "perhaps", ""):
        yield Request(f"load, bad rows {wanted!r}", f"{LOADS}&bad_rows={wanted}", body=some, **post)
    sources = {"": "", "another": "?source=auth_logs", "its own": "?source_name=auth_logs", "none": "?source=none"}
    for name, query in sources.items():
        to = {**post, "caller": "shipper of one"}
        yield Request(f"load of one source, to {name}", f"/api/logs{query}", body=json.dumps(ROW).encode(), **to)
    no_project = json.dumps(_row("default", without="project")).encode()
    yield Request("load with a default project", "/api/logs", body=no_project, **{**post, "caller": "shipper of one"})
    for caller in ("everything", "bound", "revoked", "purger", "issuer"):
        yield Request(f"load by {caller}", LOADS, body=one, **{**post, "caller": caller})
    yield Request(
        "load in Bearer", LOADS, headers={"Authorization": "Bearer lqe_0"}, body=one, **{**post, "caller": ""}
    )


def _row(id_: str, *, without: str) -> dict[str, Any]:
    return {name: value for name, value in {**ROW, "id": id_}.items() if name != without}


# --- OTLP -------------------------------------------------------------------------------------------------------------
def _otlp() -> Iterator[Request]:
    path = "/v1/logs?source=edge_logs"
    bodies = {
        "records": request(
            record("one"), record("two", severityText="WARN", traceId="0af7651916cd43dd8448eb211c80319c")
        ),
        "no record": request(),
        "a record without a time": request({"body": {"stringValue": "untimed"}}),
        "a record without a body": request({"timeUnixNano": "1748852102000000000"}),
        "attributes": request(record("a", attributes=[{"key": "n", "value": {"intValue": "7"}}])),
        "no project": request(record("nobody's"), resource={"attributes": []}),
        "a NUL": request(record("a\0b")),
    }
    for kind, encode in {JSON: as_json, PROTOBUF: as_protobuf}.items():
        post: dict[str, Any] = {"method": "POST", "content_type": kind, "caller": "shipper"}
        for name, document in bodies.items():
            yield Request(f"OTLP, {kind}: {name}", path, body=encode(document), **post)
        whole = encode(bodies["records"])
        packed = {"Content-Encoding": "gzip"}
        yield Request(f"OTLP, {kind}: gzip", path, headers=packed, body=gzip.compress(whole, mtime=0), **post)
        yield Request(f"OTLP, {kind}: in chunks", path, body=whole, in_chunks=True, **post)
        yield Request(f"OTLP, {kind}: nothing", path, **post)
        yield Request(f"OTLP, {kind}: half", path, body=whole[:-7], **post)
        yield Request(f"OTLP, {kind}: no such source", "/v1/logs?source=none", body=whole, **post)
        for caller in ("", "revoked", "bound", "shipper of one"):
            yield Request(f"OTLP, {kind}: by {caller!r}", path, body=whole, **{**post, "caller": caller})
    other = {"method": "POST", "caller": "shipper"}
    yield Request("OTLP, another type", path, body=b"{}", content_type="text/plain", **other)
    yield Request("OTLP, no JSON of it", path, body=b'{"resourceLogs": 7}', content_type=JSON, **other)


# --- Tokens for browsers ----------------------------------------------------------------------------------------------
def _tokens() -> Iterator[Request]:
    post: dict[str, Any] = {"method": "POST", "content_type": JSON, "caller": "issuer"}
    bodies: dict[str, Any] = {
        "one": {"endpoints": ["logs.all"], "arguments": {"project": "acme"}, "expires_in": 60},
        "two": {"endpoints": ["logs.all", "recorded.rows"]},
        "nothing": {},
        "no endpoints": {"endpoints": []},
        "no such endpoint": {"endpoints": ["none"]},
        "no such argument": {"endpoints": ["logs.all"], "arguments": {"nothing": "1"}},
        "an argument that is no text": {"endpoints": ["logs.all"], "arguments": {"project": 1}},
        "an argument of the wrong type": {"endpoints": ["recorded.rows"], "arguments": {"n": "x"}},
        "too long": {"endpoints": ["logs.all"], "expires_in": 86_401},
        "too short": {"endpoints": ["logs.all"], "expires_in": 0},
        "a time that is no number": {"endpoints": ["logs.all"], "expires_in": "60"},
        "many": {"endpoints": ["logs.all"] * 51},
        "a list": [],
    }
    for name, body in bodies.items():
        yield Request(f"token: {name}", "/api/tokens", body=json.dumps(body).encode(), **post)
    body = json.dumps(bodies["one"]).encode()
    yield Request("token: no JSON", "/api/tokens", body=b"{", **post)
    yield Request("token: a form", "/api/tokens", body=b"endpoints=a", **{**post, "content_type": "text/plain"})
    yield Request("token: in chunks", "/api/tokens", body=body, in_chunks=True, **post)
    for caller in ("everything", "bound", "revoked", "shipper"):
        yield Request(f"token: by {caller}", "/api/tokens", body=body, **{**post, "caller": caller})
    mine = {"caller": "token of token: one"}
    yield Request("token: calls", f"{QUERY}/logs.all", **mine)
    yield Request("token: calls with what it is bound to", f"{QUERY}/logs.all", PROJECT, **mine)
    yield Request("token: calls for another project", f"{QUERY}/logs.all", {"project": "globex"}, **mine)
    yield Request("token: calls another endpoint", f"{QUERY}/recorded.rows", **mine)
    yield Request("token: sends sql", f"{QUERY}/logs.all", {"sql": "select count(*) from edge_logs"}, **mine)
    yield Request("token: purges", "/api/endpoints/cache/logs.all", method="DELETE", **mine)
    yield Request("token: loads", LOADS, body=json.dumps(ROW).encode(), **{**post, **mine})
    yield Request("token: issues", "/api/tokens", body=body, **{**post, **mine})
    yield Request("token: of two endpoints", f"{QUERY}/recorded.rows", {"n": 1}, caller="token of token: two")


# --- MCP --------------------------------------------------------------------------------------------------------------
def _mcp() -> Iterator[Request]:
    """Single messages of the revisions that name themselves."""
    calls: dict[str, Any] = {
        "rows": {"name": "recorded.rows", "arguments": {"n": 1, "word": "a"}},
        "log rows": {"name": "logs.all", "arguments": PROJECT},
        "sql": {"name": "logs.all", "arguments": {**PROJECT, "sql": "select count(*) as n from edge_logs"}},
        "lql": {"name": "logs.all", "arguments": {**PROJECT, "lql": "c:count(*)"}},
        "cut": {"name": "recorded.many", "arguments": {}},
        "a mistake": {"name": "recorded.rows", "arguments": {"n": "x", "nothing": 1}},
        "no such tool": {"name": "none", "arguments": {}},
        "no name": {"arguments": {}},
        "no arguments": {"name": "recorded.many"},
        "a failure": {"name": "recorded.fails", "arguments": {"n": 0}},
        "refused sql": {"name": "logs.all", "arguments": {**PROJECT, "sql": "select * from pg_class"}},
    }
    for name, params in calls.items():
        yield _message(f"MCP call: {name}", "tools/call", params)
    for method in ("tools/list", "ping", "initialize", "resources/list", "nothing"):
        yield _message(f"MCP {method}", method, {}, caller="logs.all")
    yield _message("MCP tools/list of who is bound", "tools/list", {}, caller="bound")
    yield _message("MCP tools/list with a cursor of none", "tools/list", {"cursor": "x"})
    for revision in HANDSHAKES:
        start = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        yield _message(f"MCP {revision} initialize", "initialize", start, revision)
        yield _message(f"MCP {revision} initialized", "notifications/initialized", None, revision, id_=None)
        for method in ("ping", "tools/list", "nothing"):
            yield _message(f"MCP {revision} {method}", method, {}, revision, caller="logs.all")
        yield _message(f"MCP {revision} call", "tools/call", calls["rows"], revision)
        yield _message(f"MCP {revision} call with a mistake", "tools/call", calls["a mistake"], revision)
        yield _message(f"MCP {revision} call of none", "tools/call", calls["no such tool"], revision)
    for caller in ("", "revoked", "shipper"):
        yield _message(f"MCP by {caller!r}", "tools/list", {}, caller=caller)
    yield _message("MCP without the name in a header", "tools/call", calls["rows"], headers={"Mcp-Name": ""})
    yield _message("MCP with another name in a header", "tools/call", calls["rows"], headers={"Mcp-Name": "logs.all"})
    yield _message("MCP with another method in a header", "ping", {}, headers={"Mcp-Method": "tools/list"})
    yield _message("MCP of another origin", "ping", {}, headers={"Origin": "https://other.example.org"})
    yield _message("MCP of an allowed origin", "ping", {}, headers={"Origin": "https://app.example.org"})
    post: dict[str, Any] = {"method": "POST", "content_type": JSON, "headers": _headers(STATELESS, "ping", {})}
    for body in ("{", "7", '"ping"', '{"id": 1, "method": "ping"}', '{"jsonrpc": "2.0", "id": 1}',
                 '{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}',
                 '{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}'):  # fmt: skip
        yield Request(f"MCP body {body}", "/mcp", body=body.encode(), **post)
    yield Request("MCP as text", "/mcp", body=b"{}", **{**post, "content_type": "text/plain"})


def _message(
    name: str,
    method: str,
    params: Mapping[str, Any] | None,
    revision: str = STATELESS,
    *,
    id_: int | None = 1,
    caller: str = "everything",
    headers: Mapping[str, str] | None = None,
) -> Request:
    if revision == STATELESS:
        params = {"_meta": META, **(params or {})}
    message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
    body = json.dumps({key: value for key, value in message.items() if value is not None}).encode()
    sent = {**_headers(revision, method, params or {}), **(headers or {})}
    return Request(name, "/mcp", headers=sent, method="POST", body=body, content_type=JSON, caller=caller)


def _headers(revision: str, method: str, params: Mapping[str, Any]) -> dict[str, str]:
    own = {"Accept": EVENTS, "Mcp-Protocol-Version": revision}
    if revision == STATELESS:
        own |= {"Mcp-Method": method} | ({"Mcp-Name": params["name"]} if "name" in params else {})
    return own


# --- Calls, cached results, monitoring --------------------------------------------------------------------------------
def _calls_and_purging() -> Iterator[Request]:
    for request_id in ("none", "with/slashes", "*", "x" * 200):
        yield Request(f"cancel {request_id[:12]!r}", f"/api/calls/{request_id}", method="DELETE")
    yield Request("cancel by GET", "/api/calls/none")
    yield Request("cached for purging", f"{QUERY}/recorded.cached")
    for again in ("", ", again"):
        yield Request(f"purge{again}", "/api/endpoints/cache/recorded.cached", method="DELETE", caller="purger")
    for caller in ("", "revoked", "bound", "shipper", "logs.all"):
        yield Request(f"purge by {caller!r}", "/api/endpoints/cache/logs.all", method="DELETE", caller=caller)


def _monitoring() -> Iterator[Request]:
    for path in ("/livez", "/health", "/readyz", "/metrics"):
        for method in ("GET", "HEAD", "POST"):
            yield Request(f"{path} by {method}", path, method=method, caller="")
    for value in ("Bearer wrong", "Basic eDp5"):
        yield Request(f"/metrics with {value}", "/metrics", headers={"Authorization": value}, caller="")
    for path in ("/", "/nothing", "/static/nothing.css", "/favicon.ico", "/api/openapi.yaml", "/mcp/nothing", "//mcp"):
        yield Request(f"address {path}", path, caller="")
