"""The HTTP side of a call: read the request, call one service, render its outcome. It makes no decisions.

Every call goes through `answer_query`; `views` passes it Django's requests, `fast_path` the web server's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter
from typing import Any, Final

from django.conf import settings
from django.utils.http import parse_etags

from endpoints.access.secrets import Caller
from endpoints.access.token_limits import admit
from endpoints.api.arguments import RawArguments, read_query_string
from endpoints.api.authentication import authenticate
from endpoints.api.links import link_to_next_page
from endpoints.api.negotiation import LONGEST_REMEMBERED, preferred_format
from endpoints.api.replies import POSITION_HEADER, Reply, as_endpoint_error, error_reply
from endpoints.api.tail import answer_tail
from endpoints.calling.cached_results import CacheState, Served
from endpoints.calling.calls import Answer, note_answered_call, note_failed_call, run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.calling.streams import StreamedAnswer
from endpoints.errors import InvalidRequest, MethodNotAllowed
from endpoints.results.encoding import BINARY_FORMATS
from endpoints.results.outcomes import ResultFormat
from endpoints.results.positions import NO_POSITION, read_position
from endpoints.sql.parameters import RawValue

Environ = Mapping[str, Any]  # of WSGI, PEP 3333; Django's request.META is one

METHODS: Final = ("GET", "HEAD", "POST", "OPTIONS")
_ON: Final = frozenset(("true", "1", "yes", "on"))
_OFF: Final = frozenset(("", "false", "0", "no", "off"))
_NO_BODY: Final = RawArguments()
_CONTENT_TYPES: Final = {
    each: each.value if each in BINARY_FORMATS else f"{each.value}; charset=utf-8" for each in ResultFormat
}
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
        awaited = _awaited_position(request.environ)
        call = read_call(request)
        if call.tail and (tail := answer_tail(request.environ, request.reference, request.request_id, call, caller)):
            return tail
        answer = run_endpoint(
            request.reference,
            call=call,
            caller=caller,
            awaited=awaited,
            environ=request.environ,
            takes_streams=request.environ["REQUEST_METHOD"] != "HEAD",
        )
        if answer.stream is not None:
            return _render_stream(answer, StreamedAnswer(answer.stream, request.request_id), started=started)
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


def _awaited_position(environ: Environ) -> int:
    """Return the position that the caller sent back from a load. Raises InvalidRequest if it is none."""
    sent = environ.get("HTTP_X_LOG_POSITION", "")
    try:
        return read_position(sent) if sent else NO_POSITION
    except ValueError:
        raise InvalidRequest(f"{POSITION_HEADER} must be a position as a load answers it, such as 0/3A2B1C8.") from None


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
    return Call(
        arguments=arguments.values,
        repeated_names=arguments.repeated,
        sandbox_sql=_sandbox_query(arguments, "sql"),
        sandbox_lql=_sandbox_query(arguments, "lql"),
        redact=_redaction_wanted(redact),
        format=preferred_format(accept),
        weight=weight,
        tail=_word(arguments, "tail") if "tail" in arguments.values else "",
        page_token=_word(arguments, "page_token") if "tail" in arguments.values else "",
    )


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


def _render_stream(answer: Answer, body: StreamedAnswer, *, started: float) -> Reply:
    """Return the 200 of a stream: how many rows it has, and whether that is all, is said in its last line."""
    outcome = answer.outcome
    headers = {
        "Content-Type": f"{outcome.format.value}; charset=utf-8",
        "Cache-Control": "private, no-store",
        "Vary": _vary(settings.ENDPOINTS_HEADER_PREFIX),
        "X-Cache": answer.served.state.value,
        "X-Accel-Buffering": "no",  # nginx would keep up to a gigabyte of it in a file
        "Server-Timing": f"db;dur={outcome.database_seconds * 1000:.2f}, "
        f"total;dur={(perf_counter() - started) * 1000:.2f}",
    }
    return Reply(200, headers, later=body)


@lru_cache(maxsize=8)
def _vary(prefix: str) -> str:
    return f"Accept, X-API-KEY, Authorization, {prefix}-ENDPOINT-REDACT-PII, {POSITION_HEADER}"


def render_answer(environ: Environ, call: Call, answer: Answer, *, started: float) -> Reply:
    """Return the 200 (or 304) of a call with the headers of the service contract; `started` is a perf_counter."""
    served, outcome = answer.served, answer.outcome
    headers = {
        "ETag": served.etag,
        "Cache-Control": _cache_control(served),
        "Vary": _vary(settings.ENDPOINTS_HEADER_PREFIX),
        "X-Cache": served.state.value,
        "X-Result-Rows": str(outcome.row_count),
        "Server-Timing": f"db;dur={outcome.database_seconds * 1000:.2f}, "
        f"encode;dur={outcome.encoding_seconds * 1000:.2f}, total;dur={(perf_counter() - started) * 1000:.2f}",
    }
    if served.state is not CacheState.BYPASS:
        headers["Age"] = str(int(served.age_seconds))
    if outcome.truncated:
        headers["X-Result-Truncated"] = "true"
    if outcome.notes:
        headers["X-Result-Notes"] = "; ".join(outcome.notes)
    if outcome.next_page:
        headers["Link"] = link_to_next_page(call, answer.parameters, outcome.next_page)
    if environ["REQUEST_METHOD"] in ("GET", "HEAD") and _is_known(served.etag, environ.get("HTTP_IF_NONE_MATCH", "")):
        return Reply(304, headers)
    return Reply(200, {"Content-Type": _CONTENT_TYPES[outcome.format], **headers}, outcome.body)


def _cache_control(served: Served) -> str:
    """RFC 9111, and RFC 5861 for the seconds in which a client may show an old answer while it fetches a new one."""
    if served.policy is None:
        return "private, no-cache"
    # Max-age counts from the time of the result: the recipient subtracts Age from it.
    fresh_for = int(served.age_seconds + served.fresh_for_seconds)
    stale_for = min(fresh_for, served.policy.stale_seconds)
    return f"private, max-age={fresh_for}, stale-while-revalidate={stale_for}"


def _is_known(etag: str, if_none_match: str) -> bool:
    """If-None-Match compares weakly, RFC 9110 section 13.1.2."""
    if not if_none_match:
        return False
    sent = parse_etags(if_none_match)
    return "*" in sent or any(candidate.removeprefix("W/") == etag for candidate in sent)
