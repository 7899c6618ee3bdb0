"""The outermost application: which bodies are read, and what is refused before anything behind it works on it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.db import OperationalError
from django.utils import timezone

from config.connections import HANG_UP
from endpoints.access.access_tokens import issue_access_token
from endpoints.access.browser_tokens import Claims, sign
from endpoints.api.slow_bodies import SLOW_AFTER_SECONDS, STRANGER, BodyCutOff, ReadingPlaces
from endpoints.api.slow_clients import COOKIE_BACKSLASHES, HEADER_BYTES, STRANGER_BYTES, SlowClients, _caller
from endpoints.models import Endpoint
from tests.still_clock import StillClock


class Behind:
    """The application behind: reads the body when told to, and keeps what it got."""

    def __init__(self, *, reads: bool = True) -> None:
        self.reads = reads
        self.body: bytes | None = None
        self.calls = 0
        self.is_closed = False

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        self.calls += 1
        if self.reads:
            try:
                self.body = environ["wsgi.input"].read()
            except BodyCutOff:
                start_response("400 Bad Request", [])
                return [b"could not read"]
        start_response("200 OK", [("X-Behind", "yes")])
        return self

    def __iter__(self) -> Any:
        return iter((b"o", b"k"))

    def close(self) -> None:
        self.is_closed = True


class Unreadable(io.RawIOBase):
    def read(self, size: int = -1) -> bytes:
        raise AssertionError("nobody should read this body")


class Client:
    def __init__(self, behind: Behind) -> None:
        self.clock = StillClock()
        self.places = ReadingPlaces(threads=16, body_seconds=60.0, bytes_per_second=4096, clock=self.clock)
        self.application = SlowClients(behind, self.places)
        self.headers: dict[str, str] = {}

    def send(self, method: str, path: str, body: Any = None, **environ: Any) -> tuple[int, bytes]:
        sent = io.BytesIO(body or b"") if body is None or isinstance(body, bytes) else body
        length = {"CONTENT_LENGTH": str(len(body))} if isinstance(body, bytes) else {}
        given = {"REQUEST_METHOD": method, "PATH_INFO": path, "wsgi.input": sent, **length, **environ}
        statuses: list[int] = []

        def start_response(status: str, headers: list[tuple[str, str]]) -> None:
            statuses.append(int(status[:3]))
            self.headers = dict(headers)

        answer = self.application(given, start_response)
        assert isinstance(answer, list)
        (status,) = statuses
        return status, b"".join(answer)


def code(body: bytes) -> str:
    return str(json.loads(body)["error"]["code"])


@pytest.mark.parametrize("address", ["/api/endpoints/query", "/api/endpoints/query/name", "/endpoints/query"])
def test_a_body_is_read_to_its_end(address: str) -> None:
    behind = Behind()
    sent = bytes(range(256)) * 300
    client = Client(behind)
    environ = {"CONTENT_LENGTH": str(len(sent)), "HTTP_X_API_KEY": "secret"}
    assert client.send("POST", f"{address}/logs.all", sent + b"next", **environ)[0] == 200
    assert behind.body == sent


@pytest.mark.parametrize("path", ["/api/logs", "/logs", "/api/logs/json", "/logs/json/", "/v1/logs"])
def test_a_body_in_chunks_is_read_to_its_end(path: str) -> None:
    behind = Behind()
    client = Client(behind)
    in_chunks = {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}
    assert client.send("POST", path, io.BytesIO(b"x" * 50_000), **in_chunks, HTTP_X_API_KEY="a")[0] == 200
    assert behind.body == b"x" * 50_000


def test_an_answer_is_handed_over_whole_and_closed() -> None:
    behind = Behind(reads=False)
    client = Client(behind)
    assert client.send("GET", "/livez") == (200, b"ok")
    assert behind.is_closed
    assert client.headers == {"X-Behind": "yes"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/nothing/here"),
        ("POST", "/"),
        ("POST", "/livez"),
        ("POST", "/api/logsource"),
        ("POST", "/other/endpoints/query/logs.all"),
        ("POST", "/api/endpoints/cache/logs.all"),
        ("GET", "/admin/login/"),
        ("PUT", "/admin/login/"),
        ("DELETE", "/api/endpoints/query/logs.all"),
        ("PATCH", "/api/logs"),
        ("TRACE", "/api/logs"),
    ],
)
def test_nobody_waits_for_a_body_that_nobody_wants(method: str, path: str) -> None:
    behind = Behind()
    assert Client(behind).send(method, path, Unreadable(), CONTENT_LENGTH="1000")[0] == 200
    assert behind.body == b""


def test_a_body_is_not_read_before_the_application_asks_for_it() -> None:
    behind = Behind(reads=False)
    answer = Client(behind).send("POST", "/api/endpoints/query/logs.all", Unreadable(), CONTENT_LENGTH="1000")
    assert answer == (200, b"ok")


def test_no_place_is_a_503_whatever_the_application_says() -> None:
    client = Client(Behind())
    for _ in range(2):
        client.places.enter(STRANGER)
    client.clock.now += SLOW_AFTER_SECONDS * 2
    status, body = client.send("POST", "/admin/login/", b"username=a")
    assert (status, code(body)) == (503, "overloaded")
    assert client.headers["Retry-After"] == "1"
    assert client.headers["Connection"] == "close"
    assert client.headers["Content-Type"] == "application/json; charset=utf-8"


def test_a_place_is_free_again_after_the_body() -> None:
    client = Client(Behind())
    for _ in range(20):
        assert client.send("POST", "/admin/login/", b"username=a")[0] == 200
    assert client.places._readers == []


def test_a_body_that_is_late_is_a_408() -> None:
    client = Client(Behind())

    class Late(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            client.clock.now += 100
            client.places.take_late()
            return b""

    status, body = client.send("POST", "/admin/login/", Late(), CONTENT_LENGTH="1000")
    assert (status, code(body)) == (408, "request_timeout")
    assert client.places._readers == []


def test_a_stranger_sends_no_large_body() -> None:
    client = Client(Behind())
    status, body = client.send("POST", "/admin/login/", Unreadable(), CONTENT_LENGTH=str(STRANGER_BYTES + 1))
    assert (status, code(body)) == (413, "request_too_large")


@pytest.mark.parametrize("name", ["HTTP_COOKIE", "HTTP_ACCEPT", "HTTP_IF_NONE_MATCH", "HTTP_X_ANYTHING"])
def test_a_header_that_is_too_large_is_a_431(name: str) -> None:
    behind = Behind()
    client = Client(behind)
    status, body = client.send("GET", "/api/endpoints/query/logs.all", **{name: "a" * (HEADER_BYTES + 1)})
    assert (status, code(body)) == (431, "header_too_large")
    assert behind.calls == 0
    assert client.headers["X-Request-ID"] == json.loads(body)["error"]["request_id"]


def test_a_header_of_the_limit_passes() -> None:
    assert Client(Behind(reads=False)).send("GET", "/livez", HTTP_COOKIE="a" * HEADER_BYTES)[0] == 200


def test_a_cookie_that_takes_long_to_read_is_refused() -> None:
    client = Client(Behind(reads=False))
    status, body = client.send("GET", "/admin/", HTTP_COOKIE='a="' + "\\" * (COOKIE_BACKSLASHES + 1) + '"')
    assert (status, code(body)) == (400, "invalid_request")
    assert client.send("GET", "/admin/", HTTP_COOKIE='a="' + "\\" * COOKIE_BACKSLASHES + '"')[0] == 200


@pytest.mark.django_db
def test_an_admin_request_is_known_by_a_session_that_is_logged_in() -> None:
    logged_in, anonymous = SessionStore(), SessionStore()
    logged_in["_auth_user_id"] = "1"
    logged_in.save()
    anonymous["seen"] = True
    anonymous.save()

    def caller(key: str | None, path: str = "/admin/endpoints/endpoint/add/") -> str:
        cookie = f"csrftoken=x; {settings.SESSION_COOKIE_NAME}={key}"
        return _caller({"PATH_INFO": path, "HTTP_COOKIE": cookie})

    assert caller(logged_in.session_key) == logged_in.session_key
    assert caller(anonymous.session_key) == STRANGER
    assert caller("madeupmadeupmadeupmadeupmadeup12") == STRANGER
    assert _caller({"PATH_INFO": "/admin/"}) == STRANGER


def test_a_request_of_the_api_is_known_by_its_access_token() -> None:
    assert _caller({"PATH_INFO": "/api/logs", "HTTP_X_API_KEY": "secret"}) == "secret"
    assert _caller({"PATH_INFO": "/api/logs", "HTTP_AUTHORIZATION": "Bearer secret"}) == "Bearer secret"


def test_a_session_is_looked_up_within_the_application_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Django answers a database that is away; out here nobody would."""

    def fail(store: SessionStore, key: str) -> bool:
        raise OperationalError

    monkeypatch.setattr(SessionStore, "__contains__", fail)

    def django(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        with pytest.raises(OperationalError):
            environ["wsgi.input"].read()
        start_response("503 Service Unavailable", [])
        return [b"away"]

    client = Client(Behind())
    client.application = SlowClients(django, client.places)
    cookie = f"{settings.SESSION_COOKIE_NAME}=abcdef"
    assert client.send("POST", "/admin/endpoints/", b"a=b", HTTP_COOKIE=cookie) == (503, b"away")


def test_a_stranger_costs_nothing_while_every_place_is_stuck() -> None:
    behind = Behind()
    client = Client(behind)
    for _ in range(2):
        client.places.enter(STRANGER)
    client.clock.now += 2 * SLOW_AFTER_SECONDS
    status, body = client.send("POST", "/admin/login/", b"a=b")
    assert (status, code(body), behind.calls) == (503, "overloaded", 0)


# --- Pages of other origins: they can read why they were refused ------------------------------------------------------
APP, OTHER = "https://app.example.org", "https://other.example.org"
QUERY = "/api/endpoints/query/logs.all"


def late(client: Client) -> io.RawIOBase:
    class Late(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            client.clock.now += 100
            for reader in client.places.take_late():
                assert reader.hang_up is None or reader.failure is not None
                if reader.hang_up is not None and reader.failure is not None:
                    reader.hang_up(reader.failure)
            return b""

    return Late()


def full(client: Client) -> None:
    for _ in range(2):
        client.places.enter(STRANGER)
    client.clock.now += SLOW_AFTER_SECONDS * 2


def refusals() -> list[Any]:
    def large_header(client: Client, path: str, **sent: str) -> tuple[int, bytes]:
        return client.send("GET", path, **sent, HTTP_COOKIE="a" * (HEADER_BYTES + 1))

    def cookie(client: Client, path: str, **sent: str) -> tuple[int, bytes]:
        return client.send("GET", path, **sent, HTTP_COOKIE="\\" * (COOKIE_BACKSLASHES + 1))

    def large_body(client: Client, path: str, **sent: str) -> tuple[int, bytes]:
        return client.send("POST", path, Unreadable(), **sent, CONTENT_LENGTH=str(STRANGER_BYTES + 1))

    def late_body(client: Client, path: str, **sent: str) -> tuple[int, bytes]:
        return client.send("POST", path, late(client), **sent, CONTENT_LENGTH="1000")

    def no_place(client: Client, path: str, **sent: str) -> tuple[int, bytes]:
        full(client)
        return client.send("POST", path, b"{}", **sent)

    return [
        pytest.param(431, large_header, id="large header"),
        pytest.param(400, cookie, id="cookie"),
        pytest.param(413, large_body, id="large body"),
        pytest.param(408, late_body, id="late body"),
        pytest.param(503, no_place, id="no place"),
    ]


@pytest.mark.django_db
@pytest.mark.parametrize(("status", "refused"), refusals())
@pytest.mark.parametrize("path", [QUERY, "/endpoints/query/logs.all", "/api/logs", "/v1/logs", "/mcp", "/api/tokens"])
def test_a_page_of_an_allowed_origin_can_read_a_refusal(
    settings: Any, path: str, status: int, refused: Callable[..., tuple[int, bytes]]
) -> None:
    settings.CORS_ALLOWED_ORIGINS = [APP]
    client = Client(Behind())
    assert refused(client, path, HTTP_ORIGIN=APP)[0] == status
    assert client.headers["access-control-allow-origin"] == APP
    assert "Retry-After" in client.headers["access-control-expose-headers"]
    assert client.headers["Vary"].lower() == "origin"
    assert client.headers["Content-Type"] == "application/json; charset=utf-8"


@pytest.mark.django_db
@pytest.mark.parametrize(("status", "refused"), refusals())
@pytest.mark.parametrize(
    ("path", "sent"),
    [
        (QUERY, {"HTTP_ORIGIN": OTHER}),
        (QUERY, {"HTTP_ORIGIN": "http://["}),
        (QUERY, {"HTTP_ORIGIN": "null"}),
        (QUERY, {"HTTP_ORIGIN": ""}),
        (QUERY, {}),
        ("/admin/login/", {"HTTP_ORIGIN": APP}),
    ],
)
def test_nobody_else_can(
    settings: Any, path: str, sent: dict[str, str], status: int, refused: Callable[..., tuple[int, bytes]]
) -> None:
    settings.CORS_ALLOWED_ORIGINS = [APP]
    client = Client(Behind())
    assert refused(client, path, **sent)[0] == status
    assert [name for name in client.headers if name.lower().startswith("access-control-")] == []


@pytest.mark.django_db
@pytest.mark.parametrize(("origin", "allowed"), [(APP, True), (OTHER, False)])
def test_a_page_can_read_that_its_body_was_cut_off(settings: Any, origin: str, allowed: bool) -> None:
    settings.CORS_ALLOWED_ORIGINS = [APP]
    client = Client(Behind())
    sent: list[tuple[int, dict[str, str], bytes]] = []

    def hang_up(status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        sent.append((status, dict(headers), body))

    client.send("POST", QUERY, late(client), CONTENT_LENGTH="1000", HTTP_ORIGIN=origin, **{HANG_UP: hang_up})
    ((status, headers, body),) = sent
    assert (status, code(body)) == (408, "request_timeout")
    assert (headers.get("access-control-allow-origin") == APP) is allowed


@pytest.mark.django_db
def test_a_page_with_a_browser_token_can_read_a_refusal_and_no_other_page() -> None:
    prefix = issue_access_token(name="backend", may_issue=True, allowed_origins=[APP]).access_token.prefix
    endpoints = frozenset([str(Endpoint.objects.get(name="logs.all").pk)])
    now = int(timezone.now().timestamp())
    token = sign(Claims(prefix, endpoints, {"project": "acme"}, now + 3600))
    for origin, allowed in ((APP, True), (OTHER, False)):
        client = Client(Behind())
        large = {"HTTP_COOKIE": "a" * (HEADER_BYTES + 1)}
        client.send("GET", QUERY, HTTP_ORIGIN=origin, HTTP_AUTHORIZATION=f"Bearer {token}", **large)
        assert ("access-control-allow-origin" in client.headers) is allowed
