"""The HTTP side of a tail: the page of new rows, and when to ask for the next one."""

from __future__ import annotations

from typing import Final

import structlog

from config import logs
from endpoints.access.secrets import Caller
from endpoints.api.replies import JSON, Reply
from endpoints.calling.cached_results import CacheState, Served
from endpoints.calling.calls import Answer, find_endpoint, note_answered_call
from endpoints.calling.query_requests import Call
from endpoints.calling.tails import next_page, read_tail, wants_tail

RETRY_AFTER_SECONDS: Final = 2  # where nothing is new

logger = structlog.get_logger(__name__)


def answer_tail(reference: str, request_id: str, call: Call, caller: Caller) -> Reply | None:
    """Return the answer to a call that sends `tail`; None if it is a call like any other. Raises an EndpointError."""
    endpoint = find_endpoint(reference, caller=caller)
    if not wants_tail(endpoint, call):
        return None
    logs.bind(endpoint=endpoint.name, endpoint_version=endpoint.version)
    outcome = next_page(read_tail(endpoint, call, caller), caller)
    answer = Answer(Served(outcome, "", CacheState.BYPASS), endpoint)
    seconds = outcome.database_seconds + outcome.encoding_seconds
    note_answered_call(answer, caller, status=200, seconds=seconds, request_id=request_id, call=call, kind="tail")
    logger.info("tail_answered", rows=outcome.row_count)
    headers = {
        "Content-Type": JSON,
        "Cache-Control": "no-store",
        "X-Cache": CacheState.BYPASS.value,
        "X-Result-Rows": str(outcome.row_count),
    }
    if outcome.truncated:
        headers["X-Result-Truncated"] = "true"
    if not outcome.row_count:
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return Reply(200, headers, outcome.body)
