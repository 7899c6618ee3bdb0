"""Run an endpoint: the one path of a call from its request to encoded rows."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, sleep, time
from typing import Any, Final
from uuid import UUID

from django.conf import settings

from config import logs
from config.deadlines import answer_within
from endpoints.access.known_records import KNOWN_RECORDS
from endpoints.access.secrets import Caller
from endpoints.auditing import call_queue
from endpoints.auditing.call_queue import LIMIT, QUEUE, REFUSALS, kept_arguments
from endpoints.cache import CacheUnavailable, usage
from endpoints.cache.running_calls import cancel_calls
from endpoints.cache.usage import Activity, EndpointStatistics, RecentCall
from endpoints.calling.cached_results import CacheState, Served, running_call, serve
from endpoints.calling.prepared_queries import reason_of
from endpoints.calling.query_requests import Call, recall_request
from endpoints.calling.streams import Stream, begin_stream
from endpoints.definition import Version
from endpoints.errors import (
    CacheNotReachable,
    CallNotFound,
    DatabaseUnavailable,
    EndpointError,
    EndpointNotFound,
    Overloaded,
)
from endpoints.log_database.execution import StatementFailed, run_statement
from endpoints.log_database.sessions import ReaderSession
from endpoints.models import Endpoint
from endpoints.results.encoding import STREAMED_FORMATS
from endpoints.results.outcomes import Outcome, Statement
from endpoints.sql.parameters import DeclaredParameter
from logsources.roles import QUERY_READER

# --- Call outcomes ----------------------------------------------------------------------------------------------------
# How calls ended, for the operator: the last ones of each endpoint, their numbers over a day, and the audit log.
_NO_CALL: Final = Call()


@dataclass(frozen=True, slots=True)
class EndpointUse:
    """How an endpoint is used: its last calls, the newest first, a day's activity and the counts of its cache."""

    last_calls: tuple[RecentCall, ...]
    activity: Activity
    statistics: EndpointStatistics


def note_answered_call(
    answer: Answer,
    caller: Caller,
    *,
    status: int,
    seconds: float,
    request_id: str = "",
    call: Call = _NO_CALL,
    kind: str = "",
) -> None:
    """Remember a call that got its rows (or a 304), `seconds` after it came. Never raises; does no I/O.

    Without a kind it is that of the call: query, sql or lql.
    """
    recent = RecentCall(
        at=time(),
        access_token=caller.name,
        access_token_prefix=caller.prefix,
        status=status,
        error_code="",
        rows=answer.outcome.row_count,
        milliseconds=seconds * 1000,
        cache=answer.served.state.value,
        version=answer.endpoint.version,
    )
    usage.note_outcome(answer.endpoint.pk.hex, recent)
    # As call_queue.note, without the call: every cached answer comes by here.
    if len(QUEUE) == LIMIT:
        call_queue.count_dropped(1)
    kind = kind or call.sandbox_language or "query"
    arguments = call.arguments if call.weight else kept_arguments(call.arguments)
    QUEUE.append((recent, answer.endpoint, request_id, kind, arguments, call.redact))


def note_failed_call(
    reference: str,
    error: EndpointError,
    caller: Caller | None,
    *,
    seconds: float,
    request_id: str = "",
    call: Call | None = None,
    kind: str = "",
) -> None:
    """Remember a call that ended with an error. Never raises; does no I/O.

    The endpoint's last calls have it if this process knows the endpoint and the caller; without a caller anybody could
    fill the list. The audit log bounds and counts such calls itself.
    """
    endpoint = KNOWN_RECORDS.recall_endpoint(reference) if caller is not None and reference else None
    recent = RecentCall(
        at=time(),
        access_token="" if caller is None else caller.name,
        access_token_prefix="" if caller is None else caller.prefix,
        status=error.status,
        error_code=error.code,
        rows=0,
        milliseconds=seconds * 1000,
        cache="",
        version=0 if endpoint is None else endpoint.version,
        reason=reason_of(error),
    )
    if caller is not None and endpoint is not None:
        usage.note_outcome(endpoint.pk.hex, recent)
    sent = call or _NO_CALL
    kind = kind or sent.sandbox_language or "query"
    noted = (recent, endpoint, request_id, kind, kept_arguments(sent.arguments), sent.redact)
    if error.status in REFUSALS or endpoint is None:
        call_queue.note_refusal(noted)
    else:
        call_queue.note(noted)
    usage.FLUSHER.note()


def note_log_access(
    kind: str,
    source: str,
    *,
    caller: tuple[str, str],
    rows: int,
    seconds: float,
    names: Sequence[str] = (),
    error: EndpointError | None = None,
    request_id: str = "",
) -> None:
    """Remember that somebody (name and prefix, "" without an access token) read or loaded rows of a log source.

    Never raises; does no I/O. The source is the only value of an argument that is kept.
    """
    status, code = (200, "") if error is None else (error.status, error.code)
    recent = RecentCall(time(), caller[0], caller[1], status, code, rows, seconds * 1000, "", 0)
    noted = (recent, None, request_id, kind, {"source": source, **dict.fromkeys(names, "")}, False)
    if status in REFUSALS:
        call_queue.note_refusal(noted)
    else:
        call_queue.note(noted)
    usage.FLUSHER.note()


def call_activity(endpoints: Sequence[Endpoint]) -> list[Activity]:
    """Return the calls of each endpoint over the last 24 hours. Raises CacheUnavailable."""
    usage.FLUSHER.settle()
    by_id = usage.activity([endpoint.pk.hex for endpoint in endpoints], now=time())
    return [by_id[endpoint.pk.hex] for endpoint in endpoints]


def endpoint_use(endpoint: Endpoint, *, last_calls: int) -> EndpointUse:
    """Return how an endpoint is used, with at most this many of its last calls. Raises CacheUnavailable."""
    (activity,) = call_activity([endpoint])
    return EndpointUse(
        last_calls=tuple(usage.last_calls(endpoint.pk.hex, limit=last_calls)),
        activity=activity,
        statistics=usage.statistics([endpoint.pk.hex])[endpoint.pk.hex],
    )


# --- Calls ------------------------------------------------------------------------------------------------------------
READ_SECONDS: Final = 1.0
# A call can be cancelled a third of a second after it began to wait for PostgreSQL or for others.
CALL_FOUND_SECONDS: Final = 0.75
_LOOK_AGAIN_SECONDS: Final = 0.05
_lock = threading.Lock()
_waiting: Counter[str] = Counter()  # requests in `waiting_place`, by access token


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a call, where it came from, and the version of the endpoint that served it.

    If it is a stream, the outcome has no body: `stream` has it, and tells its end itself.
    """

    served: Served
    endpoint: Version
    stream: Stream | None = None
    ignored: str = ""  # names of arguments that the endpoint does not have, for a header

    @property
    def outcome(self) -> Outcome:
        return self.served.outcome


def find_endpoint(reference: str, *, caller: Caller | None = None) -> Version:
    """Return the endpoint of this UUID or name in its newest version.

    Raises EndpointNotFound, also when the caller may not call it, and DatabaseUnavailable.

    A caller bound to an argument may only call endpoints that have this parameter: others would ignore the bond.
    """
    endpoint = KNOWN_RECORDS.endpoint(reference)
    if not _may_call(caller, endpoint.pk, endpoint.parameters):
        raise EndpointNotFound
    return endpoint


def visible_endpoints(caller: Caller | None) -> list[Endpoint]:
    """Return every endpoint this caller may call, by name. Raises OperationalError if they cannot be read."""
    with answer_within(READ_SECONDS):
        endpoints = list(Endpoint.objects.filter(version__gt=0))
    return [endpoint for endpoint in endpoints if _may_call(caller, endpoint.pk, endpoint.parameters_of_version)]


def _may_call(caller: Caller | None, endpoint_id: UUID, parameters: Sequence[DeclaredParameter]) -> bool:
    if caller is None:
        return True
    if not caller.bound_arguments:
        return caller.may_call(str(endpoint_id))
    declared = {parameter.name for parameter in parameters}
    return caller.may_call(str(endpoint_id)) and declared.issuperset(caller.bound_arguments)


def run_endpoint(
    reference: str,
    *,
    call: Call,
    caller: Caller | None = None,
    anew: bool = False,
    environ: Mapping[str, Any] | None = None,
    takes_streams: bool = False,
    takes_stale: bool = True,
) -> Answer:
    """Run an endpoint and return its encoded result; `caller` None is the operator, bound by nothing.

    A result made anew has every row that was committed before this call; callers after it get no older one. With the
    WSGI environ of its request, the call ends when nobody wants its result. Who takes streams gets one if the endpoint
    and the format allow it; who takes no stale result gets one within its caching period or the failure. Raises an
    EndpointError: one of the rows of the error table.
    """
    endpoint = find_endpoint(reference, caller=caller)
    logs.bind(endpoint=endpoint.name, endpoint_version=endpoint.version)
    _, request, ignored = recall_request(endpoint, call, caller)
    stream = None
    if takes_streams and endpoint.stream_rows and call.format in STREAMED_FORMATS and request.page is None:
        with running_call(caller, environ):
            stream = begin_stream(endpoint, request, caller, on_primary=anew)
        served = _served_by(stream)
    else:
        served = serve(endpoint, request, caller, anew=anew, environ=environ, takes_stale=takes_stale)
    logs.bind(cache=served.state.value)
    return Answer(served, endpoint, stream, ignored)


def cancel_call(request_id: str, *, caller: Caller) -> None:
    """Cancel the calls with this request id that run with the caller's own access token, in any process.

    Raises CallNotFound if none runs, after a moment in which one that has just begun appears, and at once to browser
    tokens and to who may call no endpoint; Overloaded if too many wait for that moment; CacheNotReachable.
    """
    if caller.is_browser:  # its prefix is that of its issuer, whose other calls are not its own
        raise CallNotFound
    deadline = monotonic() + CALL_FOUND_SECONDS
    try:
        if cancel_calls(request_id, caller=caller.prefix):
            return
        if caller.endpoint_ids is not None and not caller.endpoint_ids:
            raise CallNotFound
        with waiting_place(caller.prefix):
            while monotonic() < deadline:
                sleep(_LOOK_AGAIN_SECONDS)
                if cancel_calls(request_id, caller=caller.prefix):
                    return
        raise CallNotFound
    except CacheUnavailable as error:
        raise CacheNotReachable("Redis does not answer: nothing was cancelled.") from error


@contextmanager
def waiting_place(prefix: str) -> Iterator[None]:
    """Count a request of an access token whose thread only waits.

    Raises Overloaded at once if a quarter of the web process's threads wait so, or half as many for this access token.
    """
    places = max(2, settings.ENDPOINTS_WEB_THREADS // 4)
    with _lock:
        if _waiting.total() >= places or _waiting[prefix] >= places // 2:
            raise Overloaded("Too many requests to cancel or to remove results came at once.")
        _waiting[prefix] += 1
    try:
        yield
    finally:
        with _lock:
            _waiting.subtract([prefix])
            if not _waiting[prefix]:
                del _waiting[prefix]


def _served_by(stream: Stream) -> Served:
    outcome = Outcome(
        body=b"",
        format=stream.format,
        row_count=0,
        truncated=False,
        database_seconds=stream.database_seconds,
        encoding_seconds=0.0,
    )
    return Served(outcome, etag="", state=CacheState.BYPASS)


def check_log_database() -> None:
    """Return once the log database answers a reader. Raises DatabaseUnavailable or Overloaded if it does not."""
    session = ReaderSession(role=QUERY_READER, search_path="", statement_timeout_seconds=1, tenant="")
    try:
        run_statement(Statement("SELECT 1"), session, max_rows=1)
    except StatementFailed as error:
        # A database without its roles, or whose gate may not take them, answers nobody's call.
        raise DatabaseUnavailable from error
