"""The HTTP side of a call: read the request, call one service, render its outcome.

Every call goes through `answer_query`; `views` passes it Django's requests, `fast_path` the web server's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from time import perf_counter
from typing import Final

from django.conf import settings

from endpoints.access.secrets import Caller
from endpoints.access.token_limits import admit
from endpoints.api.arguments import RawArguments, read_query_string
from endpoints.api.authentication import authenticate
from endpoints.api.negotiation import FORMAT, LONGEST_REMEMBERED, named_format, preferred_format
from endpoints.api.rendering import Environ, render_answer, render_stream
from endpoints.api.replies import Reply, as_endpoint_error, error_reply
from endpoints.api.tail import answer_tail
from endpoints.calling.calls import find_endpoint, note_answered_call, note_failed_call, run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.calling.streams import StreamedAnswer
from endpoints.definition import Version
from endpoints.errors import InvalidRequest, MethodNotAllowed, NotAcceptable
from endpoints.results.outcomes import ResultFormat
from endpoints.sql.parameters import RawValue

METHODS: Final = ("GET", "HEAD", "POST", "OPTIONS")
_ON: Final = frozenset(("true", "1", "yes", "on"))
_OFF: Final = frozenset(("", "false", "0", "no", "off"))
_NO_BODY: Final = RawArguments()
# A few different ones are requested again and again, and most are short.
_REMEMBERED_CALLS: Final = 512
_MOST_REMEMBERED: Final = 64  # arguments; each takes memory of its own
_BYTES_PER_ARGUMENT: Final = 250


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A request of the query route: `read_body` returns the arguments of its body, or is None if it has no body."""

    environ: Environ
    reference: str
    request_id: str
    read_body: Callable[[], RawArguments] | None = None


def answer_query(request: QueryRequest) -> Reply:
    """Run an endpoint by UUID or name and return its rows, or the one error body; raises nothing."""
    started = perf_counter()
    caller: Caller | None = None
    call: Call | None = None
    if request.environ["REQUEST_METHOD"] == "OPTIONS":  # reveals nothing that needs an access token
        return Reply(204, {"Allow": ", ".join(METHODS)})
    try:
        caller = authenticate(request.environ)
        admit(caller)
        _refuse_other_methods(request.environ["REQUEST_METHOD"])
        call = read_call(request)
        if call.named_format:
            call = _in_named_format(call, find_endpoint(request.reference, caller=caller), request.environ)
        if call.tail and (tail := answer_tail(request.reference, request.request_id, call, caller)):
            return tail
        answer = run_endpoint(
            request.reference,
            call=call,
            caller=caller,
            anew="HTTP_CACHE_CONTROL" in request.environ and _is_wanted_anew(request.environ["HTTP_CACHE_CONTROL"]),
            environ=request.environ,
            takes_streams=request.environ["REQUEST_METHOD"] != "HEAD",
        )
        if answer.stream is not None:
            return render_stream(call, answer, StreamedAnswer(answer.stream, request.request_id), started=started)
        reply = render_answer(request.environ, call, answer, started=started)
    except Exception as error:  # noqa: BLE001  # whatever it was, the caller gets the one error body
        failure = as_endpoint_error(error)
        seconds = perf_counter() - started
        note_failed_call(request.reference, failure, caller, seconds=seconds, request_id=request.request_id, call=call)
        return error_reply(failure, request.request_id)
    seconds = perf_counter() - started
    note_answered_call(answer, caller, status=reply.status, seconds=seconds, request_id=request.request_id, call=call)
    return reply


def _refuse_other_methods(method: str) -> None:
    if method not in METHODS:
        raise MethodNotAllowed(method, METHODS)


def read_call(request: QueryRequest) -> Call:
    """Return the call that the request describes. Raises InvalidRequest, NotAcceptable and UnsupportedMediaType."""
    environ = request.environ
    query_string = environ.get("QUERY_STRING", "")
    redact = environ.get(_redaction_header(settings.ENDPOINTS_HEADER_PREFIX), "")
    accept = environ.get("HTTP_ACCEPT", "")
    if request.read_body is None and _is_short(query_string, accept):
        return _read_plain_call(query_string, redact, accept)
    of_query_string = _read_query_string(query_string)
    of_body = _NO_BODY if request.read_body is None else request.read_body()
    return _call(of_body.overridden_by(of_query_string), redact, accept)


def _is_wanted_anew(cache_control: str) -> bool:
    """Tell whether a request has the directive `no-cache` (RFC 9111 section 5.2.1.4); no other one counts."""
    return any(directive.strip(" \t").lower() == "no-cache" for directive in cache_control.split(","))


def _is_short(query_string: str, accept: str) -> bool:
    return len(query_string) + len(accept) <= LONGEST_REMEMBERED and query_string.count("&") < _MOST_REMEMBERED


@lru_cache(maxsize=_REMEMBERED_CALLS)
def _read_plain_call(query_string: str, redact: str, accept: str) -> Call:
    arguments = _read_query_string(query_string)
    weight = _BYTES_PER_ARGUMENT * (1 + len(arguments.values)) + 2 * len(query_string)
    return _call(arguments, redact, accept, weight=weight)


def _read_query_string(query_string: str) -> RawArguments:
    # WSGI hands the raw bytes over as Latin-1 text (PEP 3333).
    return read_query_string(query_string.encode("latin-1")) if query_string else _NO_BODY


def _call(arguments: RawArguments, redact: str, accept: str, *, weight: int = 0) -> Call:
    named = _word(arguments, FORMAT) if FORMAT in arguments.values else ""
    return Call(
        arguments=arguments.values,
        repeated_names=arguments.repeated,
        sandbox_sql=_sandbox_query(arguments, "sql"),
        sandbox_lql=_sandbox_query(arguments, "lql"),
        redact=_redaction_wanted(redact),
        format=_accepted_format(accept) if named else preferred_format(accept),
        weight=weight,
        tail=_word(arguments, "tail") if "tail" in arguments.values else "",
        page_token=_word(arguments, "page_token") if "tail" in arguments.values else "",
        named_format=named,
    )


def _accepted_format(accept: str) -> ResultFormat:
    """Return the preferred format where `format` is sent, which may take its place: then Accept refuses nothing."""
    try:
        return preferred_format(accept)
    except NotAcceptable:
        return ResultFormat.JSON


def _in_named_format(call: Call, endpoint: Version, environ: Environ) -> Call:
    """Return a call that sends `format` in its format: an endpoint's own parameter of that name comes first.

    What names no format is ignored like any name that no parameter has (service.md section 3). Raises
    InvalidParameters, and NotAcceptable.
    """
    is_own = any(parameter.name == FORMAT for parameter in endpoint.parameters)
    result_format = None if is_own else named_format(call.named_format)
    if result_format is None:
        preferred_format(environ.get("HTTP_ACCEPT", ""))  # decides now, and may allow none
        return _with_format(call, call.format, "")
    return _with_format(call, result_format, result_format.short_name)


@lru_cache(maxsize=_REMEMBERED_CALLS)
def _remembered_with_format(call: Call, result_format: ResultFormat, name: str) -> Call:
    return replace(call, format=result_format, named_format=name)


def _with_format(call: Call, result_format: ResultFormat, name: str) -> Call:
    if call.weight:  # the same object again, so that what is remembered of it is found again
        return _remembered_with_format(call, result_format, name)
    return replace(call, format=result_format, named_format=name)


def _sandbox_query(arguments: RawArguments, name: str) -> str:
    value: RawValue = arguments.values.get(name)
    if name in arguments.repeated:
        raise InvalidRequest(details=[{"name": name, "reason": "is sent more than once"}])
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidRequest(details=[{"name": name, "reason": "must be text"}])
    return value if value.strip() else ""


def _word(arguments: RawArguments, name: str) -> str:
    """Return what was sent under a name that may be an endpoint's own parameter: anything else than a word is "?"."""
    value: RawValue = arguments.values.get(name)
    if isinstance(value, bool):
        return str(value).lower()
    if name in arguments.repeated or not isinstance(value, str | None):
        return "?"
    return (value or "").strip()


@lru_cache(maxsize=8)
def _redaction_header(prefix: str) -> str:
    return f"HTTP_{prefix.upper().replace('-', '_')}_ENDPOINT_REDACT_PII"


def _redaction_wanted(sent: str) -> bool:
    value = sent.strip().lower()
    if value not in _ON | _OFF:
        # A misspelt "true" must not reveal the data that the caller wanted hidden.
        raise InvalidRequest(f"{settings.ENDPOINTS_HEADER_PREFIX}-ENDPOINT-REDACT-PII must be true or false.")
    return value in _ON
