"""One request id and one log line per request."""

from __future__ import annotations

import re
import uuid
from time import perf_counter
from typing import cast

import structlog
from django.http import HttpRequest, HttpResponse
from django_structlog.middlewares import RequestMiddleware as StructlogRequestMiddleware

# What a caller may choose as a request id: it is echoed in a header and written to the log.
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}", re.ASCII)


class RequestMiddleware(StructlogRequestMiddleware):
    """Bind the request id (echoed or made) for the log, time the request, answer with `X-Request-ID`."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = perf_counter()
        sent = request.META.get("HTTP_X_REQUEST_ID", "")
        request_id = sent if _REQUEST_ID.fullmatch(sent) else str(uuid.uuid4())
        request.META["HTTP_X_REQUEST_ID"] = request_id
        self.prepare(request)
        response = cast(HttpResponse, self.get_response(request))
        response["X-Request-ID"] = request_id
        structlog.contextvars.bind_contextvars(duration_ms=round((perf_counter() - started) * 1000, 3))
        self.handle_response(request, response)
        return response

    @staticmethod
    def format_request(request: HttpRequest) -> str:
        """Return the method and the path without its query string: arguments may be personal data."""
        return f"{request.method} {request.path}"


def request_id_of(request: HttpRequest) -> str:
    """Return the id the middleware settled for this request."""
    return str(request.META["HTTP_X_REQUEST_ID"])
