"""Clients that send a byte now and then hold no thread: others are answered meanwhile, and the slow ones are ended."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle, islice

import pytest

from tests.faults.conftest import CACHED, PLAIN
from tests.live.calls import until
from tests.live.installation import Installation

CONNECTIONS = 64  # twice the threads of both web processes
ATTACK_SECONDS = 5.0
MOST_SECONDS = 3.0  # of a call meanwhile; without the attack it takes some milliseconds
FORM = "Content-Type: application/x-www-form-urlencoded\r\nCookie: csrftoken=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n"
LENGTH = "Content-Length: 1000\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"


def head(method_and_path: str, headers: str, *, version: str = "1.1", end: str = "\r\n") -> bytes:
    return f"{method_and_path} HTTP/{version}\r\nHost: 127.0.0.1\r\n{headers}{end}".encode()


def kinds(secret: str, loading_secret: str) -> dict[str, tuple[bytes, bytes]]:
    """Return what each kind of slow client sends at once, and what a little at a time."""
    query, load = "POST /api/endpoints/query/logs.all", "POST /api/logs?source=edge_logs"
    key = f"X-API-KEY: {secret}\r\n"
    json = f"{key}Content-Type: application/json\r\n"
    loading = f"X-API-KEY: {loading_secret}\r\nContent-Type: application/json\r\n"
    return {
        "login": (head("POST /admin/login/", FORM + LENGTH), b"a"),
        "login_in_chunks": (head("POST /admin/login/", FORM + CHUNKED), b"1\r\na\r\n"),
        "admin": (head("POST /admin/endpoints/endpoint/add/", FORM + LENGTH), b"a"),
        "unknown_address": (head("POST /nothing/here", FORM + LENGTH), b"a"),
        "query": (head(query, json + LENGTH), b" "),
        "query_that_sends_nothing": (head(query, json + LENGTH), b""),
        "query_of_nobody": (head(query, LENGTH), b" "),
        "query_by_http_1_0": (head(query, json + LENGTH, version="1.0"), b" "),
        "query_by_get": (head("GET /api/endpoints/query/logs.all", json + LENGTH), b" "),
        "query_that_expects_100": (head(query, json + "Expect: 100-continue\r\n" + LENGTH), b" "),
        "load": (head(load, loading + LENGTH), b" "),
        "load_in_chunks": (head(load, loading + CHUNKED), b"1\r\n \r\n"),
        "load_in_one_slow_chunk": (head(load, loading + CHUNKED) + b"ffff\r\n", b" "),
        "half_a_head": (head("POST /admin/login/", "X-Slow: ", end=""), b"a"),
        "nothing_at_all": (b"", b""),
        "behind_a_call": (head("GET /livez", "") + head(query, json + LENGTH), b" "),
    }


class SlowClients:
    """Connections that send a little each half second, from one thread, made again some seconds after their end."""

    def __init__(self, port: int, texts: Sequence[tuple[bytes, bytes]], *, pause_seconds: float = 0.0) -> None:
        self._port = port
        self._pause_seconds = pause_seconds
        self._due: list[tuple[float, tuple[bytes, bytes]]] = []
        self._texts = texts
        self._over = threading.Event()
        self._open: dict[socket.socket, tuple[bytes, bytes]] = {}
        self._thread = threading.Thread(target=self._attack)
        self.ended = 0
        self.statuses: Counter[bytes] = Counter()

    def __enter__(self) -> SlowClients:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _attack(self) -> None:
        with ExitStack() as stack, selectors.DefaultSelector() as selector:
            stack.callback(lambda: [each.close() for each in self._open])
            for text in self._texts:
                self._begin(selector, text)
            while not self._over.is_set():
                for connection, (_, little) in list(self._open.items()):
                    self._send(selector, connection, little)
                deadline = time.monotonic() + 0.5
                while (left := deadline - time.monotonic()) > 0 and not self._over.is_set():
                    for text in self._take_due():
                        self._begin(selector, text)
                    for key, _ in selector.select(min(left, 0.02)):
                        assert isinstance(key.fileobj, socket.socket)
                        self._read(selector, key.fileobj)

    def _begin(self, selector: selectors.BaseSelector, text: tuple[bytes, bytes]) -> None:
        connection = socket.create_connection(("127.0.0.1", self._port), timeout=5)
        self._open[connection] = text
        selector.register(connection, selectors.EVENT_READ)
        connection.sendall(text[0])

    def _send(self, selector: selectors.BaseSelector, connection: socket.socket, little: bytes) -> None:
        try:
            connection.sendall(little)
        except OSError:
            self._begin_again(selector, connection)

    def _read(self, selector: selectors.BaseSelector, connection: socket.socket) -> None:
        try:
            got = connection.recv(65_536)
        except OSError:
            got = b""
        self.statuses.update(line[9:12] for line in got.split(b"\r\n") if line.startswith(b"HTTP/1."))
        if not got:
            self._begin_again(selector, connection)

    def _begin_again(self, selector: selectors.BaseSelector, connection: socket.socket) -> None:
        self.ended += 1
        selector.unregister(connection)
        text = self._open.pop(connection)
        connection.close()
        if self._pause_seconds:
            # Not all at the same moment, which would be another attack.
            pause = self._pause_seconds * (0.5 + self.ended * 0.618 % 1)
            self._due.append((time.monotonic() + pause, text))
        else:
            self._begin(selector, text)

    def _take_due(self) -> list[tuple[bytes, bytes]]:
        now = time.monotonic()
        due = [text for at, text in self._due if at <= now]
        self._due = [(at, text) for at, text in self._due if at > now]
        return due


@pytest.fixture(scope="module")
def loading_secret(running_installation: Installation) -> str:
    secret: str = running_installation.console.do("issue", name="slow loads", may_load=True)
    return secret


@contextmanager
def attacked(
    installation: Installation, loading_secret: str, names: Sequence[str], connections: int = CONNECTIONS
) -> Iterator[SlowClients]:
    texts = kinds(installation.secret, loading_secret)
    with SlowClients(installation.port, [texts[name] for name in islice(cycle(names), connections)]) as attack:
        yield attack


def times_of_others(installation: Installation, goes_on: Callable[[], bool]) -> list[float]:
    """Call what others call, on new connections, so that both web processes are asked; return the seconds."""
    seconds: list[float] = []
    while goes_on():
        with installation.caller() as caller:
            answers = [caller.request("GET", "/livez"), caller.query(CACHED), caller.query(PLAIN)]
        assert [answer.status for answer in answers] == [200, 200, 200]
        seconds += [answer.seconds for answer in answers]
        time.sleep(0.02)
    return seconds


@pytest.mark.parametrize("name", ["login", "query", "load_in_chunks"])
def test_others_are_answered_while_one_kind_of_client_is_slow(
    installation: Installation, loading_secret: str, name: str
) -> None:
    with attacked(installation, loading_secret, [name]) as attack:
        deadline = time.monotonic() + ATTACK_SECONDS
        seconds = times_of_others(installation, lambda: time.monotonic() < deadline)
        until(lambda: attack.ended > 0, seconds=15)
    assert max(seconds) < MOST_SECONDS


def test_others_are_answered_while_all_kinds_of_clients_are_slow(
    installation: Installation, loading_secret: str
) -> None:
    names = list(kinds("", ""))
    with attacked(installation, loading_secret, names, connections=8 * len(names)) as attack:
        deadline = time.monotonic() + ATTACK_SECONDS
        seconds = times_of_others(installation, lambda: time.monotonic() < deadline)
    assert max(seconds) < MOST_SECONDS
    assert {b"408", b"503"} <= attack.statuses.keys()


@pytest.mark.parametrize(
    "name",
    [
        *("login", "query_that_sends_nothing", "query_by_http_1_0", "query_by_get", "query_that_expects_100"),
        *("load_in_chunks", "load_in_one_slow_chunk"),
    ],
)
def test_a_slow_client_is_told_so_and_its_connection_is_closed(
    installation: Installation, loading_secret: str, name: str
) -> None:
    first, little = kinds(installation.secret, loading_secret)[name]
    received = b""
    with socket.create_connection(("127.0.0.1", installation.port), timeout=20) as connection:
        connection.sendall(first + little)
        while part := connection.recv(65_536):
            received += part
    received = received.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert received.split(b"\r\n")[0].endswith(b" 408 Request Timeout")
    assert b'"code":"request_timeout"' in received


def test_after_slow_clients_every_thread_is_there_again(installation: Installation, loading_secret: str) -> None:
    with attacked(installation, loading_secret, ["query", "load", "login"]) as attack:
        until(lambda: attack.ended > 10, seconds=15)
    with installation.caller() as caller:

        def posts() -> bool:
            answer = caller.request(
                "POST", f"/api/endpoints/query/{PLAIN}", body=b"{}", Content_Type="application/json"
            )
            return answer.status == 200

        until(posts, seconds=15)


def test_slow_bodies_of_one_access_token_leave_places_to_another(
    installation: Installation, loading_secret: str
) -> None:
    with attacked(installation, loading_secret, ["load"]):
        time.sleep(1)
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            with installation.caller() as caller:
                answer = caller.request(
                    "POST", f"/api/endpoints/query/{PLAIN}", body=b"{}", Content_Type="application/json"
                )
            assert answer.status == 200
            time.sleep(0.02)
