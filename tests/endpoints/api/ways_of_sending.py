"""Every way of sending a body, and a request of every route that reads one: what it must be answered with."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

import zstandard

from tests.logsources.otlp.requests import as_json, as_protobuf, record, request

JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data; boundary=between"
PROTOBUF: Final = "application/x-protobuf"

# The endpoint of the table: a call whose body nobody reads gets a 200 all the same, with other rows.
NAME: Final = "test.ways"
UUID: Final = "5a0c0de0-0000-4000-8000-00000000b0d1"
SQL: Final = """
WITH told AS (SELECT @project AS project, @since::timestamptz AS since)
SELECT project, since FROM told
"""


def _raw_deflate(body: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(body) + compressor.flush()


@dataclass(frozen=True, slots=True)
class Way:
    """How a body is sent: in which content coding, and whether in chunks."""

    coding: str = ""
    pack: Callable[[bytes], bytes] = bytes
    in_chunks: bool = False

    @property
    def headers(self) -> dict[str, str]:
        return {"Content-Encoding": self.coding} if self.coding else {}


_PACKERS: Final[Mapping[str, tuple[str, Callable[[bytes], bytes]]]] = {
    "as it is": ("", bytes),
    "identity": ("identity", bytes),
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-Gzip", gzip.compress),
    "two gzip members": ("gzip", lambda body: gzip.compress(body[:7]) + gzip.compress(body[7:])),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", _raw_deflate),
    "zstd": ("zstd", zstandard.ZstdCompressor().compress),
    "two zstd frames": ("zstd", lambda body: b"".join(map(zstandard.compress, (body[:7], body[7:])))),
    "identity and gzip": ("identity, gzip", gzip.compress),
}
TOLD: Final = Way()
WAYS: Final[Mapping[str, Way]] = {
    f"{name}, {'in chunks' if in_chunks else 'told'}": Way(coding, pack, in_chunks)
    for name, (coding, pack) in _PACKERS.items()
    for in_chunks in (False, True)
}
COMPRESSED: Final = {name: way for name, way in WAYS.items() if way.coding not in ("", "identity")}


@dataclass(frozen=True, slots=True)
class Sent:
    """A request with a body: `rows` are those of its 200, or `words` are in it; `broken` is a body of no request."""

    path: str
    content_type: str
    body: bytes
    rows: list[dict[str, Any]] | None = None
    words: bytes = b""
    method: str = "POST"
    query: str = ""
    broken: bytes = b'{"project": "acme"'

    @property
    def is_load(self) -> bool:
        return "logs" in self.path

    def is_answered_by(self, status: int, body: bytes) -> bool:
        if status != 200:
            return False
        return self.words in body if self.rows is None else json.loads(body) == {"result": self.rows}


def _form(**fields: str) -> bytes:
    parts = [f'--between\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{fields[name]}\r\n' for name in fields]
    return "".join([*parts, "--between--\r\n"]).encode()


def _json(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def _queries() -> Iterator[tuple[str, Sent]]:
    path, since = f"/api/endpoints/query/{NAME}", "2026-11-20T07:00:00Z"
    rows = [{"project": "acme", "since": "2026-11-20T07:00:00.000000Z"}]
    acme = _json(project="acme", since=since)
    for address in (path, f"{path}/", f"/api/endpoints/query/{UUID}", f"/endpoints/query/{NAME}"):
        yield f"JSON to {address}", Sent(address, JSON, acme, rows)
    yield "JSON by name", Sent(f"/api/endpoints/query/name/{NAME}", JSON, acme, rows)
    yield "JSON by GET", Sent(path, JSON, acme, rows, method="GET")
    yield "JSON with a charset", Sent(path, f"{JSON}; charset=utf-8", acme, rows)
    yield "sql", Sent(path, JSON, _json(project="acme", sql="select 1 as x"), [{"x": 1}])
    yield "sql by GET", Sent(path, JSON, _json(project="acme", sql="select 1 as x"), [{"x": 1}], method="GET")
    yield "lql", Sent(path, JSON, _json(project="acme", lql="s:project"), [{"project": "acme"}])
    form = urlencode({"project": "acme", "since": since}).encode()
    yield "a form", Sent(path, FORM, form, rows, broken=b"project=\xff")
    yield "a form by GET", Sent(path, FORM, form, rows, broken=b"project=\xff", method="GET")
    multipart = _form(project="acme", since=since)
    yield "multipart", Sent(path, MULTIPART, multipart, rows, broken=multipart[:-6])


def _loads() -> Iterator[tuple[str, Sent]]:
    row = {"id": "1", "timestamp": datetime.now(UTC).isoformat(), "project": "acme", "event_message": "one"}
    line = json.dumps(row).encode()
    stored = [{"source": "edge_logs", "loaded": 2, "already_there": 0}]
    lines = line + b"\n" + line.replace(b'"1"', b'"2"')
    to, records = {"query": "source=edge_logs", "broken": b'[{"id": '}, request(record("one"), record("two"))
    yield "NDJSON rows", Sent("/api/logs", "application/x-ndjson", lines, stored, **to)
    yield "JSON rows", Sent("/logs/json", JSON, b"[%s]" % lines.replace(b"\n", b","), stored, **to)
    yield "OTLP in JSON", Sent("/v1/logs", JSON, as_json(records), words=b"{}", **to)
    yield "OTLP in protobuf", Sent("/v1/logs", PROTOBUF, as_protobuf(records), **{**to, "broken": b"\x0a\xff"})


def _others() -> Iterator[tuple[str, Sent]]:
    yield "a browser token", Sent("/api/tokens", JSON, _json(endpoints=["logs.all"], expires_in=7), words=b'"token":')
    hello = _json(jsonrpc="2.0", id=1, method="initialize", params={"protocolVersion": "2025-11-25"})
    yield "a message of MCP", Sent("/mcp", JSON, hello, words=b'"protocolVersion":"2025-11-25"')


REQUESTS: Final[Mapping[str, Sent]] = dict([*_queries(), *_loads(), *_others()])
