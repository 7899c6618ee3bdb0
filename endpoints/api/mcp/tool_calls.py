"""Calls of tools: the same call as that of the query route, with a result that fits into an agent's memory.

Rows are asked for as NDJSON: so many lines as fit are taken from its beginning, digit for digit, and nothing is parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import orjson

from config import logs
from endpoints.access.secrets import Caller
from endpoints.api.arguments import RawArguments, from_json
from endpoints.api.mcp.protocol import Code, Environ, ProtocolError
from endpoints.api.mcp.tools import RESULT_BYTES, RESULT_ROWS, unknown_arguments
from endpoints.api.query import QueryRequest, read_call
from endpoints.api.replies import as_endpoint_error
from endpoints.calling.cached_results import CacheState
from endpoints.calling.calls import Answer, find_endpoint, note_answered_call, note_failed_call, run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.definition import Version
from endpoints.errors import EndpointError, EndpointNotFound, InvalidParameters, LimitReached
from endpoints.results.outcomes import ResultFormat

_UNKNOWN_TOOL = "There is no tool of this name, or this access token may not call it."
# What a call takes from the request itself; the rest is in the message.
_NOT_OF_A_CALL = frozenset(("QUERY_STRING", "HTTP_ACCEPT"))


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A request of `tools/call` by a caller; `refusal` is why this call is one too many."""

    params: Mapping[str, Any]
    environ: Environ
    caller: Caller
    request_id: str
    refusal: LimitReached | None = None


def call_tool(call: ToolCall) -> dict[str, Any]:
    """Return the tool's result: its rows, or with `isError` the one error body, for the agent to correct itself.

    Raises ProtocolError for a tool that does not exist or that the caller may not call: the same answer.
    """
    name, sent = call.params.get("name"), call.params.get("arguments")
    if not isinstance(name, str):
        raise ProtocolError(Code.INVALID_PARAMS, "params.name must be the name of a tool.")
    if not isinstance(sent, dict | None):
        raise ProtocolError(Code.INVALID_PARAMS, "params.arguments must be an object.")
    started = perf_counter()
    query: Call | None = None
    try:
        if call.refusal is not None:
            raise call.refusal
        endpoint = _endpoint_of(name, call.caller)
        query = _read_call(call, endpoint, sent or {})
        answer = run_endpoint(name, call=query, caller=call.caller, environ=call.environ)
    except Exception as error:  # whatever it was, the agent gets the one error body
        failure = as_endpoint_error(error)
        seconds = perf_counter() - started
        note_failed_call(
            name, failure, call.caller, seconds=seconds, request_id=call.request_id, call=query, kind="mcp"
        )
        if isinstance(failure, EndpointNotFound):
            raise ProtocolError(Code.INVALID_PARAMS, _UNKNOWN_TOOL) from error
        return _failed(failure, call.request_id)
    seconds = perf_counter() - started
    note_answered_call(
        answer, call.caller, status=200, seconds=seconds, request_id=call.request_id, call=query, kind="mcp"
    )
    return _answered(answer, endpoint)


def _endpoint_of(name: str, caller: Caller) -> Version:
    endpoint = find_endpoint(name, caller=caller)
    if endpoint.name != name:  # a UUID names an endpoint, but no tool
        raise EndpointNotFound
    return endpoint


def _read_call(call: ToolCall, endpoint: Version, sent: dict[str, Any]) -> Call:
    """Return the call as the query route would read it, except that an argument that does not exist is refused."""
    arguments: RawArguments = from_json(sent)
    unknown = unknown_arguments(arguments.values, endpoint.parameters)
    if unknown:
        raise InvalidParameters(details=[{"name": name, "reason": "is no argument of this tool"} for name in unknown])
    environ = {name: value for name, value in call.environ.items() if name not in _NOT_OF_A_CALL}
    environ["HTTP_ACCEPT"] = ResultFormat.NDJSON.value
    return read_call(QueryRequest(environ, endpoint.name, call.request_id, read_body=lambda: arguments))


# --- Results ----------------------------------------------------------------------------------------------------------
def first_lines(body: bytes, *, most: int, most_bytes: int) -> list[bytes]:
    """Return as many whole lines of an NDJSON body as may be: none of them if the first is too long."""
    lines: list[bytes] = []
    start = 0
    while len(lines) < most and start < len(body):
        end = body.index(b"\n", start)
        most_bytes -= end - start
        if most_bytes < 0:
            break
        lines.append(body[start:end])
        start = end + 1
    return lines


def _answered(answer: Answer, endpoint: Version) -> dict[str, Any]:
    outcome = answer.outcome
    lines = first_lines(outcome.body, most=RESULT_ROWS, most_bytes=RESULT_BYTES)
    document: dict[str, Any] = {"result": list(map(orjson.Fragment, lines))}
    note = _note(answer, endpoint, shown=len(lines))
    if note:
        document["note"] = note
    written = orjson.dumps(document)
    # Many clients show their model the text alone.
    content = [{"type": "text", "text": written.decode()}]
    return {"content": content, "isError": False, "structuredContent": orjson.Fragment(written)}


def _note(answer: Answer, endpoint: Version, *, shown: int) -> str:
    outcome, sentences = answer.outcome, []
    if answer.served.state is CacheState.STALE:
        sentences.append(f"These rows are {answer.served.age_seconds:.0f} s old: nothing newer could be read.")
    if shown < outcome.row_count:
        fewer = "Narrow the arguments"
        if endpoint.sandboxing:
            fewer += ", or choose columns, filter or count with sql or lql"
        sentences.append(
            f"Only the first {shown} of {outcome.row_count} rows are here: the result of a tool has at most "
            f"{RESULT_ROWS} rows and {RESULT_BYTES} bytes. {fewer}."
        )
    if outcome.truncated:
        sentences.append(f"The query has more rows than the {endpoint.max_rows} that this endpoint returns.")
    elif outcome.at_own_limit:
        sentences.append(f"The stored query stops at {outcome.row_count} rows; there may be more.")
    return " ".join((*sentences, *(f"{note}." for note in outcome.notes)))


def _failed(failure: EndpointError, request_id: str) -> dict[str, Any]:
    logs.bind(error=failure.code)
    text = orjson.dumps(failure.body(request_id)).decode()
    return {"content": [{"type": "text", "text": text}], "isError": True}
