"""Plain calls answered before Django: the same answers, the same log line, and only what is plain."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import urlencode

import pytest
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.test import RequestFactory

from endpoints.access.access_tokens import issue_access_token
from endpoints.api import fast_path as fast_path
from endpoints.api.fast_path import FastPath
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType

pytestmark = pytest.mark.django_db
PATH = "/api/endpoints/query/plain"
ANSWERED_BY_DJANGO = "answered by Django"


class Answer:
    """What a WSGI application answered, without what differs from call to call."""

    def __init__(self, application: Callable[..., Any], environ: dict[str, Any]) -> None:
        self.status, self.headers = "", {}

        def start_response(status: str, headers: list[tuple[str, str]], error: object = None) -> None:
            self.status, self.headers = status, dict(headers)
            assert len(headers) == len(self.headers)

        self.body = b"".join(application(environ, start_response))

    @property
    def comparable(self) -> tuple[str, dict[str, str], bytes]:
        headers = {name.lower(): value for name, value in self.headers.items() if name != "Server-Timing"}
        headers["vary"] = ", ".join(sorted(part.strip().lower() for part in headers["vary"].split(",")))
        return self.status, headers, self.body


@pytest.fixture(autouse=True)
def own_settings(settings: Any) -> Iterator[None]:
    settings.ALLOWED_HOSTS = ["logs.example.org"]
    _forget()
    # Django's handler ends the database connection of a request; here it is the test's, inside its transaction.
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)
    _forget()


def _forget() -> None:
    fast_path._is_allowed_host.cache_clear()
    fast_path._headers_of_middleware.cache_clear()


@pytest.fixture
def endpoint(db: None) -> Endpoint:
    parameters = [DeclaredParameter(name="n", type=ParameterType.INTEGER), DeclaredParameter(name="word")]
    return save_endpoint(Endpoint(name="plain", sql="SELECT @n AS n, @word AS word"), parameters)


def environ(secret: str | None, arguments: dict[str, Any], *, path: str = PATH, **extra: Any) -> dict[str, Any]:
    made = RequestFactory().get(path).environ | {
        "QUERY_STRING": urlencode(arguments),
        "HTTP_HOST": "logs.example.org",
        "HTTP_X_REQUEST_ID": "one-of-ours",
        "wsgi.input": io.BytesIO(),
        **extra,
    }
    return made if secret is None else {**made, "HTTP_X_API_KEY": secret}


def posted(body: bytes, **extra: str) -> dict[str, Any]:
    told = {"REQUEST_METHOD": "POST", "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(body))}
    return {**told, "wsgi.input": io.BytesIO(body), **extra}


CALLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "rows": ({"n": 1, "word": "Zürich"}, {}),
    "no arguments": ({}, {}),
    "csv": ({"n": 1}, {"HTTP_ACCEPT": "text/csv"}),
    "redacted": ({"word": "192.0.2.1"}, {"HTTP_SVC_ENDPOINT_REDACT_PII": "true"}),
    "an argument of the wrong type": ({"n": "x"}, {}),
    "a format there is not": ({"n": 1}, {"HTTP_ACCEPT": "image/png"}),
    "a sandbox query where none is allowed": ({"sql": "select 1"}, {}),
    "a redaction header that is misspelt": ({}, {"HTTP_SVC_ENDPOINT_REDACT_PII": "yess"}),
    "a wrong access token": ({}, {"HTTP_X_API_KEY": "lqe_0"}),
    "a bearer": ({}, {"HTTP_X_API_KEY": "", "HTTP_AUTHORIZATION": "Bearer x"}),
    "an endpoint there is not": ({}, {"PATH_INFO": "/api/endpoints/query/none"}),
    "a trailing slash": ({"n": 2}, {"PATH_INFO": f"{PATH}/"}),
    "the address by name": ({"n": 3}, {"PATH_INFO": "/api/endpoints/query/name/plain"}),
    "the address without api": ({"n": 3}, {"PATH_INFO": "/endpoints/query/plain/"}),
    "an endpoint called name": ({"n": 3}, {"PATH_INFO": "/api/endpoints/query/name/"}),
    "bytes that are no UTF-8": ({}, {"QUERY_STRING": "word=%ff"}),
    "raw bytes": ({}, {"QUERY_STRING": "word=Zürich".encode().decode("latin-1")}),
    "a request id that is not fit": ({}, {"HTTP_X_REQUEST_ID": "<script>"}),
    "an empty accept header": ({}, {"HTTP_ACCEPT": ""}),
    "HTTPS": ({}, {"wsgi.url_scheme": "https"}),
    "posted": ({}, posted(b'{"n": 4, "word": "Z\xc3\xbcrich"}')),
    "posted beside the query string": ({"n": 5}, posted(b'{"n": 4, "word": "x"}')),
    "nothing posted": ({}, posted(b"")),
    "posted, no JSON": ({}, posted(b"{")),
    "posted, no object": ({}, posted(b"[]")),
    "posted, cut short": ({}, posted(b"{}", CONTENT_LENGTH="3")),
    "posted, too large": ({}, posted(b"{}", CONTENT_LENGTH="99999999")),
    "posted, a length that is none": ({}, posted(b"{}", CONTENT_LENGTH="x")),
    "posted in a coding there is not": ({}, posted(b"{}", HTTP_CONTENT_ENCODING="br")),
    "posted in gzip": ({}, posted(gzip.compress(b'{"n": 6}', mtime=0), HTTP_CONTENT_ENCODING="gzip")),
    "posted without an access token": ({}, posted(b"{", HTTP_X_API_KEY="")),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("https_only", [False, True])
def test_the_answer_is_that_of_the_way_through_django(
    endpoint: Endpoint, secret: str, settings: Any, name: str, https_only: bool
) -> None:
    settings.SECURE_HSTS_SECONDS = 3600 if https_only else 0
    arguments, extra = CALLS[name]
    django = get_wsgi_application()
    ours, theirs = (
        Answer(application, environ(secret, arguments, **{**extra, **_unread(extra)}))
        for application in (FastPath(_refuse), django)
    )
    if name == "a request id that is not fit":
        for answer in (ours, theirs):
            answer.body = answer.body.replace(answer.headers.pop("X-Request-ID").encode(), b"")
    assert ours.comparable == theirs.comparable


def _unread(extra: dict[str, Any]) -> dict[str, Any]:
    return {"wsgi.input": io.BytesIO(extra["wsgi.input"].getvalue())} if "wsgi.input" in extra else {}


def test_a_cached_answer_is_none_for_who_wants_it_anew(db: None, secret: str) -> None:
    save_endpoint(Endpoint(name="plain", sql="SELECT random() AS n", cache_seconds=600), [])
    path = FastPath(_refuse)
    first, again, anew, after = (
        Answer(path, environ(secret, {}, **({"HTTP_CACHE_CONTROL": sent} if sent else {})))
        for sent in ("", "max-age=0", "no-cache", "")
    )
    assert [each.headers["X-Cache"] for each in (first, again, anew, after)] == ["miss", "hit", "miss", "hit"]
    assert first.body == again.body != anew.body == after.body


def test_equal_calls_with_access_tokens_of_other_bonds_get_other_rows(
    db: None, django_capture_on_commit_callbacks: Callable[..., AbstractContextManager[Any]]
) -> None:
    with django_capture_on_commit_callbacks(execute=True):  # from now on the endpoint is remembered, and calls of it
        save_endpoint(Endpoint(name="plain", sql="SELECT @word AS word"), [DeclaredParameter(name="word")])
    words = ["acme", "globex", "acme"]
    secrets = [issue_access_token(name=word, bound_arguments={"word": word}).secret for word in words]
    bodies = [Answer(FastPath(_refuse), environ(secret, {"unknown": 1})).body for secret in secrets]
    assert [json.loads(body)["result"] for body in bodies] == [[{"word": word}] for word in words]


def test_a_known_entity_tag_is_answered_without_a_body(endpoint: Endpoint, secret: str) -> None:
    first = Answer(FastPath(_refuse), environ(secret, {"n": 1}))
    extra = {"HTTP_IF_NONE_MATCH": first.headers["ETag"]}
    ours = Answer(FastPath(_refuse), environ(secret, {"n": 1}, **extra))
    theirs = Answer(get_wsgi_application(), environ(secret, {"n": 1}, **extra))
    assert ours.status == "304 Not Modified"
    assert ours.body == b""
    theirs.headers.pop("Content-Length", None)
    assert ours.comparable == theirs.comparable


NOT_PLAIN: dict[str, dict[str, Any]] = {
    "another method": {"REQUEST_METHOD": "PUT", "CONTENT_TYPE": "application/json"},
    "a form": {**posted(b"n=1"), "CONTENT_TYPE": "application/x-www-form-urlencoded"},
    "JSON of another charset": {**posted(b"{}"), "CONTENT_TYPE": "application/json; charset=latin-1"},
    "a body of no type": {"REQUEST_METHOD": "POST", "CONTENT_LENGTH": "2"},
    "posted in chunks": {**posted(b"{}"), "HTTP_TRANSFER_ENCODING": "chunked"},
    "posted by a page of another origin": {**posted(b"{}"), "HTTP_ORIGIN": "https://elsewhere.example.org"},
    "HEAD": {"REQUEST_METHOD": "HEAD"},
    "OPTIONS": {"REQUEST_METHOD": "OPTIONS"},
    "a body": {"CONTENT_LENGTH": "2", "wsgi.input": io.BytesIO(b"{}")},
    "a body of unknown length": {"HTTP_TRANSFER_ENCODING": "chunked"},
    "a page of another origin": {"HTTP_ORIGIN": "https://elsewhere.example.org"},
    "a host that is not ours": {"HTTP_HOST": "elsewhere.example.org"},
    "no host": {"HTTP_HOST": ""},
    "another route": {"PATH_INFO": "/api/openapi.json"},
    "a name beyond ASCII": {"PATH_INFO": "/api/endpoints/query/Zürich".encode().decode("latin-1")},
    "a name of two parts": {"PATH_INFO": "/api/endpoints/query/a/b"},
    "an address by name, without api": {"PATH_INFO": "/endpoints/query/name/plain"},
    "below another path": {"SCRIPT_NAME": "/logs"},
}


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_what_is_not_plain_goes_to_django(secret: str, name: str) -> None:
    with pytest.raises(AssertionError, match=ANSWERED_BY_DJANGO):
        Answer(FastPath(_refuse), environ(secret, {}, **NOT_PLAIN[name]))


@pytest.mark.parametrize(
    ("extra", "is_plain"),
    [
        ({}, False),
        ({"wsgi.url_scheme": "https"}, True),
        ({"HTTP_X_FORWARDED_PROTO": "https"}, True),
        ({"HTTP_X_FORWARDED_PROTO": "https, http"}, True),
        ({"HTTP_X_FORWARDED_PROTO": "http"}, False),
        ({"HTTP_X_FORWARDED_PROTO": "http", "wsgi.url_scheme": "https"}, False),
    ],
)
def test_where_https_is_demanded_only_https_is_plain(
    endpoint: Endpoint, secret: str, settings: Any, extra: dict[str, str], is_plain: bool
) -> None:
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    if is_plain:
        assert Answer(FastPath(_refuse), environ(secret, {}, **extra)).status == "200 OK"
    else:
        with pytest.raises(AssertionError, match=ANSWERED_BY_DJANGO):
            Answer(FastPath(_refuse), environ(secret, {}, **extra))


def test_a_proxy_header_that_is_not_trusted_means_nothing(endpoint: Endpoint, secret: str, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_PROXY_SSL_HEADER = None
    with pytest.raises(AssertionError, match=ANSWERED_BY_DJANGO):
        Answer(FastPath(_refuse), environ(secret, {}, HTTP_X_FORWARDED_PROTO="https"))


def test_one_line_tells_what_django_s_way_tells(
    endpoint: Endpoint, secret: str, capfd: pytest.CaptureFixture[str]
) -> None:
    Answer(FastPath(_refuse), environ(secret, {"word": "value-of-an-argument"}))
    (line,) = capfd.readouterr().err.splitlines()
    entry = json.loads(line)
    assert entry["event"] == "request_finished"
    assert (entry["code"], entry["request"], entry["level"]) == (200, f"GET {PATH}", "info")
    assert (entry["endpoint"], entry["endpoint_version"], entry["cache"]) == ("plain", 1, "bypass")
    assert (entry["access_token"], entry["request_id"]) == ("test caller", "one-of-ours")
    assert entry["duration_ms"] > 0
    assert entry["timestamp"].endswith("Z")
    assert "value-of-an-argument" not in line
    assert secret not in line


def test_nothing_of_a_call_is_in_the_next_one_s_line(
    endpoint: Endpoint, secret: str, capfd: pytest.CaptureFixture[str]
) -> None:
    application = FastPath(_refuse)
    Answer(application, environ(secret, {"n": "x"}))
    Answer(application, environ(None, {}))
    first, second = (json.loads(line) for line in capfd.readouterr().err.splitlines())
    assert (first["error"], first["level"]) == ("invalid_parameters", "warning")
    assert second["error"] == "not_authenticated"
    assert not {"endpoint", "access_token"} & second.keys()


def _refuse(environ: dict[str, Any], start_response: Any) -> Any:
    raise AssertionError(ANSWERED_BY_DJANGO)
