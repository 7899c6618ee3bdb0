"""The query route as a Django view, and the answer of every other address below /api/."""

from __future__ import annotations

from functools import partial

from django.http import HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.http.request import UnreadablePostError
from django.views.decorators.csrf import csrf_exempt

from endpoints.api.arguments import MULTIPART, RawArguments, from_pairs, read_body
from endpoints.api.exceptions import error_response
from endpoints.api.middleware import request_id_of
from endpoints.api.query import QueryRequest, answer_query
from endpoints.errors import InvalidRequest, RouteNotFound


@csrf_exempt  # the caller is known by a header that no browser sends by itself
def query(request: HttpRequest, reference: str) -> HttpResponse:
    """Run an endpoint by UUID or name and answer with its rows."""
    reply = answer_query(
        QueryRequest(request.META, reference, request_id_of(request), read_body=partial(_read_body, request))
    )
    response = HttpResponse(reply.body, status=reply.status, headers=dict(reply.headers))
    if "Content-Type" not in reply.headers:
        del response["Content-Type"]  # Django's own, of an empty body
    return response


def unknown_route(request: HttpRequest, rest: str = "") -> HttpResponse:
    """Everything else below /api/ answers 404 in the one error body, also where Django would show a debug page."""
    return error_response(request, RouteNotFound())


def _read_body(request: HttpRequest) -> RawArguments:
    try:
        if request.content_type == MULTIPART and request.method == "POST":
            return _read_multipart(request)
        return read_body(request.content_type or "", request.body)
    except UnreadablePostError as error:
        raise InvalidRequest("The body ended before its announced length.") from error


def _read_multipart(request: HttpRequest) -> RawArguments:
    sent = request.body
    try:
        fields = [(name, str(value)) for name, values in request.POST.lists() for value in values]
    except MultiPartParserError as error:
        raise InvalidRequest("The multipart form cannot be read.") from error
    if request.FILES:
        raise InvalidRequest("The multipart form holds a file; send arguments as fields.")
    # Django puts U+FFFD in place of bytes that are not UTF-8, so look whether the caller really sent U+FFFD.
    if "\ufffd".encode() not in sent and any("\ufffd" in text for field in fields for text in field):
        raise InvalidRequest("The form is not UTF-8.")
    return from_pairs(fields)
