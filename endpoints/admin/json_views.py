"""Addresses of the admin that speak JSON: method, session and body checked, every failure in one shape::

{"error": {"code": text, "message": text, "details": [object, …], "request_id": text,
           "consumer_status": n or null (what a consumer would get), "operator": null or what PostgreSQL said}}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse

from endpoints.admin.draft_json import Json, Malformed, operator_json, problem_json, read_object
from endpoints.cache import CacheUnavailable
from endpoints.defining.drafts import DraftFailed, InvalidDraft
from endpoints.errors import CacheNotReachable, CallCancelled, EndpointError, StoredQueryFailed

Handler = Callable[[HttpRequest], Json]


class Refusal(Exception):
    """A request that is not served: status, code and message of the answer."""

    def __init__(self, status: int, code: str, message: str, *, details: Sequence[Json] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = list(details)


# What a handler may raise.
FAILURES: Final = (Refusal, Malformed, InvalidDraft, DraftFailed, CacheUnavailable, EndpointError)
_HEADERS: Final = {"Content-Type": "application/json; charset=utf-8", "Cache-Control": "no-store"}


def json_view(method: str, handler: Handler) -> Callable[[HttpRequest], HttpResponse]:
    """Return the view that answers requests of this method with the result or the failure of the handler."""

    def view(request: HttpRequest) -> HttpResponse:
        try:
            if request.method != method:
                raise Refusal(405, "method_not_allowed", f"Use {method}.")
            result = handler(request)
        except FAILURES as error:
            response = failure_response(request, error)
            if response.status_code == 405:
                response["Allow"] = method
            return response
        return json_response(result)

    return view


def json_response(json: Json, *, status: int = 200) -> HttpResponse:
    """Return the answer with this JSON."""
    return HttpResponse(orjson.dumps(json), status=status, headers=_HEADERS)


def failure_response(request: HttpRequest, error: Exception) -> HttpResponse:
    """Return the answer to one of FAILURES."""
    status, body = _failure(error)
    body["request_id"] = request.META.get("HTTP_X_REQUEST_ID", "")
    return json_response({"error": body}, status=status)


def read_body(request: HttpRequest) -> Json:
    """Return the JSON object of a request. Raises Refusal or Malformed."""
    if request.content_type != "application/json":
        raise Refusal(415, "unsupported_media_type", "Send application/json.")
    try:
        return read_object(request.body)
    except RequestDataTooBig as error:
        raise Refusal(413, "request_too_large", "The request is larger than this service accepts.") from error


def own_run_id(request: HttpRequest, run_id: str) -> str:
    """Return the run's name in the service: nobody can cancel another person's run."""
    return f"{request.user.pk}-{run_id}"


def _failure(error: Exception) -> tuple[int, dict[str, Any]]:
    """Return status and body of the answer to a failure."""
    match error:
        case Refusal():
            return error.status, _error(error.code, error.message, error.details)
        case Malformed():
            return 400, _error("invalid_request", str(error))
        case InvalidDraft():
            problems = [problem_json(problem) for problem in error.problems]
            return 422, _error("invalid_draft", "The draft cannot be tried because of these problems.", problems)
        case CallCancelled():
            return 409, _error("draft_cancelled", "The run was cancelled.")
        case DraftFailed():
            body = _consumer_error(error.error) | {"operator": operator_json(error.operator)}
            # 500 would blame the service for a fault of the draft.
            return 422 if isinstance(error.error, StoredQueryFailed) else error.error.status, body
        case EndpointError():
            return error.status, _consumer_error(error)
        case _:
            return CacheNotReachable.status, _error(
                "cache_unavailable", "Redis does not answer: nothing was cancelled."
            )


def _error(code: str, message: str, details: Sequence[Any] = ()) -> dict[str, Any]:
    return {"code": code, "message": message, "details": list(details), "consumer_status": None, "operator": None}


def _consumer_error(error: EndpointError) -> dict[str, Any]:
    return _error(error.code, error.message, error.details) | {"consumer_status": error.status}
