"""Stands between a shipper and the service: passes each request on, keeps it, and may lose the first answer."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

# Of the connection, which is another one when a request is sent again from its record.
_OF_CONNECTION: Final = {"host", "connection", "content-length", "transfer-encoding", "accept-encoding"}
_SECRETS: Final = {"x-api-key", "authorization"}


@dataclass(slots=True)
class Request:
    """A request as it came in; names of headers in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes
    in_chunks: bool

    def as_line(self) -> str:
        """Return the request as a case: without secrets, and without this machine's name."""
        headers = {name: value for name, value in self.headers.items() if name not in _OF_CONNECTION | _SECRETS}
        case: dict[str, Any] = {"path": self.path, "headers": headers}
        if self.in_chunks:
            case["in_chunks"] = True
        try:
            case["body"] = self.body.decode().replace(f'"{socket.gethostname()}"', '"web-1"')
        except UnicodeDecodeError:
            case["base64"] = base64.b64encode(self.body).decode()
        return json.dumps(case, ensure_ascii=False)


@dataclass(slots=True)
class Recorder:
    """The address that shippers get in place of the service's, and what they sent."""

    url: str
    requests: list[Request] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)  # of the service's answers


@contextmanager
def recording(port: int, *, loses_first_answer: bool = False) -> Iterator[Recorder]:
    """Run a recorder before the service on this port; a lost answer is a 503 after the rows are stored."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = _received(self)
            with lock:
                recorder.requests.append(request)
                is_first = len(recorder.requests) == 1
            status, headers, body = _passed_on(request, port)
            recorder.statuses.append(status)
            if is_first and loses_first_answer:
                status, headers, body = 503, {"Retry-After": "1"}, b""
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    lock = threading.Lock()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    recorder = Recorder(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield recorder
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _received(handler: BaseHTTPRequestHandler) -> Request:
    headers = {name.lower(): value for name, value in handler.headers.items()}
    in_chunks = headers.get("transfer-encoding", "").lower() == "chunked"
    body = b"".join(_chunks(handler)) if in_chunks else handler.rfile.read(int(headers.get("content-length", 0)))
    return Request(handler.path, headers, body, in_chunks)


def _chunks(handler: BaseHTTPRequestHandler) -> Iterator[bytes]:
    while size := int(handler.rfile.readline().partition(b";")[0], 16):
        yield handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()


def _passed_on(request: Request, port: int) -> tuple[int, dict[str, str], bytes]:
    kept = {name: value for name, value in request.headers.items() if name not in _OF_CONNECTION}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        body = iter([request.body]) if request.in_chunks else request.body
        connection.request("POST", request.path, body, kept, encode_chunked=request.in_chunks)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    return answer.status, {"Content-Type": answer.headers.get("Content-Type", "")}, content
