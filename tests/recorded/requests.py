"""Requests of the query route and around it: every way to ask, every format, dialect and kind of refusal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from tests.files import CASES

QUERY = "/api/endpoints/query"
UUID_OF_ROWS = "5a0c0de0-0000-4000-8000-000000000001"
PROJECT = {"project": "acme"}
CLOCKS = ("now()", "current_", "age(")  # what a text asks the clock by: its answer is another one each day
FORM = "application/x-www-form-urlencoded"
BINARY_FORMATS = {"parquet": "application/vnd.apache.parquet", "arrow": "application/vnd.apache.arrow.stream"}
FORMATS = {"json": "application/json", "csv": "text/csv", "ndjson": "application/x-ndjson"}


@dataclass(frozen=True, slots=True)
class Request:
    """A request; `caller` names the access token that it carries, "" none.

    The request that `next_of` names has been answered with a page: its next one is asked for.
    """

    name: str
    path: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = "GET"
    body: bytes = b""
    content_type: str = ""
    caller: str = "everything"
    in_chunks: bool = False
    next_of: str = ""


def recorded_requests() -> Iterator[Request]:
    """Yield all requests; no two have the same name."""
    yield from _stored()
    yield from _bodies()
    yield from _refusals()
    yield from _sandbox_sql()
    yield from _sandbox_lql()
    yield from _bigquery()
    yield from _loads()
    yield from _cached()
    yield from _pages()
    yield from _streams()
    yield from _tails()
    yield from _binary_and_compressed()
    yield from _sent_otherwise()


def _stored() -> Iterator[Request]:
    for name, accept in FORMATS.items():
        yield Request(f"types as {name}", f"{QUERY}/recorded.types", headers={"Accept": accept})
        yield Request(f"log rows as {name}", f"{QUERY}/logs.all", PROJECT, {"Accept": accept})
        redacted = {"Accept": accept, "SVC-Endpoint-Redact-PII": "true"}
        yield Request(f"redacted as {name}", f"{QUERY}/logs.all", PROJECT, redacted)
        yield Request(f"no rows as {name}", f"{QUERY}/logs.all", {"project": "nobody"}, {"Accept": accept})
        yield Request(f"cut as {name}", f"{QUERY}/recorded.many", headers={"Accept": accept})
        yield Request(f"microseconds as {name}", f"{QUERY}/recorded.microseconds", headers={"Accept": accept})
        yield Request(f"unicode as {name}", f"{QUERY}/recorded.rows", {"word": "Zürich 𝄞\n"}, {"Accept": accept})
    for accept in (
        "*/*", "text/*", "application/json;q=0.1, text/csv", "image/png", "text/html, */*;q=0.1", "",
        "text/csv; charset=utf-8", "application/json;q=0, */*", "*/*;q=0",
    ):  # fmt: skip
        yield Request(f"accepts {accept!r}", f"{QUERY}/recorded.rows", {"n": 1}, {"Accept": accept})
    for method in ("HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"):
        yield Request(f"method {method}", f"{QUERY}/recorded.rows", {"n": 1}, method=method)
    yield Request("by UUID", f"{QUERY}/{UUID_OF_ROWS}", {"n": 1})
    yield Request("trailing slash", f"{QUERY}/recorded.rows/", {"n": 1})
    for path in ("/endpoints/query", "/api/endpoints/query/name"):
        yield Request(f"by the address {path}", f"{path}/recorded.rows", {"n": 1})
        yield Request(f"by the address {path}, CSV", f"{path}/recorded.rows/", {"n": 1}, {"Accept": "text/csv"})
        yield Request(f"by the address {path}, POST", f"{path}/recorded.rows", method="POST", body=b'{"n": 1}',
                      content_type="application/json")  # fmt: skip
        yield Request(f"by the address {path}, no access token", f"{path}/recorded.rows", caller="")
        yield Request(f"by the address {path}, no such endpoint", f"{path}/none")
    yield Request("a name beyond ASCII", f"{QUERY}/Zürich")
    for value in ("7", "-7", "007", "1e3", "1.5", "x", "9223372036854775808", " 7 ", "true", ""):
        yield Request(f"integer {value!r}", f"{QUERY}/recorded.rows", {"n": value})
    for value in (
        "2025-06-02", "2025-06-02T08:15:02Z", "2025-06-02T08:15:02.123456+02:00", "1748852110120450", "1748852110",
        "1748852110120.5", "1748852110120450999", "20250602", "soon",
    ):  # fmt: skip
        yield Request(f"timestamp {value!r}", f"{QUERY}/recorded.rows", {"moment": value})
    for value in ("true", "0", "yes", "maybe"):
        yield Request(f"boolean {value!r}", f"{QUERY}/recorded.rows", {"flag": value})
    for values in (["a"], ["a", "b"], ["a,b", ""]):
        yield Request(f"list {values!r}", f"{QUERY}/recorded.rows", {"words": values})
    yield Request("a name twice", f"{QUERY}/recorded.rows", {"n": ["1", "2"]})
    yield Request("several mistakes", f"{QUERY}/recorded.rows", {"n": "x", "moment": "y", "flag": "z", "level": "odd"})


def _bodies() -> Iterator[Request]:
    post = {"method": "POST"}
    rows = f"{QUERY}/recorded.rows"
    json_bodies = (
        '{"n": 1}',
        '{"n": "1", "words": ["a"]}',
        "[]",
        "{",
        '{"n": null}',
        '{"n": {}}',
        "",
        '{"n": 1, "n": 2}',
    )
    for text in json_bodies:
        yield Request(f"JSON {text}", rows, body=text.encode(), content_type="application/json", **post)
    yield Request("GET with JSON", rows, body=b'{"n": 3}', content_type="application/json")
    for text in ("n=1", "n=1&n=2", "n=%ff", "word=%00", "words=a&words=b", "&&&", "n"):
        form = "application/x-www-form-urlencoded"
        yield Request(f"form {text}", rows, body=text.encode(), content_type=form, **post)
        yield Request(f"query string {text}", f"{rows}?{text}")
    yield Request("the query string wins", rows, {"n": 1}, body=b'{"n": 2}', content_type="application/json", **post)
    yield Request("a type of body there is not", rows, body=b"<n/>", content_type="application/xml", **post)
    large = json.dumps({"word": "x" * 1_100_000}).encode()
    yield Request("a body over its limit", rows, body=large, content_type="application/json", **post)
    many = "&".join(f"a{number}=1" for number in range(1001))
    yield Request("too many arguments", f"{rows}?{many}")
    for type_ in ("text/plain", "application/json; charset=latin-1", "APPLICATION/JSON"):
        yield Request(f"content type {type_}", rows, body=b'{"n": 1}', content_type=type_, **post)


def _refusals() -> Iterator[Request]:
    rows = f"{QUERY}/recorded.rows"
    yield Request("no access token", rows, caller="")
    yield Request("a wrong access token", rows, headers={"X-API-KEY": "lqe_0"}, caller="")
    yield Request("no access token, CSV", rows, headers={"Accept": "text/csv"}, caller="")
    yield Request("a revoked access token", rows, caller="revoked")
    yield Request("an endpoint there is not", f"{QUERY}/none")
    yield Request("an endpoint that is not for it", rows, caller="logs.all")
    yield Request("a bound argument is filled in", f"{QUERY}/logs.all", caller="bound")
    yield Request("a bound argument as bound", f"{QUERY}/logs.all", PROJECT, caller="bound")
    yield Request("a bound argument differs", f"{QUERY}/logs.all", {"project": "globex"}, caller="bound")
    yield Request("an endpoint without the bound parameter", rows, caller="bound")
    yield Request("too many calls", rows, {"n": 1}, caller="one call a minute")
    yield Request("too many calls, again", rows, {"n": 1}, caller="one call a minute")
    yield Request("a redaction header that is neither", rows, headers={"SVC-Endpoint-Redact-PII": "maybe"})
    for value in ("false", "1", "TRUE", ""):
        yield Request(f"redaction {value!r}", rows, {"word": "192.0.2.1"}, {"SVC-Endpoint-Redact-PII": value})
    yield Request("the stored query fails", f"{QUERY}/recorded.fails", {"n": 0})
    yield Request("the stored query takes too long", f"{QUERY}/recorded.slow")
    yield Request("SQL where none is taken", rows, {"sql": "select 1"})
    yield Request("LQL where none is taken", rows, {"lql": "a:b"})
    for path in ("/api", "/api/", "/api/nothing", "/api/endpoints", "/api/endpoints/query", "/livez", "/health"):
        yield Request(f"address {path}", path)
    for method in ("POST", "PUT", "DELETE", "HEAD"):
        yield Request(f"address /api/nothing by {method}", "/api/nothing", method=method, body=b"")
    yield Request("a form to /api/nothing", "/api/nothing", method="POST", body=b"n=1",
                  content_type="application/x-www-form-urlencoded", caller="")  # fmt: skip
    yield Request("metrics", "/metrics")
    for method in ("GET", "POST", "DELETE"):
        yield Request(f"cache {method}", "/api/endpoints/cache/recorded.rows", method=method)
        yield Request(
            f"cache {method} by who may", "/api/endpoints/cache/recorded.rows", method=method, caller="purger"
        )
    yield Request("cache of none", "/api/endpoints/cache/none", method="DELETE", caller="purger")


def _cases(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CASES / file).read_text("utf-8").splitlines()]


def _sandbox_sql() -> Iterator[Request]:
    path = f"{QUERY}/logs.all"
    for case in _cases("legit.jsonl")[::2]:
        if not any(clock in case["sql"].lower() for clock in CLOCKS):
            yield Request(f"sql {case['id']}", path, {**PROJECT, "sql": case["sql"]})
    for case in _cases("attacks.jsonl")[::9]:
        yield Request(f"attack {case['id']}", path, {**PROJECT, "sql": case["sql"]})
    for name, accept in FORMATS.items():
        sql = "select id, metadata from edge_logs order by id"
        headers = {"Accept": accept, "SVC-Endpoint-Redact-PII": "true"}
        yield Request(f"sql redacted as {name}", path, {**PROJECT, "sql": sql}, headers)
    for sql in (
        "select 1/0",
        "select 'x'::int",
        "select nothing from edge_logs",
        "select",
        "",
        "select $1",
        "select 1;",
    ):
        yield Request(f"sql {sql!r}", path, {**PROJECT, "sql": sql})
    yield Request("sql and lql", path, {**PROJECT, "sql": "select 1", "lql": "a:b"})
    yield Request("sql without the project", path, {"sql": "select 1"})
    yield Request("sql by POST", path, PROJECT, method="POST", body=b'{"sql": "select 1 as one"}',
                  content_type="application/json")  # fmt: skip
    yield Request("sql over its limit", path, PROJECT, method="POST", content_type="application/json",
                  body=json.dumps({"sql": f"select '{'x' * 70_000}'"}).encode())  # fmt: skip


def _sandbox_lql() -> Iterator[Request]:
    relative = ("now", "today", "yesterday", "this@", "last@")
    for number, case in enumerate(_cases("lql.jsonl")):
        if number % 3 == 0 and not any(word in case["lql"] for word in relative):
            yield Request(f"lql {number}", f"{QUERY}/logs.all", {**PROJECT, "lql": case["lql"]})
    for lql in ("f:auth_logs", "f:none", "m.response.status_code:>=400", "c:count(*) c:group_by(t::day)", "("):
        for name, accept in FORMATS.items():
            yield Request(f"lql {lql} as {name}", f"{QUERY}/logs.all", {**PROJECT, "lql": lql}, {"Accept": accept})


def _bigquery() -> Iterator[Request]:
    path = f"{QUERY}/recorded.bigquery"
    texts = [case["sql"] for file in ("clients", "constructs") for case in _cases(f"bigquery/{file}.jsonl")]
    for number, text in enumerate(texts):
        if number % 2 == 0 and "current_" not in text.lower():
            yield Request(f"bigquery {number}", path, {**PROJECT, "sql": text})
    for sql in ("select nothing", "select safe_divide(1, 0) as x", "select * except(id) from edge_logs", "merge x"):
        yield Request(f"bigquery {sql}", path, {**PROJECT, "sql": sql})


def _loads() -> Iterator[Request]:
    post = {"method": "POST", "content_type": "application/json", "caller": "shipper"}
    row = {"id": "one", "timestamp": "2025-06-02T08:15:02Z", "project": "acme", "event_message": "m", "metadata": [{}]}
    bodies = {
        "one": row,
        "again": row,
        "several": [{**row, "id": "two"}, {**row, "id": "three"}],
        "bad rows": [{**row, "timestamp": "soon"}, {**row, "id": []}, 7],
        "no array": "text",
    }
    for name, body in bodies.items():
        yield Request(f"load {name}", "/api/logs?source=edge_logs", body=json.dumps(body).encode(), **post)
    for source in ("none", "", "edge_logs&source=auth_logs"):
        yield Request(f"load to {source!r}", f"/api/logs?source={source}", body=json.dumps(row).encode(), **post)
    yield Request("load nothing", "/api/logs?source=edge_logs", body=b"", **post)
    zipped = {"Content-Encoding": "gzip"}
    yield Request("load what is no gzip", "/api/logs?source=edge_logs", headers=zipped, body=b"{}", **post)
    other = {"Content-Encoding": "br"}
    yield Request("load in another encoding", "/api/logs?source=edge_logs", headers=other, body=b"{}", **post)
    yield Request("load without the right", "/api/logs?source=edge_logs", body=b"{}", **{**post, "caller": "logs.all"})
    yield Request("load by GET", "/api/logs?source=edge_logs", caller="shipper")


def _cached() -> Iterator[Request]:
    path = f"{QUERY}/recorded.cached"
    yield Request("cached: a miss", path)
    yield Request("cached: a hit", path)
    for name, accept in FORMATS.items():
        yield Request(f"cached as {name}", path, headers={"Accept": accept})
    yield Request("cached and known", path, headers={"If-None-Match": "*"})
    yield Request("cached, HEAD", path, method="HEAD")


def _pages() -> Iterator[Request]:
    path = f"{QUERY}/logs.all"
    for name, accept in FORMATS.items():
        headers, first = {"Accept": accept}, f"page 1 as {name}"
        yield Request(first, path, {**PROJECT, "page_size": 4}, headers)
        yield Request(f"page 2 as {name}", path, PROJECT, headers, next_of=first)
    yield Request("page 1 of five", path, {**PROJECT, "page_size": 2, "iso_timestamp_end": "2025-06-02T08:16:30Z"})
    whole = {**PROJECT, "iso_timestamp_end": "2025-06-02T08:16:30Z"}
    yield Request("page 2 of five", path, whole, next_of="page 1 of five")
    yield Request("page 2 again", path, whole, next_of="page 1 of five")
    yield Request("a page of another size", path, {**whole, "page_size": 1}, next_of="page 1 of five")
    yield Request("a page of other arguments", path, PROJECT, next_of="page 1 of five")
    yield Request("a page in another format", path, whole, {"Accept": "text/csv"}, next_of="page 1 of five")
    redacted = {"SVC-Endpoint-Redact-PII": "true"}
    yield Request("a page with other redaction", path, whole, redacted, next_of="page 1 of five")
    yield Request("a page of another endpoint", f"{QUERY}/recorded.rows", whole, next_of="page 1 of five")
    yield Request("a page for who is bound", path, whole, next_of="page 1 of five", caller="bound")
    yield Request("a page by HEAD", path, {**PROJECT, "page_size": 2}, method="HEAD")
    yield Request("a page by POST", path, method="POST", body=b'{"project": "acme", "page_size": 4}',
                  content_type="application/json")  # fmt: skip
    yield Request("the only page", path, {"project": "nobody", "page_size": 2})
    for size in ("0", "-1", "x", "1.5", "1001", "", "007"):
        yield Request(f"page size {size!r}", path, {**PROJECT, "page_size": size})
    for token in ("", "x", "AAAA", "é", "x" * 5000):
        yield Request(f"page token {token[:9]!r}", path, {**PROJECT, "page_token": token})
    yield Request("page size twice", path, {**PROJECT, "page_size": ["1", "2"]})
    yield Request("pages of what has none", f"{QUERY}/recorded.many", {"page_size": 2})
    yield Request("pages of sql", path, {**PROJECT, "page_size": 2, "sql": "select 1"})
    yield Request("pages of lql", path, {**PROJECT, "page_size": 2, "lql": "a:b"})


def _streams() -> Iterator[Request]:
    path = f"{QUERY}/recorded.stream"
    for name, accept in FORMATS.items():
        headers = {"Accept": accept}
        yield Request(f"stream as {name}", path, headers=headers)
        yield Request(f"stream that fails as {name}", path, {"end": 3}, headers)
        yield Request(f"stream that fails at once as {name}", path, {"end": 1}, headers)
        yield Request(f"stream redacted as {name}", path, headers={**headers, "SVC-Endpoint-Redact-PII": "true"})
        yield Request(f"stream by HEAD as {name}", path, headers=headers, method="HEAD")
        yield Request(f"stream by POST as {name}", path, headers=headers, method="POST", body=b'{"end": 100}',
                      content_type="application/json")  # fmt: skip
        yield Request(f"stream with a mistake as {name}", path, {"end": "x"}, headers)


def _tails() -> Iterator[Request]:
    """The first page of a tail, which never waits, and what is no tail."""
    path = f"{QUERY}/logs.all"
    yield Request("tail, first page", path, {**PROJECT, "tail": "true", "lql": "m.response.status_code:>=400"})
    chosen = {**PROJECT, "tail": "true", "lql": "m.response.status_code:>=400 s:event_message"}
    yield Request("tail of one column", path, chosen)
    yield Request("tail, redacted", path, chosen, {"SVC-Endpoint-Redact-PII": "true"})
    yield Request("tail as CSV", path, chosen, {"Accept": "text/csv"})
    yield Request("tail false", path, {**PROJECT, "tail": "false", "lql": "s:event_message"})
    yield Request("tail perhaps", path, {**PROJECT, "tail": "perhaps", "lql": "s:event_message"})
    yield Request("tail without lql", path, {**PROJECT, "tail": "true"})
    yield Request("tail of sql", path, {**PROJECT, "tail": "true", "sql": "select 1"})
    yield Request("tail of a chart", path, {**PROJECT, "tail": "true", "lql": "c:count(*)"})
    yield Request("tail with a token of none", path, {**chosen, "page_token": "AAAA"})
    yield Request("tail of what has no lql", f"{QUERY}/recorded.many", {"tail": "true", "lql": "a:b"})


def _binary_and_compressed() -> Iterator[Request]:
    for name, accept in BINARY_FORMATS.items():
        yield Request(f"types as {name}", f"{QUERY}/recorded.types", headers={"Accept": accept})
        yield Request(f"log rows as {name}", f"{QUERY}/logs.all", PROJECT, {"Accept": accept})
        yield Request(f"no rows as {name}", f"{QUERY}/logs.all", {"project": "nobody"}, {"Accept": accept})
        yield Request(f"refusal as {name}", f"{QUERY}/recorded.rows", {"n": "x"}, {"Accept": accept})
        yield Request(f"stream as {name}", f"{QUERY}/recorded.stream", headers={"Accept": accept})
    for named in ("json", "csv", "ndjson", "arrow", "parquet", "JSON", "xml", ""):
        yield Request(f"format {named!r}", f"{QUERY}/recorded.rows", {"n": 1, "format": named})
    yield Request("format before Accept", f"{QUERY}/recorded.rows", {"n": 1, "format": "csv"}, {"Accept": "image/png"})
    for coding in ("gzip", "zstd", "gzip, zstd", "br", "identity", "gzip;q=0", "*"):
        yield Request(f"large in {coding!r}", f"{QUERY}/recorded.large", headers={"Accept-Encoding": coding})
    yield Request("large as CSV in gzip", f"{QUERY}/recorded.large",
                  headers={"Accept-Encoding": "gzip", "Accept": "text/csv"})  # fmt: skip
    yield Request("small in gzip", f"{QUERY}/recorded.many", headers={"Accept-Encoding": "gzip"})
    yield Request("stream in gzip", f"{QUERY}/recorded.stream",
                  headers={"Accept-Encoding": "gzip", "Accept": "text/csv"})  # fmt: skip


def _sent_otherwise() -> Iterator[Request]:
    """Bodies in chunks, tokens in the other header, other origins, and conditions."""
    rows = f"{QUERY}/recorded.rows"
    chunks: dict[str, Any] = {"method": "POST", "content_type": "application/json", "in_chunks": True}
    for text in ('{"n": 1}', "{", ""):
        yield Request(f"in chunks: {text}", rows, body=text.encode(), **chunks)
    yield Request("in chunks: a form", rows, body=b"n=2", **{**chunks, "content_type": FORM})
    yield Request("in chunks: GET", rows, body=b'{"n": 3}', **{**chunks, "method": "GET"})
    yield Request("in chunks: over its limit", rows, body=b'{"word": "' + b"x" * 1_100_000 + b'"}', **chunks)
    yield Request("in chunks: no access token", rows, body=b'{"n": 1}', **chunks, caller="")
    for value in ("Bearer lqe_0", "bearer x", "Basic eDp5", "Bearer", ""):
        yield Request(f"Authorization {value!r}", rows, headers={"Authorization": value}, caller="")
    yield Request("both headers", rows, {"n": 1}, {"Authorization": "Bearer lqe_0"})
    yield Request("a token in the address", rows, {"api_key": "lqe_0"}, caller="")
    for origin in ("https://app.example.org", "https://other.example.org", "null"):
        yield Request(f"origin {origin}", rows, {"n": 1}, {"Origin": origin})
        preflight = {"Origin": origin, "Access-Control-Request-Method": "GET",
                     "Access-Control-Request-Headers": "x-api-key"}  # fmt: skip
        yield Request(f"preflight of {origin}", rows, headers=preflight, method="OPTIONS", caller="")
    for name, value in {"If-None-Match": '"none"', "Range": "bytes=0-9", "Cache-Control": "no-cache",
                        "Expect": "100-continue", "X-HTTP-Method-Override": "DELETE"}.items():  # fmt: skip
        yield Request(f"header {name}", rows, {"n": 1}, {name: value})
    for host in ("other.example.org", "logs.example.org:8000", "logs.example.org."):
        yield Request(f"host {host}", rows, {"n": 1}, {"Host": host})


def query_string(request: Request, arguments: Mapping[str, Any]) -> str:
    """Return what follows the address: the request's own, and the arguments."""
    own = request.path.partition("?")[2]
    return "&".join(part for part in (own, urlencode(dict(arguments), doseq=True)) if part)
