"""The nginx of deploy/nginx by itself: what it answers and logs when the service does not answer, or never gets to."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.live.nginx import CONFIGURATIONS, OF_DEBIAN, nginx

pytestmark = pytest.mark.needs("nginx")
SECRET = "lqe_0123456789ab_secret"
CALL = f"/api/endpoints/query/logs.all?project=of-a-customer&api_key={SECRET}"
HTML = re.compile(rb"<html|<h1", re.IGNORECASE)


class Service(NamedTuple):
    """A program in place of the web server: it reads a request and does one thing with its connection."""

    port: int
    then: list[Callable[[socket.socket], None]]


def _end(connection: socket.socket) -> None:
    connection.close()


def _end_amid_the_head(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Le")
    connection.close()


def _answer_with_a_head_too_large(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nA: %s\r\n\r\n" % (b"a" * 70_000))
    connection.close()


def _end_amid_the_body(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
    connection.close()


def _answer(connection: socket.socket) -> None:
    body = b"<h1>the service's own</h1>"
    connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    connection.close()


@pytest.fixture
def service() -> Iterator[Service]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        then: list[Callable[[socket.socket], None]] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                connection.recv(65_536)
                then[0](connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Service(listening.getsockname()[1], then)
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(10)


@pytest.fixture(params=CONFIGURATIONS)
def proxy(request: pytest.FixtureRequest, service: Service) -> Iterator[tuple[int, Path]]:
    with nginx(request.param, upstream=service.port) as running:
        yield running


def ask(port: int, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    sent = {"Host": "logs.example.org", **{name.replace("_", "-"): value for name, value in headers.items()}}
    try:
        connection.request(method, path, body, sent, encode_chunked="Transfer-Encoding" in sent)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def assert_error(answer: tuple[int, dict[str, str], bytes], status: int, code: str) -> dict[str, str]:
    found, headers, body = answer
    assert found == status, body
    assert headers["content-type"] == "application/json; charset=utf-8"
    error = json.loads(body)["error"]
    assert set(error) == {"code", "message", "details", "request_id"}
    assert (error["code"], error["details"]) == (code, [])
    assert error["message"].endswith(".")
    assert error["request_id"] == headers["x-request-id"]
    assert headers["cache-control"] == "no-store"
    # A page of another origin can read it; it says nothing that not everybody may know.
    assert headers["access-control-allow-origin"] == "*"
    assert headers["access-control-expose-headers"] == "Retry-After, X-Request-ID"
    return headers


def assert_nothing_is_written(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            text = path.read_bytes()
            assert SECRET.encode() not in text, path
            assert b"of-a-customer" not in text, path


@pytest.mark.parametrize("then", [_end, _end_amid_the_head, _answer_with_a_head_too_large])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_service_that_breaks_off_is_a_503(
    proxy: tuple[int, Path], service: Service, then: Callable[[socket.socket], None], method: str
) -> None:
    service.then[:] = [then]
    answer = ask(proxy[0], method, CALL, body=b"{}" if method == "POST" else None)
    assert assert_error(answer, 503, "overloaded")["retry-after"] == "2"
    assert_nothing_is_written(proxy[1])


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_service_that_is_not_there_is_a_503(name: str) -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        with nginx(name, upstream=taken.getsockname()[1]) as (port, folder):
            assert assert_error(ask(port, "GET", CALL), 503, "overloaded")["retry-after"] == "2"
            status, headers, body = ask(port, "HEAD", CALL)
            assert (status, headers["retry-after"], body) == (503, "2", b"")
            assert_nothing_is_written(folder)


def test_an_answer_that_breaks_off_is_logged_by_nobody(proxy: tuple[int, Path], service: Service) -> None:
    service.then[:] = [_end_amid_the_body]
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        ask(proxy[0], "GET", CALL)
    assert_nothing_is_written(proxy[1])


def test_answers_of_the_service_pass_as_they_are(proxy: tuple[int, Path], service: Service) -> None:
    service.then[:] = [_answer]
    status, headers, body = ask(proxy[0], "GET", CALL)
    assert (status, body) == (404, b"<h1>the service's own</h1>")
    assert "access-control-allow-origin" not in headers
    assert_nothing_is_written(proxy[1])


def too_much() -> Iterator[bytes]:
    for _ in range(17):
        yield bytes(1024**2)


def test_a_body_that_is_too_large_is_a_413(proxy: tuple[int, Path]) -> None:
    with socket.create_connection(("127.0.0.1", proxy[0]), 20) as client:
        client.sendall(f"POST {CALL} HTTP/1.1\r\nHost: logs.example.org\r\nContent-Length: 17825792\r\n\r\n".encode())
        answer = http.client.HTTPResponse(client)
        answer.begin()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        headers = assert_error((answer.status, headers, answer.read()), 413, "request_too_large")
    assert "retry-after" not in headers
    assert_nothing_is_written(proxy[1])


def test_a_body_in_chunks_that_is_too_large_is_a_413(proxy: tuple[int, Path]) -> None:
    answer = ask(proxy[0], "POST", CALL, body=too_much(), Transfer_Encoding="chunked")
    assert_error(answer, 413, "request_too_large")
    assert_nothing_is_written(proxy[1])


@pytest.mark.parametrize(
    ("head", "status", "code"),
    [
        (f"GET {CALL}&a={'a' * 40_000} HTTP/1.1\r\nHost: logs.example.org\r\n\r\n", 431, "header_too_large"),
        (f"GET {CALL} HTTP/1.1\r\nHost: logs.example.org\r\nA: {'a' * 40_000}\r\n\r\n", 431, "header_too_large"),
        (f"GET {CALL} HTTP/1.1\r\n\r\n", 400, "invalid_request"),
        (f"GET {CALL} HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "invalid_request"),
        (f"POST {CALL} HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400, "invalid_request"),
        (f"POST {CALL} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: odd\r\n\r\n", 400, "invalid_request"),
        (f"GET /metrics?api_key={SECRET} HTTP/1.1\r\nHost: logs.example.org\r\n\r\n", 404, "not_found"),
        (f"GET /nginx-answers/overloaded?a={SECRET} HTTP/1.1\r\nHost: logs.example.org\r\n\r\n", 404, "not_found"),
    ],
)
def test_what_nginx_refuses_by_itself_has_the_one_error_body(
    proxy: tuple[int, Path], head: str, status: int, code: str
) -> None:
    with socket.create_connection(("127.0.0.1", proxy[0]), 20) as client:
        client.sendall(head.encode())
        answer = http.client.HTTPResponse(client)
        answer.begin()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        assert_error((answer.status, headers, answer.read()), status, code)
    assert_nothing_is_written(proxy[1])


def test_the_redirect_to_https_logs_nothing(service: Service) -> None:
    with nginx(OF_DEBIAN, upstream=service.port) as (_, folder):
        port = int((folder / "redirecting").read_text(encoding="ascii"))
        status, headers, _ = ask(port, "GET", CALL)
        assert (status, headers["location"]) == (301, f"https://logs.example.org{CALL}")
        assert_nothing_is_written(folder)
