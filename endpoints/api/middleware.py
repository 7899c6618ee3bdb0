"""One request id and one log line per request that Django answers."""

from __future__ import annotations

import re
import uuid
from collections.abc import MutableMapping
from time import perf_counter
from typing import Any, Final, cast

import structlog
from django.http import HttpRequest, HttpResponse
from django_structlog.middlewares import RequestMiddleware as StructlogRequestMiddleware

from config import tracing

# --- Request ids ------------------------------------------------------------------------------------------------------
# The id of a request: the one that the caller sent if it is safe to echo and log, otherwise a new one.
# The ids that a caller may choose: they are echoed in a header and written to the log.
REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}", re.ASCII)
_NAME: Final = "HTTP_X_REQUEST_ID"


def settle_request_id(environ: MutableMapping[str, Any]) -> str:
    """Decide on the id of a request, keep it in its environ (WSGI, PEP 3333) and return it."""
    sent = environ.get(_NAME, "")
    request_id = sent if REQUEST_ID.fullmatch(sent) else str(uuid.uuid4())
    environ[_NAME] = request_id
    return str(request_id)


# --- Middleware -------------------------------------------------------------------------------------------------------
class RequestMiddleware(StructlogRequestMiddleware):
    """Bind the request id (echoed or new) for the log, time the request, answer with `X-Request-ID`."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = perf_counter()
        request_id = settle_request_id(request.META)
        self.prepare(request)
        followed = tracing.follow(request.META) if tracing.HEADER in request.META else None
        try:
            response = cast(HttpResponse, self.get_response(request))
        finally:
            tracing.leave(followed)
        response["X-Request-ID"] = request_id
        structlog.contextvars.bind_contextvars(duration_ms=round((perf_counter() - started) * 1000, 3))
        self.handle_response(request, response)
        return response

    @staticmethod
    def format_request(request: HttpRequest) -> str:
        """Return the method and the path without its query string: arguments may be personal data."""
        return f"{request.method} {request.path}"


def request_id_of(request: HttpRequest) -> str:
    """Return the id that the middleware settled for this request."""
    return str(request.META["HTTP_X_REQUEST_ID"])
