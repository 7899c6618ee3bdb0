"""Plain calls of the query route are answered before Django, which costs more than a cached answer itself.

Everything else goes to Django: its request, middleware, REST framework's view and response. A plain call needs none of
them: it is a GET without a body or a POST of JSON, of no session and no browser of another origin; its host is one that
Django has allowed; and it uses HTTPS if that is required. Both ways end in `query.answer_query`, and their answers are
the same to the last header.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from http import HTTPStatus
from time import perf_counter
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.request import split_domain_port, validate_host
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.security import SecurityMiddleware

from config import logs, tracing
from endpoints.api.arguments import JSON, RawArguments, read_body
from endpoints.api.bodies import read_content
from endpoints.api.middleware import log_request, settle_request_id
from endpoints.api.query import QueryRequest, answer_query
from endpoints.api.replies import Reply
from endpoints.errors import ClientLeft

StartResponse = Callable[[str, list[tuple[str, str]]], Any]
Application = Callable[[dict[str, Any], Any], Iterable[bytes]]

_ROUTE: Final = re.compile(r"/(?:api/endpoints/query/(?:name/)?|endpoints/query/)([A-Za-z0-9._~-]+)/?", re.ASCII)
_STATUS_LINES: Final[Mapping[int, str]] = {
    **{each.value: f"{each.value} {each.phrase}" for each in HTTPStatus},
    ClientLeft.status: f"{ClientLeft.status} Client Closed Request",
}


class FastPath:
    """A WSGI application before Django's."""

    def __init__(self, django: Application) -> None:
        self._django = django

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        route = _ROUTE.fullmatch(environ["PATH_INFO"])
        if route is None or not _is_plain(environ):
            return self._django(environ, start_response)
        return _answer(environ, route[1], start_response)


def _answer(environ: dict[str, Any], reference: str, start_response: StartResponse) -> Iterable[bytes]:
    started = perf_counter()
    method = environ["REQUEST_METHOD"]
    request_id = settle_request_id(environ)
    logs.begin(request_id=request_id)
    followed = tracing.follow(environ) if tracing.HEADER in environ else None
    try:
        reply = answer_query(
            QueryRequest(environ, reference, request_id, partial(_read_json, environ) if method == "POST" else None)
        )
        start_response(_STATUS_LINES[reply.status], _headers(reply, request_id, is_secure=_is_secure(environ)))
        log_request(method, environ["PATH_INFO"], status=reply.status, started=started)
    finally:
        logs.begin()
        if followed is not None:
            tracing.leave(followed)
    return [reply.body] if reply.later is None else reply.later


def _read_json(environ: Mapping[str, Any]) -> RawArguments:
    return read_body(JSON, read_content(environ))


def _headers(reply: Reply, request_id: str, *, is_secure: bool) -> list[tuple[str, str]]:
    vary = reply.headers.get("Vary")
    headers = {**reply.headers, "Vary": f"{vary}, origin" if vary else "origin", "X-Request-ID": request_id}
    if reply.status != HTTPStatus.NOT_MODIFIED and reply.later is None:
        headers["Content-Length"] = str(len(reply.body))
    return [*headers.items(), *_headers_of_middleware(is_secure)]


def _is_plain(environ: Mapping[str, Any]) -> bool:
    if environ["REQUEST_METHOD"] == "GET":
        is_plain = environ.get("CONTENT_LENGTH", "") in ("", "0")
    else:
        is_plain = environ["REQUEST_METHOD"] == "POST" and environ.get("CONTENT_TYPE") == JSON
    return (
        is_plain
        and not environ.get("SCRIPT_NAME")
        and "HTTP_TRANSFER_ENCODING" not in environ
        and "HTTP_ORIGIN" not in environ
        and _is_allowed_host(environ.get("HTTP_HOST", ""))
        and (not settings.SECURE_SSL_REDIRECT or _is_secure(environ))
    )


@lru_cache(maxsize=256)
def _is_allowed_host(host: str) -> bool:
    """Tell whether Django would accept the host; in development, where it allows more, ask Django itself."""
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


def _is_secure(environ: Mapping[str, Any]) -> bool:
    """Do the same as `HttpRequest.is_secure`: a proxy's header counts before the connection."""
    if settings.SECURE_PROXY_SSL_HEADER:
        name, value = settings.SECURE_PROXY_SSL_HEADER
        sent = environ.get(name)
        if sent is not None:
            return bool(sent.split(",", 1)[0].strip() == value)
    return bool(environ["wsgi.url_scheme"] == "https")


@lru_cache(maxsize=2)
def _headers_of_middleware(is_secure: bool) -> tuple[tuple[str, str], ...]:
    """Return the headers that Django's middleware adds to every response of the API: asked once, not duplicated."""
    request = HttpRequest()
    request._get_scheme = lambda: "https" if is_secure else "http"  # type: ignore[attr-defined]
    response = HttpResponse(headers={"Content-Type": ""})
    del response["Content-Type"]
    for middleware in (SecurityMiddleware(lambda _: response), XFrameOptionsMiddleware(lambda _: response)):
        middleware.process_response(request, response)
    return tuple(response.items())
