"""The outermost WSGI application: nothing that a client sends slowly, or at length, holds the threads of others.

It refuses headers that later code would take long to read. A body is read only if somebody wants
it, in one of a few places and in time (`slow_bodies`). An answer is handed over whole, so no thread waits for a client
that does not read. Unfinished heads never get here: the web server gives them up.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from importlib import import_module
from typing import Any, Final

import structlog
from django.conf import settings
from django.contrib.auth import SESSION_KEY

from config import logs, tracing
from config.connections import HANG_UP
from config.exchanges import LaterAnswer
from endpoints.api.authentication import take_token_from_address
from endpoints.api.bodies import announced_bytes
from endpoints.api.cors import cors_headers
from endpoints.api.middleware import settle_request_id
from endpoints.api.replies import LaterResponse, error_reply
from endpoints.api.slow_bodies import PIECE_BYTES, STRANGER, BodyCutOff, HangUp, Reader, ReadingPlaces
from endpoints.errors import EndpointError, HeaderTooLarge, InvalidRequest, RequestTooLarge

Environ = dict[str, Any]  # of WSGI, PEP 3333
StartResponse = Callable[..., Any]
Application = Callable[[Environ, Any], Iterable[bytes]]

HEADER_BYTES: Final = 16_384
# Before 3.11.10 Python unquotes a cookie in quadratic time of its backslashes (CVE-2024-7592); Django's have none.
COOKIE_BACKSLASHES: Final = 128
STRANGER_BYTES: Final = 65_536  # a login has a few hundred

_ADMIN: Final = "/admin/"
_BODY_READERS: Final[Mapping[str, re.Pattern[str]]] = {
    "GET": re.compile(r"(?:/api)?/endpoints/query/"),
    "HEAD": re.compile(r"(?:/api)?/endpoints/query/"),
    "POST": re.compile(
        r"/admin/|(?:/api)?/endpoints/query/|(?:/api)?/logs(?:/json)?/?$|/v1/logs/?$|/mcp/?$|/api/tokens/?$"
    ),
}

logger = structlog.get_logger(__name__)


class SlowClients:
    """A WSGI application before all others."""

    def __init__(self, application: Application, places: ReadingPlaces) -> None:
        self._application = application
        self._places = places

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if settings.ENDPOINTS_API_KEY_IN_ADDRESS and not environ["PATH_INFO"].startswith(_ADMIN):
            take_token_from_address(environ)  # here, so that nobody behind sees the secret in the address
        for value in environ.values():
            if value.__class__ is str and len(value) > HEADER_BYTES and (name := _large_header(environ)):
                return _refuse(environ, start_response, HeaderTooLarge(name, HEADER_BYTES))
        if "HTTP_COOKIE" in environ and environ["HTTP_COOKIE"].count("\\") > COOKIE_BACKSLASHES:
            return _refuse(environ, start_response, InvalidRequest("The Cookie header cannot be read."))
        if environ.get("CONTENT_LENGTH", "") in ("", "0") and "HTTP_TRANSFER_ENCODING" not in environ:
            return _whole(self._application(environ, start_response))
        return self._with_body(environ, start_response)

    def _with_body(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        reads = _BODY_READERS.get(environ["REQUEST_METHOD"])
        if reads is None or reads.match(environ["PATH_INFO"]) is None:
            _take_body_away(environ)
            return _whole(self._application(environ, start_response))
        try:
            if not _credential(environ):
                self._places.refuse_in_vain(STRANGER)
            body = _GuardedBody(environ, self._places)
        except EndpointError as error:
            return _refuse(environ, start_response, error)
        environ["wsgi.input"] = io.BufferedReader(body, PIECE_BYTES)
        kept = _KeptStart()
        try:
            answer = _whole(self._application(environ, kept))
        finally:
            body.leave()
        if body.failure is not None:
            # In place of any answer that the application made from an unreadable body.
            return _refuse(environ, start_response, body.failure)
        start_response(*kept.arguments)
        return answer


class _KeptStart:
    """Keeps the status and headers of an application until it is known whether they will be the answer."""

    def __init__(self) -> None:
        self.arguments: tuple[Any, ...] = ()

    def __call__(self, *arguments: Any) -> None:
        self.arguments = arguments


class _GuardedBody(io.RawIOBase):
    """A request's body: it takes a place at its first read, and is read piece by piece, each with a deadline."""

    def __init__(self, environ: Environ, places: ReadingPlaces) -> None:
        self._environ = environ
        self._input = environ["wsgi.input"]
        self._places = places
        self._reader: Reader | None = None
        self._remaining = announced_bytes(environ)
        self.failure: EndpointError | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read a piece. Raises BodyCutOff, an OSError, if `failure` is the answer."""
        size = len(buffer) if self._remaining is None else min(len(buffer), self._remaining)
        if self.failure is not None:
            raise BodyCutOff(self.failure)
        if size == 0:
            self.leave()
            return 0
        try:
            piece = self._read(min(size, PIECE_BYTES))
        except EndpointError as error:
            self.failure = error
            raise BodyCutOff(error) from error
        if self._remaining is not None:
            self._remaining -= len(piece)
        if not piece or self._remaining == 0:
            self.leave()
        buffer[: len(piece)] = piece
        return len(piece)

    def leave(self) -> None:
        """Give the place back, as soon as nothing more is read."""
        if self._reader is not None:
            self._places.leave(self._reader)
            self._reader = None

    def _read(self, size: int) -> bytes:
        reader = self._reader = self._reader or self._enter()
        try:
            self._places.wait_for_piece(reader, size)
            piece: bytes = self._input.read(size)
            self._places.note_piece(reader)
        except BodyCutOff as cut:
            raise reader.failure or cut from None
        return piece

    def _enter(self) -> Reader:
        who = _caller(self._environ)
        if who == STRANGER and (self._remaining or 0) > STRANGER_BYTES:
            raise RequestTooLarge(f"Before a login, a body may have at most {STRANGER_BYTES} bytes.")
        request_id = settle_request_id(self._environ)
        hang_up: HangUp | None = self._environ.get(HANG_UP)
        # Here and not in the watch, which every late reader waits for: an access token may have to be looked up.
        more = {"X-Request-ID": request_id, **cors_headers(self._environ)} if hang_up else {}
        return self._places.enter(who, hang_up and (lambda error: _hang_up(hang_up, error, more)))


def _caller(environ: Mapping[str, Any]) -> str:
    """Return the owner of the body: an access token or a logged-in session; STRANGER for everybody else.

    The routes of the API check the access token before they read. Looking a session up may fail: only Django, inside
    which bodies are read, has an answer for that.
    """
    credential = _credential(environ)
    if not credential or not environ["PATH_INFO"].startswith(_ADMIN):
        return credential
    store = import_module(settings.SESSION_ENGINE).SessionStore(credential)
    return credential if SESSION_KEY in store else STRANGER


def _credential(environ: Mapping[str, Any]) -> str:
    """Return the access token or the session key that was sent, unchecked; STRANGER without one. Asks nobody."""
    if not environ["PATH_INFO"].startswith(_ADMIN):
        return str(environ.get("HTTP_X_API_KEY") or environ.get("HTTP_AUTHORIZATION") or STRANGER)
    session = re.search(rf"(?:^|;\s*){re.escape(settings.SESSION_COOKIE_NAME)}=(\w+)", environ.get("HTTP_COOKIE", ""))
    return STRANGER if session is None else session[1]


def _take_body_away(environ: Environ) -> None:
    """Remove a body that nobody reads, so nobody waits for it; the web server then closes the connection."""
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    environ["CONTENT_LENGTH"] = ""
    environ["wsgi.input"] = io.BytesIO()


def _whole(answer: Iterable[bytes]) -> Iterable[bytes]:
    """Return an answer as a list, which a web server takes at once, or as the LaterAnswer that it is.

    Any other stream would hold the thread until it is read.
    """
    if isinstance(answer, (list, LaterAnswer)):
        return answer
    if isinstance(answer, LaterResponse):
        return answer.later
    try:
        return list(answer)
    finally:
        if hasattr(answer, "close"):
            answer.close()


def _refuse(environ: Environ, start_response: StartResponse, error: EndpointError) -> list[bytes]:
    request_id = settle_request_id(environ)
    reply = error_reply(error, request_id)
    logs.begin()
    followed = tracing.follow(environ) if tracing.HEADER in environ else None
    logger.warning(
        "request_refused",
        code=reply.status,
        error=error.code,
        request=f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}",
        request_id=request_id,
    )
    tracing.leave(followed)
    logs.begin()
    headers = {**reply.headers, **cors_headers(environ)}
    headers |= {"X-Request-ID": request_id, "Content-Length": str(len(reply.body))}
    # The web server would have to read the unread rest before the connection's next request.
    headers["Connection"] = "close"
    start_response(f"{reply.status} {HTTPStatus(reply.status).phrase}", list(headers.items()))
    return [reply.body]


def _hang_up(hang_up: Callable[..., None], error: EndpointError, more: Mapping[str, str]) -> None:
    reply = error_reply(error, more["X-Request-ID"])
    logs.begin()
    hang_up(reply.status, [*reply.headers.items(), *more.items()], reply.body)


def _large_header(environ: Environ) -> str:
    """Return the name of a header that is too large; a request line may be larger and has its own limit."""
    for name, value in environ.items():
        if name.startswith("HTTP_") and len(value) > HEADER_BYTES:
            return name.removeprefix("HTTP_").replace("_", "-").title()
    return ""
