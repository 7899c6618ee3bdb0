"""One request id and one log line per request, whoever answers it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, MutableMapping
from time import perf_counter
from typing import Any, Final

from django.http import HttpRequest, HttpResponse

from config import logs, tracing

# The ids that a caller may choose: they are echoed in a header and written to the log.
REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}", re.ASCII)
_NAME: Final = "HTTP_X_REQUEST_ID"


def settle_request_id(environ: MutableMapping[str, Any]) -> str:
    """Decide on the id of a request, keep it in its environ (WSGI, PEP 3333) and return it.

    It is the one that the caller sent if it is safe to echo and log, otherwise a new one.
    """
    request_id: str = environ.get(_NAME, "")
    if not REQUEST_ID.fullmatch(request_id):
        environ[_NAME] = request_id = os.urandom(16).hex()
    return request_id


def log_request(method: str, path: str, *, status: int, started: float) -> None:
    """Write the line of a request that began then, by `perf_counter`; its query string may be personal data."""
    fields = {
        "code": status,
        "request": f"{method} {path}",
        "duration_ms": round((perf_counter() - started) * 1000, 3),
    }
    level = "info" if status < 400 else "warning" if status < 500 else "error"
    logs.write_line(__name__, "request_finished", level, fields)


class RequestMiddleware:
    """Settle the request id (echoed or new), answer with it as `X-Request-ID`, and write the request's line."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = perf_counter()
        request_id = settle_request_id(request.META)
        logs.begin(request_id=request_id)
        followed = tracing.follow(request.META) if tracing.HEADER in request.META else None
        try:
            response = self._get_response(request)
            response["X-Request-ID"] = request_id
            log_request(str(request.method), request.path, status=response.status_code, started=started)
            return response
        finally:
            logs.begin()
            tracing.leave(followed)


def request_id_of(request: HttpRequest) -> str:
    """Return the id that the middleware settled for this request."""
    return str(request.META[_NAME])
