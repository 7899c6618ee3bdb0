"""Every route reads a body in every way of sending it, or refuses it; none answers as if nothing had been sent."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from endpoints.access.access_tokens import issue_access_token
from endpoints.api import bodies
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from tests.conftest import empty_log_tables
from tests.endpoints.api.conftest import Ask
from tests.endpoints.api.loads import stored
from tests.endpoints.api.ways_of_sending import (
    COMPRESSED,
    JSON,
    MULTIPART,
    NAME,
    REQUESTS,
    SQL,
    TOLD,
    UUID,
    WAYS,
    Sent,
    Way,
)

pytestmark = pytest.mark.django_db
GZIP, ZSTD = WAYS["gzip, told"], WAYS["zstd, told"]
QUERY, LOAD = REQUESTS["JSON by name"], REQUESTS["NDJSON rows"]

Send = Callable[..., tuple[int, dict[str, str], bytes]]


@pytest.fixture
def send(ask: Ask, log_database: psycopg.Connection[Any]) -> Send:
    """Return a function that sends a request of the table, its body replaced by `packed` if that is given."""
    secret = issue_access_token(name="sender", may_issue=True, may_load=True).secret
    save_endpoint(Endpoint(pk=UUID, name=NAME, sql=SQL, sandboxing=True), [])

    def send_one(sent: Sent, way: Way = TOLD, *, packed: bytes | None = None, **headers: str) -> Any:
        return ask(
            sent.query,
            path=sent.path,
            method=sent.method,
            body=way.pack(sent.body) if packed is None else packed,
            content_type=sent.content_type,
            in_chunks=way.in_chunks,
            **{"x_api_key": secret, **({"content_encoding": way.coding} if way.coding else {}), **headers},
        )

    return send_one


@contextmanager
def at_most(megabytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < megabytes * 1024 * 1024


def code(body: bytes) -> str:
    return str(json.loads(body)["error"]["code"])


# --- Every route, every way -------------------------------------------------------------------------------------------
# Each test sends its route's request in all ways and lists those that were not answered as they should be.
Wrong = dict[str, object]


@pytest.mark.parametrize("route", REQUESTS)
def test_the_answer_is_that_to_the_body(send: Send, log_database: psycopg.Connection[Any], route: str) -> None:
    sent, wrong = REQUESTS[route], Wrong()
    for name, way in WAYS.items():
        empty_log_tables(log_database)
        status, _, body = send(sent, way)
        if not sent.is_answered_by(status, body) or len(stored(log_database)) != (2 if sent.is_load else 0):
            wrong[name] = (status, body)
    assert wrong == {}


@pytest.mark.parametrize("route", REQUESTS)
def test_a_broken_body_is_a_400(send: Send, log_database: psycopg.Connection[Any], route: str) -> None:
    sent, wrong = REQUESTS[route], Wrong()
    for name, way in WAYS.items():
        status, _, body = send(sent, way, packed=way.pack(sent.broken))
        if status != 400:
            wrong[name] = (status, body)
    assert (wrong, stored(log_database)) == ({}, [])


@pytest.mark.parametrize("route", REQUESTS)
def test_a_body_that_is_too_large_is_a_413_also_if_only_its_content_is(
    send: Send, settings: Any, log_database: psycopg.Connection[Any], route: str
) -> None:
    settings.ENDPOINTS_MAX_BODY_BYTES = settings.ENDPOINTS_MAX_LOAD_BYTES = 5_000
    sent, wrong = REQUESTS[route], Wrong()
    for name, way in WAYS.items():
        large = way.pack(sent.body + b" " * 5_000)
        assert (len(large) < 5_000) is (name in COMPRESSED)
        status, _, body = send(sent, way, packed=large)
        if status != 413:
            wrong[name] = (status, body)
    assert (wrong, stored(log_database)) == ({}, [])


# --- Damaged codings --------------------------------------------------------------------------------------------------
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut at its end": lambda packed: packed[:-1],
    "cut in the middle": lambda packed: packed[: len(packed) // 2],
    "one byte of it": lambda packed: packed[:1],
    "more behind it": lambda packed: packed + b"rest",
    "another empty one behind it": lambda packed: packed + b"\x03\x00",  # as raw deflate
    "not compressed at all": lambda packed: b'{"project": "acme"}',
}


@pytest.mark.parametrize("route", ["JSON by name", "multipart", "NDJSON rows", "a browser token", "a message of MCP"])
def test_damaged_compression_is_a_400(send: Send, log_database: psycopg.Connection[Any], route: str) -> None:
    sent, wrong = REQUESTS[route], Wrong()
    for name, way in COMPRESSED.items():
        for damage, damaged in DAMAGES.items():
            status, _, body = send(sent, way, packed=damaged(way.pack(sent.body)))
            if status != 400:
                wrong[f"{name}, {damage}"] = (status, body)
    assert (wrong, stored(log_database)) == ({}, [])


@pytest.mark.parametrize("route", REQUESTS)
def test_another_coding_or_several_are_a_415_that_lists_those_there_are(send: Send, route: str) -> None:
    for coding in ("br", "compress", "gzip, gzip", "gzip,deflate", "gzip;q=1", "utf-8", "*"):
        status, headers, _ = send(REQUESTS[route], content_encoding=coding)
        assert (status, headers["Accept-Encoding"]) == (415, "gzip, deflate, zstd")


@pytest.mark.parametrize("coding", ["gzip", "deflate", "raw deflate", "zstd"])
def test_a_bomb_is_not_expanded(send: Send, settings: Any, coding: str) -> None:
    settings.ENDPOINTS_MAX_BODY_BYTES = settings.ENDPOINTS_MAX_LOAD_BYTES = 1_000_000
    way = WAYS[f"{coding}, in chunks"]
    bomb = way.pack(b" " * 100_000_000)
    for route in (QUERY, LOAD):
        with at_most(12):
            assert send(route, way, packed=bomb)[0] == 413


@pytest.mark.parametrize("coding", ["gzip", "deflate", "raw deflate", "zstd"])
def test_a_body_that_is_too_large_only_as_a_whole_is_a_413(send: Send, settings: Any, coding: str) -> None:
    settings.ENDPOINTS_MAX_BODY_BYTES = settings.ENDPOINTS_MAX_LOAD_BYTES = 3_000_000  # more than is expanded at once
    way = WAYS[f"{coding}, told"]
    for route in (QUERY, LOAD):
        assert send(route, way, packed=way.pack(b" " * 6_000_000))[0] == 413


@pytest.mark.parametrize("way", [GZIP, ZSTD], ids=["gzip", "zstd"])
def test_a_body_has_a_thousand_members_at_most(send: Send, way: Way) -> None:
    for number, status in ((bodies.MAX_MEMBERS, 200), (bodies.MAX_MEMBERS + 1, 413)):
        assert send(QUERY, way, packed=way.pack(b"") * (number - 1) + way.pack(QUERY.body))[0] == status


def test_a_zstd_frame_with_a_large_window_is_a_400(send: Send) -> None:
    """RFC 9659: 8 MiB, or a few bytes would take memory without bounds."""
    huge = b"\x28\xb5\x2f\xfd\x00\xf8" + b"\x01\x00\x00"  # a window of 2 TiB, then an empty last block
    with at_most(12):
        assert send(QUERY, ZSTD, packed=huge)[0] == 400


# --- Lengths ----------------------------------------------------------------------------------------------------------
def test_chunks_beyond_the_limit_are_not_read(send: Send, settings: Any) -> None:
    settings.ENDPOINTS_MAX_BODY_BYTES = 1_000_000
    body = b" " * 50_000_000
    with at_most(12):
        assert send(QUERY, WAYS["as it is, in chunks"], packed=body)[0] == 413


@pytest.mark.parametrize("route", REQUESTS)
def test_a_body_that_ends_before_its_length_is_a_400(send: Send, route: str) -> None:
    sent = REQUESTS[route]
    status, _, body = send(sent, wsgi_length=len(sent.body) + 1)
    assert status == 400, body


def test_chunks_count_where_a_length_is_told_too(send: Send) -> None:
    """RFC 9112 section 6.3."""
    status, _, body = send(QUERY, WAYS["as it is, in chunks"], wsgi_length=3)
    assert QUERY.is_answered_by(status, body), body


@pytest.mark.parametrize("length", ["x", "-1", "1.5", "9" * 19, "9" * 5_000])
def test_a_length_that_is_none_is_refused(send: Send, length: str) -> None:
    assert send(QUERY, wsgi_length=length)[0] in {400, 413}


@pytest.mark.parametrize("coding", ["gzip, chunked", "gzip", "identity"])
def test_another_transfer_coding_is_a_400(send: Send, coding: str) -> None:
    assert send(QUERY, transfer_encoding=coding)[0] == 400


def test_chunks_are_refused_where_the_web_server_does_not_tell_their_end(send: Send) -> None:
    assert send(QUERY, transfer_encoding="chunked")[0] == 400


@pytest.mark.parametrize(
    ("method", "way"),
    [("GET", "as it is, told"), ("GET", "gzip, told"), ("GET", "as it is, in chunks"), ("POST", "as it is, told")],
)
def test_an_empty_body_has_no_arguments(send: Send, method: str, way: str) -> None:
    sent = Sent(QUERY.path, JSON, b"", [{"project": None, "since": None}], method=method)
    status, _, body = send(sent, WAYS[way], packed=b"")
    assert sent.is_answered_by(status, body), body


@pytest.mark.parametrize("way", ["as it is, in chunks", "gzip, in chunks"])
def test_a_post_in_chunks_without_anything_in_them_is_a_400(send: Send, way: str) -> None:
    """A pipe whose producer failed, or chunks that the web server could not read, look like this."""
    status, _, body = send(QUERY, WAYS[way], packed=b"")
    assert (status, code(body)) == (400, "invalid_request")


# --- Multipart forms --------------------------------------------------------------------------------------------------
FIELD = b'--between\r\nContent-Disposition: form-data; name="project"\r\n\r\nacme\r\n'
END = b"--between--\r\n"


@pytest.mark.parametrize(
    "form",
    [
        b"project=acme",
        b'{"project": "acme"}',
        FIELD,
        FIELD + b"--between\r\n",
        FIELD + b"--betwee",
        FIELD[:-4] + END,
        FIELD.replace(b'; name="project"', b"") + END,
        FIELD.replace(b"Content-Disposition", b"Content-Position") + END,
        FIELD.replace(b"form-data", b'form-data; filename="a"') + END,
        FIELD.replace(b"acme", b"\xff") + END,
        FIELD.replace(b"--between", b"--other") + END.replace(b"--between", b"--other"),
    ],
)
def test_a_multipart_form_that_is_not_whole_is_a_400(send: Send, form: bytes) -> None:
    """Django's parser leaves out what it cannot read, and what a cut form lacks."""
    for way in ("as it is, told", "as it is, in chunks"):
        status, _, body = send(Sent(QUERY.path, MULTIPART, form), WAYS[way])
        assert (status, code(body)) == (400, "invalid_request"), body


@pytest.mark.parametrize("form", [END, FIELD + END, b"preamble\r\n" + FIELD + END + b"epilogue", FIELD + END[:-2]])
def test_a_whole_multipart_form_is_read(send: Send, form: bytes) -> None:
    project = None if form == END else "acme"
    sent = Sent(QUERY.path, MULTIPART, form, [{"project": project, "since": None}])
    status, _, body = send(sent)
    assert sent.is_answered_by(status, body), body


# --- Other routes -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("way", ["as it is, told", "as it is, in chunks", "gzip, in chunks"])
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("DELETE", f"/api/endpoints/cache/{NAME}", 403),
        ("DELETE", "/api/calls/none", 404),
        ("GET", "/api/openapi.json", 200),
        ("GET", "/livez", 200),
        ("PUT", QUERY.path, 405),
        ("POST", "/api/nothing", 404),
    ],
)
def test_routes_without_bodies_answer_the_same_with_one(
    send: Send, method: str, path: str, status: int, way: str
) -> None:
    assert send(Sent(path, JSON, QUERY.body, method=method), WAYS[way])[0] == status
