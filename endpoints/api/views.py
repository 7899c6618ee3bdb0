"""The HTTP side of a call: read the request, call one service, render its outcome. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import Any, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.http.multipartparser import MultiPartParserError
from django.http.request import UnreadablePostError
from django.utils.http import parse_etags
from rest_framework.authentication import BaseAuthentication
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from endpoints.access_tokens import Caller
from endpoints.api.arguments import MULTIPART, RawArguments, from_pairs, read_body, read_query_string
from endpoints.api.authentication import caller_of
from endpoints.api.exceptions import as_endpoint_error, error_response
from endpoints.errors import InvalidRequest, NotAcceptable, RouteNotFound
from endpoints.outcomes import ResultFormat
from endpoints.services import (
    Answer,
    CacheState,
    Call,
    Served,
    note_answered_call,
    note_failed_call,
    run_endpoint,
)
from endpoints.sql.parameters import RawValue

_FORMATS = [result_format.value for result_format in ResultFormat]
_ON = frozenset(("true", "1", "yes", "on"))
_OFF = frozenset(("", "false", "0", "no", "off"))


class _NoNegotiation(BaseContentNegotiation):
    """The body is encoded before it gets here; `_result_format` reads the Accept header with its q values."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser:
        return next(iter(parsers))

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        renderer = next(iter(renderers))
        return renderer, renderer.media_type


class QueryView(APIView):
    """Run an endpoint by UUID or name and answer with its rows."""

    schema = None  # `openapi.describe_endpoints` puts an operation per endpoint in place of this route
    content_negotiation_class = _NoNegotiation

    http_method_names = ["get", "head", "post", "options"]

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        self._started = perf_counter()
        super().setup(request, *args, **kwargs)

    def get_authenticators(self) -> list[BaseAuthentication]:
        """OPTIONS tells nothing that needs an access token."""
        return [] if self.request.method == "OPTIONS" else super().get_authenticators()

    def get(self, request: Request, reference: str) -> HttpResponse:
        return self._run(request, reference)

    def head(self, request: Request, reference: str) -> HttpResponse:
        return self._run(request, reference)

    def post(self, request: Request, reference: str) -> HttpResponse:
        return self._run(request, reference)

    def options(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:  # type: ignore[override]
        return HttpResponse(status=204, headers={"Allow": ", ".join(self.allowed_methods)})

    def handle_exception(self, exc: Exception) -> HttpResponseBase:  # type: ignore[override]
        error = as_endpoint_error(exc, self.allowed_methods)
        seconds = perf_counter() - self._started
        note_failed_call(self.kwargs["reference"], error, caller_of(self.request._request), seconds=seconds)
        return super().handle_exception(error)

    def _run(self, request: Request, reference: str) -> HttpResponse:
        caller = cast(Caller, request.user)  # AccessTokenAuthentication answers with nothing else
        call = read_call(request._request)
        answer = run_endpoint(reference, call=call, caller=caller)
        response = render_answer(request._request, answer, started=self._started)
        seconds = perf_counter() - self._started
        note_answered_call(answer, caller, status=response.status_code, seconds=seconds)
        return response


def unknown_route(request: HttpRequest, rest: str = "") -> HttpResponse:
    """Everything else below /api/ answers 404 in the one error body, also where Django would show a debug page."""
    return error_response(request, RouteNotFound())


def read_call(request: HttpRequest) -> Call:
    """Return what the request asks for. Raises InvalidRequest, NotAcceptable and UnsupportedMediaType."""
    arguments = _raw_arguments(request)
    return Call(
        arguments=arguments.values,
        repeated_names=arguments.repeated,
        sandbox_sql=_sandbox_query(arguments, "sql"),
        sandbox_lql=_sandbox_query(arguments, "lql"),
        redact=_redaction_wanted(request),
        format=_result_format(request),
    )


def _raw_arguments(request: HttpRequest) -> RawArguments:
    # WSGI hands the raw bytes over as Latin-1 text (PEP 3333).
    query = read_query_string(request.META.get("QUERY_STRING", "").encode("latin-1"))
    try:
        if request.content_type == MULTIPART and request.method == "POST":
            body = _read_multipart(request)
        else:
            body = read_body(request.content_type or "", request.body)
    except UnreadablePostError as error:
        raise InvalidRequest("The body ended before its announced length.") from error
    return body.overridden_by(query)


def _read_multipart(request: HttpRequest) -> RawArguments:
    sent = request.body
    try:
        fields = [(name, str(value)) for name, values in request.POST.lists() for value in values]
    except MultiPartParserError as error:
        raise InvalidRequest("The multipart form cannot be read.") from error
    if request.FILES:
        raise InvalidRequest("The multipart form holds a file; send arguments as fields.")
    # Django puts U+FFFD in place of bytes that are no UTF-8: it counts only where the caller has sent it.
    if "\ufffd".encode() not in sent and any("\ufffd" in text for field in fields for text in field):
        raise InvalidRequest("The form is not UTF-8.")
    return from_pairs(fields)


def _sandbox_query(arguments: RawArguments, name: str) -> str:
    value: RawValue = arguments.values.get(name)
    if name in arguments.repeated:
        raise InvalidRequest(details=[{"name": name, "reason": "is given more than once"}])
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidRequest(details=[{"name": name, "reason": "must be text"}])
    return value if value.strip() else ""


def _redaction_wanted(request: HttpRequest) -> bool:
    header = f"{settings.ENDPOINTS_HEADER_PREFIX}-ENDPOINT-REDACT-PII"
    value = request.headers.get(header, "").strip().lower()
    if value not in _ON | _OFF:
        # A misspelt "true" must not answer with the very data the caller wanted hidden.
        raise InvalidRequest(f"{header} must be true or false.")
    return value in _ON


def _result_format(request: HttpRequest) -> ResultFormat:
    if not request.headers.get("Accept", "").strip():
        return ResultFormat.JSON
    media_type = request.get_preferred_type(_FORMATS)
    if media_type is None:
        raise NotAcceptable(_FORMATS)
    return ResultFormat(media_type)


def render_answer(request: HttpRequest, answer: Answer, *, started: float) -> HttpResponse:
    """Return the 200 (or 304) of a call with the headers of the service contract; `started` is a perf_counter."""
    served, outcome = answer.served, answer.outcome
    headers = {
        "ETag": served.etag,
        "Cache-Control": _cache_control(served),
        "Vary": f"Accept, X-API-KEY, Authorization, {settings.ENDPOINTS_HEADER_PREFIX}-ENDPOINT-REDACT-PII",
        "X-Cache": served.state.value,
        "X-Result-Rows": str(outcome.row_count),
        "Server-Timing": f"db;dur={outcome.database_seconds * 1000:.2f}, "
        f"encode;dur={outcome.encoding_seconds * 1000:.2f}, total;dur={(perf_counter() - started) * 1000:.2f}",
    }
    if served.state is not CacheState.BYPASS:
        headers["Age"] = str(int(served.age_seconds))
    if outcome.truncated:
        headers["X-Result-Truncated"] = "true"
    if request.method in ("GET", "HEAD") and _is_known(served.etag, request):
        return HttpResponse(status=304, headers=headers)
    return HttpResponse(outcome.body, content_type=f"{outcome.format.value}; charset=utf-8", headers=headers)


def _cache_control(served: Served) -> str:
    """RFC 9111 and, for the seconds in which an old answer may be shown while a new one is fetched, RFC 5861."""
    if served.state is CacheState.BYPASS:
        return "private, no-cache"
    # Max-age counts from when the result was made: the recipient takes Age off it.
    fresh_for = int(served.age_seconds + served.fresh_for_seconds)
    stale_for = min(fresh_for, settings.ENDPOINTS_STALE_SECONDS)
    return f"private, max-age={fresh_for}, stale-while-revalidate={stale_for}"


def _is_known(etag: str, request: HttpRequest) -> bool:
    """If-None-Match compares weakly, RFC 9110 section 13.1.2."""
    sent = parse_etags(request.headers.get("If-None-Match", ""))
    return "*" in sent or any(candidate.removeprefix("W/") == etag for candidate in sent)
