"""The query route as a view of REST framework, and the answer of every other address below /api/."""

from __future__ import annotations

from functools import partial
from io import BytesIO
from typing import cast

import orjson
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.http.multipartparser import MultiPartParserError
from django.views.decorators.csrf import csrf_exempt
from rest_framework.request import Request
from rest_framework.views import APIView

from endpoints.access.secrets import Caller
from endpoints.api.arguments import MULTIPART, RawArguments, from_pairs, read_body
from endpoints.api.bodies import read_content
from endpoints.api.middleware import request_id_of
from endpoints.api.query import QueryRequest, answer_query
from endpoints.api.replies import JSON, error_response
from endpoints.calling.calls import cancel_call
from endpoints.calling.purging import purge_cache
from endpoints.errors import InvalidRequest, RouteNotFound


class AnsweringView(APIView):
    """A view that answers every method itself: who calls is checked before anything is said of methods or formats."""

    schema = None
    authentication_classes = ()
    permission_classes = ()

    def answer(self, request: HttpRequest, **of_route: str) -> HttpResponseBase:
        """Return the answer, or the one error body."""
        raise NotImplementedError

    @property
    def default_response_headers(self) -> dict[str, str]:
        """Add nothing: Allow belongs to a 405 alone."""
        return {}

    def _answer(self, request: Request, **of_route: str) -> HttpResponseBase:
        return self.answer(request._request, **of_route)

    get = head = post = put = patch = delete = options = trace = http_method_not_allowed = _answer  # type: ignore[assignment]


class QueryView(AnsweringView):
    """Run an endpoint by UUID or name and answer with its rows. The fast path answers plain GETs before it."""

    def answer(self, request: HttpRequest, **of_route: str) -> HttpResponseBase:
        reply = answer_query(
            QueryRequest(
                request.META, of_route["reference"], request_id_of(request), read_body=partial(_read_body, request)
            )
        )
        return reply.as_response()


@csrf_exempt  # it changes nothing, and Django's refusal of a POST would be a page about forms
def unknown_route(request: HttpRequest, rest: str = "") -> HttpResponse:
    """Everything else below /api/ answers 404 in the one error body, also where Django would show a debug page."""
    return error_response(request, RouteNotFound())


def _read_body(request: HttpRequest) -> RawArguments:
    sent = read_content(request.META)
    if sent and request.content_type == MULTIPART and request.method == "POST":
        return _read_multipart(request, sent)
    return read_body(request.content_type or "", sent)


def _read_multipart(request: HttpRequest, sent: bytes) -> RawArguments:
    try:
        posted, files = request.parse_file_upload({**request.META, "CONTENT_LENGTH": len(sent)}, BytesIO(sent))
    except MultiPartParserError as error:
        raise InvalidRequest("The multipart form cannot be read.") from error
    if files:
        raise InvalidRequest("The multipart form contains a file; send arguments as fields.")
    fields = [(name, str(value)) for name, values in posted.lists() for value in values]
    # Django leaves out parts that it cannot read, ends values within a line, and reads a form that is cut short.
    delimiter = b"--" + (request.content_params or {}).get("boundary", "").encode()
    in_lines = (b"\n" + sent).count(b"\n" + delimiter)
    if not sent.count(delimiter) == in_lines == len(fields) + 1 or delimiter + b"--" not in sent:
        raise InvalidRequest("The multipart form cannot be read.")
    # Django puts U+FFFD in place of bytes that are not UTF-8, so look whether the caller really sent U+FFFD.
    if "\ufffd".encode() not in sent and any("\ufffd" in text for field in fields for text in field):
        raise InvalidRequest("The form is not UTF-8.")
    return from_pairs(fields)


# --- Cache view -------------------------------------------------------------------------------------------------------
# DELETE /api/endpoints/cache/<name>: remove an endpoint's cached results.
class CacheView(APIView):
    """Purge by UUID or name, with an access token that may purge."""

    schema = None
    http_method_names = ["delete"]

    def delete(self, request: Request, reference: str) -> HttpResponse:
        purged = purge_cache(reference, caller=cast(Caller, request.user))
        body = {"result": [{"endpoint": purged.endpoint_name, "removed": purged.results}]}
        return HttpResponse(orjson.dumps(body), content_type=JSON, headers={"Cache-Control": "no-store"})


# --- Call view --------------------------------------------------------------------------------------------------------
class CallView(APIView):
    """DELETE /api/calls/<request id>: cancel a call that runs, with the access token that made it."""

    schema = None
    http_method_names = ["delete"]

    def delete(self, request: Request, request_id: str) -> HttpResponse:
        cancel_call(request_id, caller=cast(Caller, request.user))
        body = {"result": [{"request_id": request_id, "cancelled": True}]}
        return HttpResponse(orjson.dumps(body), content_type=JSON, headers={"Cache-Control": "no-store"})
