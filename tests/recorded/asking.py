"""Send recorded requests to a WSGI application and describe the answers, without what is another one each time."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import pyarrow.ipc
import pyarrow.parquet
import zstandard
from django.test import RequestFactory

from tests.recorded.installation import HOST
from tests.recorded.recordings import visible_text
from tests.recorded.requests import Request, query_string

Answer = dict[str, Any]

VARYING_HEADERS: Final = {"server-timing", "age", "x-request-id"}
_NAMES: Final = ("vary", "access-control-expose-headers", "access-control-allow-headers")
_NONCE: Final = re.compile(r"'nonce-[^']+'")
_ABRIDGED_FROM: Final = 20_000  # characters of a body
_PARQUET: Final = "application/vnd.apache.parquet"
_ARROW: Final = "application/vnd.apache.arrow.stream"


class Client:
    """Asks an application; an answer may give what a later request sends: the next page, a token for a browser."""

    def __init__(self, application: Callable[..., Any], secrets: Mapping[str, str]) -> None:
        self._application = application
        self._secrets = dict(secrets)
        self._next_pages: dict[str, str] = {}

    def ask(self, request: Request) -> Answer:
        """Return status, headers and body, with masks."""
        begun: dict[str, Any] = {}

        def start_response(status: str, headers: list[tuple[str, str]], error: object = None) -> None:
            begun["status"] = status[:3]  # the words behind it are those of the version of Python
            begun["headers"] = {name.lower(): value for name, value in headers}

        parts = self._application(self._environ(request), start_response)
        content = b"".join(parts)
        if hasattr(parts, "close"):
            parts.close()
        headers = {name: value for name, value in begun["headers"].items() if name not in VARYING_HEADERS}
        body = self._mask_given(request, headers, _body(content, headers))
        return {"status": begun["status"], "headers": _described(headers, begun["status"]), "body": body}

    def _environ(self, request: Request) -> dict[str, Any]:
        arguments = dict(request.arguments)
        if request.next_of:
            arguments["page_token"] = self._next_pages[request.next_of]
        made = RequestFactory().generic(request.method, request.path.partition("?")[0]).environ
        made |= {"QUERY_STRING": query_string(request, arguments), "HTTP_HOST": HOST, "HTTP_X_REQUEST_ID": "recorded"}
        made |= {"wsgi.input": io.BytesIO(request.body), "CONTENT_TYPE": request.content_type}
        made |= {"CONTENT_LENGTH": str(len(request.body)) if request.body else ""}
        if request.in_chunks:  # as granian hands such a body over
            made |= {"CONTENT_LENGTH": "", "HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}
        made |= {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in request.headers.items()}
        return {**made, "HTTP_X_API_KEY": self._secrets[request.caller]} if request.caller else made

    def _mask_given(self, request: Request, headers: dict[str, str], body: str) -> str:
        """Keep the page token or the token for a browser that is in the answer, and mask it."""
        given = {}
        if headers.get("content-type", "").startswith("application/json") and headers.get("content-encoding") is None:
            document = json.loads(body) if body else None
            if isinstance(document, dict):
                given["page token"] = document.get("next")
            if request.path.startswith("/api/tokens") and isinstance(document, dict) and "result" in document:
                (issued,) = document["result"]
                given |= {"browser token": issued["token"], "moment": issued["expires_at"]}
        if found := re.search(r"page_token=([^&>]+)", headers.get("link", "")):
            given["page token"] = found[1]
        for name, value in given.items():
            if not value:
                continue
            body = body.replace(value, f"<{name}>")
            headers |= {key: text.replace(value, f"<{name}>") for key, text in headers.items()}
            if "content-length" in headers:
                headers["content-length"] = f"<length with a {name}>"
        if given.get("page token"):
            self._next_pages[request.name] = str(given["page token"])
        if given.get("browser token"):
            self._secrets[f"token of {request.name}"] = str(given["browser token"])
        return body


def _body(content: bytes, headers: dict[str, str]) -> str:
    """Return the body in words: as it is, of HTML what a reader sees, of a binary form what it contains."""
    kind = headers.get("content-type", "").partition(";")[0]
    coding = headers.get("content-encoding")
    if coding and content:
        content = {"gzip": gzip.decompress, "zstd": zstandard.ZstdDecompressor().decompress}[coding](content)
        headers["content-length"] = "<length of the compressed body>"
    if kind in (_PARQUET, _ARROW):
        if content and "content-length" in headers:
            headers["content-length"] = "<length of a binary form>"
        return _table(kind, content)
    if kind == "application/x-protobuf":
        return content.hex()
    if kind == "text/html":
        headers.pop("content-length", None)
        return " | ".join(visible_text(content.decode()))
    return content.decode()


def _abridged(body: str) -> str:
    if len(body) <= _ABRIDGED_FROM:
        return body
    return f"{body[:200]} … {len(body)} characters, SHA-256 {hashlib.sha256(body.encode()).hexdigest()}"


def _table(kind: str, content: bytes) -> str:
    if not content:
        return ""
    read = pyarrow.parquet.read_table if kind == _PARQUET else lambda file: pyarrow.ipc.open_stream(file).read_all()
    table = read(io.BytesIO(content))
    columns = ", ".join(f"{field.name} {field.type}" for field in table.schema)
    return f"{columns}: {json.dumps(table.to_pylist(), default=str, ensure_ascii=False)}"


def _described(headers: dict[str, str], status: str) -> dict[str, str]:
    """Return the headers in order, without what is another one each time."""
    for name in _NAMES:
        if name in headers or name == "vary":
            words = {part.strip().lower() for part in headers.get(name, "").split(",")}
            headers[name] = ", ".join(sorted(words - {""}))
    if status.startswith("304"):
        headers.pop("content-length", None)  # Django says 0, and need not
    if "etag" in headers:  # made of the endpoint's id, among others
        headers["etag"] = "an entity tag"
    # Who asked first has had the miss; a plain GET is asked twice.
    if headers.get("x-cache") in ("miss", "hit"):
        headers["x-cache"] = "miss or hit"
    if "max-age" in headers.get("cache-control", ""):
        headers["cache-control"] = "max-age of what is left"
    if "content-security-policy" in headers:
        headers["content-security-policy"] = _NONCE.sub("'nonce-<nonce>'", headers["content-security-policy"])
    return dict(sorted(headers.items()))


def answers_to(
    requests: Iterable[Request], application: Callable[..., Any], secrets: Mapping[str, str]
) -> dict[str, Answer]:
    """Return the answer to each request by its name, asked in their order."""
    client = Client(application, secrets)
    answers: dict[str, Answer] = {}
    for request in requests:
        assert request.name not in answers, f"two requests of one name: {request.name}"
        answers[request.name] = client.ask(request)
    return answers


def as_lines(answers: Mapping[str, Answer]) -> list[str]:
    """Return a line for each answer; of a long body it has the beginning, the length and a digest."""
    described = ({"name": name, **answer, "body": _abridged(answer["body"])} for name, answer in answers.items())
    return [json.dumps(line, ensure_ascii=False) for line in described]
