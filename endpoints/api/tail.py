"""The HTTP side of a tail: a page at once if there are rows for it, else when they come or the wait is over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import structlog
from django.conf import settings

from config import logs
from endpoints.access.secrets import Caller
from endpoints.access.token_limits import take_tail
from endpoints.api.authentication import authenticate
from endpoints.api.replies import JSON, Reply, as_endpoint_error, error_reply
from endpoints.calling.cached_results import CacheState, Served
from endpoints.calling.calls import Answer, find_endpoint, note_answered_call, note_failed_call
from endpoints.calling.query_requests import Call
from endpoints.calling.tails import Page, Tail, next_page, read_tail, wants_tail
from endpoints.calling.waiting_room import NotNow, Wish, waiting_room
from endpoints.errors import DatabaseUnavailable, LimitReached, Overloaded, SandboxSuspended

# Of the environ, which would keep much more alive: what `authenticate` reads.
_CREDENTIALS: Final = ("HTTP_X_API_KEY", "HTTP_AUTHORIZATION")

logger = structlog.get_logger(__name__)


def answer_tail(
    environ: Mapping[str, Any], reference: str, request_id: str, call: Call, caller: Caller
) -> Reply | None:
    """Return the answer to a call that sends `tail`, perhaps a later one; None if it is a call like any other.

    Raises an EndpointError.
    """
    endpoint = find_endpoint(reference, caller=caller)
    if not wants_tail(endpoint, call):
        return None
    logs.bind(endpoint=endpoint.name, endpoint_version=endpoint.version)
    room = waiting_room()
    since = room.moment
    tail = read_tail(endpoint, call, caller)
    page = next_page(tail, caller, awaited=room.position)
    if tail.place is None or page.outcome.row_count or settings.ENDPOINTS_TAIL_SECONDS <= 0:
        return _reply(page, tail, caller, request_id, call)
    credentials = {name: environ[name] for name in _CREDENTIALS if name in environ}
    attempt = partial(_try_again, credentials, reference, request_id, replace(call, weight=0))
    wish = Wish(attempt, names=page.names, since=since, seconds=settings.ENDPOINTS_TAIL_SECONDS)
    later = room.answer_when(wish, partial(take_tail, caller.prefix))
    return Reply(200, _headers(page), later=later)


def _try_again(
    credentials: Mapping[str, str], reference: str, request_id: str, call: Call, is_last: bool
) -> Reply | None:
    """Check and run everything anew: access tokens are revoked and endpoints saved while somebody waits."""
    logs.begin(request_id=request_id)
    caller: Caller | None = None
    try:
        caller = authenticate(credentials)
        endpoint = find_endpoint(reference, caller=caller)
        logs.bind(endpoint=endpoint.name, endpoint_version=endpoint.version)
        tail = read_tail(endpoint, call, caller)
        page = next_page(tail, caller, awaited=waiting_room().position)
    except Exception as error:  # whatever it was, the caller gets the one error body
        failure = as_endpoint_error(error)
        passes = isinstance(failure, (LimitReached, Overloaded, DatabaseUnavailable))
        if passes and not is_last and not isinstance(failure, SandboxSuspended):
            raise NotNow from error
        note_failed_call(reference, failure, caller, seconds=0.0, request_id=request_id, call=call, kind="tail")
        return error_reply(failure, request_id)
    if not page.outcome.row_count and not is_last:
        return None
    return _reply(page, tail, caller, request_id, call)


def _reply(page: Page, tail: Tail, caller: Caller, request_id: str, call: Call) -> Reply:
    outcome = page.outcome
    answer = Answer(Served(outcome, "", CacheState.BYPASS), tail.endpoint)
    # Without the wait, which says nothing about how fast the endpoint is.
    seconds = outcome.database_seconds + outcome.encoding_seconds
    note_answered_call(answer, caller, status=200, seconds=seconds, request_id=request_id, call=call, kind="tail")
    logger.info("tail_answered", rows=outcome.row_count)
    return Reply(200, _headers(page), outcome.body)


def _headers(page: Page) -> dict[str, str]:
    outcome = page.outcome
    headers = {
        "Content-Type": JSON,
        "Cache-Control": "no-store",
        "X-Cache": CacheState.BYPASS.value,
        "X-Result-Rows": str(outcome.row_count),
    }
    if outcome.truncated:
        headers["X-Result-Truncated"] = "true"
    return headers
