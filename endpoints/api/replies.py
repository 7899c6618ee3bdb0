"""Answers before they become Django's or the web server's: status, headers, bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import structlog
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.views.defaults import page_not_found
from django.views.defaults import server_error as server_error_page
from rest_framework import exceptions as framework_errors

from config import logs
from config.exchanges import LaterAnswer
from config.later_responses import LaterResponse as LaterResponse
from endpoints.api.middleware import request_id_of
from endpoints.calling.calls import note_failed_call
from endpoints.errors import (
    DatabaseUnavailable,
    EndpointError,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    RequestTooLarge,
    RouteNotFound,
)

JSON: Final = "application/json; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request; `later` takes the place of a body that is not there yet, or too large to be kept."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    later: LaterAnswer | None = None

    def as_response(self) -> HttpResponseBase:
        """Return it as a response of Django's."""
        if self.later is not None:
            return LaterResponse(self.later, status=self.status, headers=dict(self.headers))
        response = HttpResponse(self.body, status=self.status, headers=dict(self.headers))
        if "Content-Type" not in self.headers:
            del response["Content-Type"]  # Django's own, of an empty body
        return response


def error_reply(error: EndpointError, request_id: str) -> Reply:
    """Return the one error body with its status and headers; no cache on the way may keep it."""
    logs.bind(error=error.code)
    headers = {"Content-Type": JSON, "Cache-Control": "no-store", **error.headers}
    return Reply(error.status, headers, orjson.dumps(error.body(request_id)))


# --- Exceptions -------------------------------------------------------------------------------------------------------
# Turns every failure into the one error body: the only place where an exception becomes a response.
logger = structlog.get_logger(__name__)


def handle_exception(error: Exception, context: dict[str, Any]) -> HttpResponseBase:
    """Return the response for any exception that a view of the API raised (REST framework's EXCEPTION_HANDLER)."""
    request = context["request"]._request
    failure = as_endpoint_error(error, context["view"].allowed_methods)
    caller = getattr(context["request"], "_user", None)  # `user` itself would authenticate again, and raise
    note_failed_call("", failure, caller, seconds=0.0, request_id=request_id_of(request), kind="other")
    return error_response(request, failure)


def as_endpoint_error(error: Exception, allowed_methods: Sequence[str] = ()) -> EndpointError:
    """Return the row of the error table for this exception; an unknown one is logged as a bug."""
    match error:
        case EndpointError():
            return error
        case framework_errors.MethodNotAllowed():
            return MethodNotAllowed(str(error.args[0]) if error.args else "This method", allowed_methods)
        case Http404():
            return RouteNotFound()
        case RequestDataTooBig():
            return RequestTooLarge()
        case SuspiciousOperation():
            return InvalidRequest()
        case OperationalError() | InterfaceError():
            # Django's own database: without it no access token can be checked.
            logger.error("state_database_unavailable", reason=type(error).__name__)
            return DatabaseUnavailable()
        case _:
            logger.error("internal_error", exc_info=error)
            return InternalError()


def error_response(request: HttpRequest, error: EndpointError) -> HttpResponse:
    """Return the one error body with its status and headers; no cache on the way may keep it."""
    reply = error_reply(error, request_id_of(request))
    return HttpResponse(reply.body, status=reply.status, headers=dict(reply.headers))


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler400: a request that Django itself refused, such as an unknown Host."""
    return error_response(request, InvalidRequest())


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler404: the admin shows a page, everything else the one error body."""
    if request.path.startswith("/admin/"):
        return page_not_found(request, exception)
    return error_response(request, RouteNotFound())


def server_error(request: HttpRequest) -> HttpResponse:
    """handler500, called while the exception is handled: it goes to the log, and the caller gets its request id."""
    logger.exception("request_failed", code=500, request=f"{request.method} {request.path}")
    if request.path.startswith("/admin/"):
        return server_error_page(request)
    return error_response(request, InternalError())
