"""Every route reads every way of sending a body from the real web server, whose clients frame it as they like."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from tests.endpoints.api.ways_of_sending import COMPRESSED, NAME, REQUESTS, SQL, TOLD, UUID, WAYS, Sent, Way
from tests.live.calls import Answer, Caller
from tests.live.installation import Installation

QUERY, LOAD = REQUESTS["JSON by name"], REQUESTS["NDJSON rows"]
IN_CHUNKS = WAYS["as it is, in chunks"]


@pytest.fixture(scope="module")
def sender(running_installation: Installation) -> Iterator[Caller]:
    """Somebody who may do everything that the table asks for."""
    running_installation.save(NAME, SQL, pk=UUID, sandboxing=True)
    secret = running_installation.console.do("issue", name="sender", may_load=True, may_issue=True)
    with running_installation.caller(secret=secret) as caller:
        yield caller


def send(caller: Caller, sent: Sent, way: Way = TOLD, *, body: bytes | None = None) -> Answer:
    packed = way.pack(sent.body) if body is None else body
    return caller.request(
        sent.method,
        f"{sent.path}?{sent.query}",
        body=in_pieces(packed) if way.in_chunks else packed,
        **{"Content-Type": sent.content_type, **way.headers},
    )


def in_pieces(body: bytes) -> Iterator[bytes]:
    """Yield a body of which the length is not known, as generators and pipes give it."""
    for start in range(0, len(body), 50):
        yield body[start : start + 50]


def answer_to(
    installation: Installation, caller: Caller, head: str, body: bytes, *, is_cut: bool = False
) -> tuple[int, bytes]:
    """Return the answer to what http.client would not send; a client that is cut sends nothing more."""
    with socket.create_connection(("127.0.0.1", installation.port), timeout=10) as connection:
        begin = f"POST {QUERY.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-KEY: {caller.secret}\r\nConnection: close\r\n"
        connection.sendall(f"{begin}Content-Type: application/json\r\n{head}\r\n".encode() + body)
        if is_cut:
            connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    begin_of_answer, _, rest = answer.partition(b"\r\n\r\n")
    return int(begin_of_answer[9:12] or b"0"), rest


@pytest.mark.parametrize("route", REQUESTS)
def test_the_answer_is_that_to_the_body(sender: Caller, route: str) -> None:
    sent, wrong = REQUESTS[route], {}
    for name, way in WAYS.items():
        answer = send(sender, sent, way)
        if sent.is_load and not sent.is_answered_by(answer.status, answer.body):
            # The same rows once more.
            assert json.loads(answer.body)["result"][0] == {"source": "edge_logs", "loaded": 0, "already_there": 2}
        elif not sent.is_answered_by(answer.status, answer.body):
            wrong[name] = (answer.status, answer.body)
    assert wrong == {}


@pytest.mark.parametrize("route", REQUESTS)
def test_a_broken_or_cut_body_is_a_400_and_one_that_becomes_too_large_a_413(sender: Caller, route: str) -> None:
    sent, wrong = REQUESTS[route], {}
    for name, way in WAYS.items():
        bodies = {400: [way.pack(sent.broken)]}
        if name in COMPRESSED:
            bodies[400].append(way.pack(sent.body)[:-1])
            bodies[413] = [way.pack(sent.body + b" " * 17 * 1024 * 1024)]
        answers = [(status, send(sender, sent, way, body=body)) for status in bodies for body in bodies[status]]
        differing = [(answer.status, answer.body) for status, answer in answers if answer.status != status]
        if differing:
            wrong[name] = differing
    assert wrong == {}


def test_a_body_in_chunks_has_trailers_and_extensions(installation: Installation, sender: Caller) -> None:
    """RFC 9112 section 7.1; a length beside it does not count (section 6.3)."""
    body = b'7;a=b\r\n{"proje\r\nc\r\nct": "acme"}\r\n0\r\nX-Trailer: a\r\n\r\n'
    for head in ("Transfer-Encoding: chunked\r\n", "Transfer-Encoding: Chunked\r\nContent-Length: 3\r\n"):
        status, answer = answer_to(installation, sender, head, body)
        assert (status, b'"project":"acme"' in answer) == (200, True)


CHUNKS = "Transfer-Encoding: chunked\r\n"
ACME = b'{"project": "acme"}'


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (CHUNKS, b"0\r\n\r\n"),
        (CHUNKS, b"no chunk\r\n" + ACME + b"\r\n0\r\n\r\n"),
        (CHUNKS, b"5\r\n" + ACME[:5] + b"\r\nx\r\n\r\n"),
        ("Transfer-Encoding: gzip, chunked\r\n", b"13\r\n" + ACME + b"\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked, gzip\r\n", b"13\r\n" + ACME + b"\r\n0\r\n\r\n"),
        (CHUNKS + "Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n", b"13\r\n" + ACME + b"\r\n0\r\n\r\n"),
        ("Content-Length: 18\r\n", ACME),
        ("Content-Length: x\r\n", ACME),
        ("Content-Length: 19\r\nContent-Length: 18\r\n", ACME),
    ],
)
def test_what_is_framed_wrongly_is_refused(installation: Installation, sender: Caller, head: str, body: bytes) -> None:
    status, answer = answer_to(installation, sender, head, body)
    assert status in {400, 415}, answer


@pytest.mark.parametrize(("head", "body"), [(CHUNKS, b"14\r\n" + ACME[:-1]), ("Content-Length: 20\r\n", ACME)])
def test_what_is_cut_is_refused(installation: Installation, sender: Caller, head: str, body: bytes) -> None:
    status, answer = answer_to(installation, sender, head, body, is_cut=True)
    assert status == 400, answer
