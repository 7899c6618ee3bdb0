"""One request id and one log line per request that Django answers."""

from __future__ import annotations

from time import perf_counter
from typing import cast

import structlog
from django.http import HttpRequest, HttpResponse
from django_structlog.middlewares import RequestMiddleware as StructlogRequestMiddleware

from endpoints.api.request_ids import settle_request_id


class RequestMiddleware(StructlogRequestMiddleware):
    """Bind the request id (echoed or new) for the log, time the request, answer with `X-Request-ID`."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = perf_counter()
        request_id = settle_request_id(request.META)
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
    """Return the id that the middleware settled for this request."""
    return str(request.META["HTTP_X_REQUEST_ID"])
