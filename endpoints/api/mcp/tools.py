"""Endpoints as tools: name, description, and JSON Schema (2020-12) of their arguments and rows; and calls of them.

The name of a tool is the name of its endpoint: whatever `validate_endpoint_name` lets through, the specification allows
for tools. A call is the same as that of the query route, with a result that fits into an agent's memory.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from time import perf_counter
from typing import Any, Final

import orjson

from config import logs
from endpoints.access.secrets import Caller
from endpoints.api.arguments import from_json
from endpoints.api.mcp.protocol import Code, Message, ProtocolError, require
from endpoints.api.query import QueryRequest, read_call
from endpoints.api.replies import as_endpoint_error
from endpoints.api.schemas import Schema, arguments_schema, column_schema
from endpoints.calling import calls
from endpoints.calling.cached_results import CacheState
from endpoints.calling.query_requests import Call
from endpoints.definition import PublishedTable, Version
from endpoints.dialects import DIALECTS
from endpoints.errors import EndpointNotFound, InvalidParameters
from endpoints.models import Endpoint
from endpoints.results.outcomes import ResultFormat

TOOLS_A_PAGE: Final = 100
RESULT_ROWS: Final = 200
RESULT_BYTES: Final = 64 * 1024  # of the rows, as JSON
# They only read, and read nothing but the service's own log tables.
_ANNOTATIONS: Final = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}


def list_tools(message: Message) -> Schema:
    """Return one page of the tools that the caller may call, by name, and the cursor of the next page if there is one.

    Raises ProtocolError for a cursor that is not text, and OperationalError.
    """
    endpoints = sorted(calls.visible_endpoints(message.caller), key=lambda endpoint: endpoint.name)
    cursor = message.params.get("cursor")
    require(isinstance(cursor, str | None), Code.INVALID_PARAMS, "cursor must be the nextCursor of another page.")
    # The name of the page's last tool: what is saved or deleted meanwhile moves no other tool to another page.
    first = 0 if cursor is None else bisect_right([endpoint.name for endpoint in endpoints], cursor)
    page = endpoints[first : first + TOOLS_A_PAGE]
    listed: Schema = {"tools": [_described(endpoint, message.caller) for endpoint in page]}
    return listed | {"nextCursor": page[-1].name} if first + len(page) < len(endpoints) else listed


def _described(endpoint: Endpoint, caller: Caller) -> Schema:
    description = endpoint.description.strip() or f"Runs the stored query {endpoint.name}."
    description += f" At most {min(endpoint.max_rows, RESULT_ROWS)} rows."
    if endpoint.redact_pii:
        description += " IP and e-mail addresses in the rows are REDACTED."
    # What the access token is bound to comes from there.
    taken = [each for each in endpoint.parameters_of_version if each.name not in caller.bound_arguments]
    arguments = arguments_schema(taken)
    if endpoint.sandboxing:
        description += " Takes a query of your own in sql or lql, to filter, count or join."
        arguments["properties"] |= _sandbox_arguments(endpoint)
    return {
        "name": endpoint.name,
        "description": description,
        "inputSchema": arguments | {"additionalProperties": False},
        "annotations": _ANNOTATIONS,
        "outputSchema": _output_schema(endpoint),
    }


def _sandbox_arguments(endpoint: Endpoint) -> Schema:
    dialect = DIALECTS.get(endpoint.sandbox_dialect)
    tables = [PublishedTable.from_json(table) for table in endpoint.sandbox_tables]
    default = endpoint.default_sandbox_table or (tables[0].name if len(tables) == 1 else "")
    by_columns: dict[str, list[str]] = {}  # one line for all tables that have the same
    for table in tables:
        columns = ", ".join(f"{column.name} {column.type}" for column in table.columns)
        by_columns.setdefault(columns, []).append(table.name)
    listed = "\n".join(f"- {', '.join(names)}: {columns}" for columns, names in by_columns.items())
    sql = (
        f"One SELECT in {dialect.label if dialect else 'PostgreSQL'} of your own, in place of the stored final query. "
        f"The other arguments still choose the rows of its tables, which are all that it can read:\n{listed}"
    )
    lql = (
        "In place of sql, a query in LQL over one of these tables: filters that must all match, such as "
        'm.response.status_code:>=500 -m.request.path:~"^/health", columns with s:event_message, '
        "counts with c:count(*) c:group_by(t::hour); m. is metadata, f:name is the table"
        f"{f', {default} if none is named' if default else ''}."
    )
    return {"sql": {"type": "string", "description": sql}, "lql": {"type": "string", "description": lql}}


def _output_schema(endpoint: Endpoint) -> Schema:
    columns = {column["name"]: column["type"] for column in endpoint.result_columns}
    row: Schema = {"type": "object"}
    if endpoint.sandboxing:  # a sandbox query may give any column any type
        listed = ", ".join(f"{name} {type_name}" for name, type_name in columns.items())
        row["description"] = f"Columns of the stored query: {listed}. A query of your own has its own columns."
    else:
        row["properties"] = {name: _column_schema(type_name, endpoint) for name, type_name in columns.items()}
        row["required"] = list(columns)
    note = {"type": "string", "description": "Says what is missing, if not every row of the query is here."}
    properties = {"result": {"type": "array", "items": row}, "note": note}
    return {"type": "object", "properties": properties, "required": ["result"]}


def _column_schema(type_name: str, endpoint: Endpoint) -> Schema:
    """Return what every value of a column fulfils, with the type's name; clients refuse results that do not.

    The forms are those of `endpoints.results.encoding`: numbers that are not finite, and infinite times, are text.
    """
    known = column_schema(type_name, endpoint.timestamps_as)
    forms = known.get("type", [])  # the last is null
    if "number" in forms or ("integer" in forms and type_name.startswith("timestamp")):
        forms = [forms[0], "string", "null"]
    return {"description": known.get("description", type_name)} | ({"type": forms} if forms else {})


# --- Calls ------------------------------------------------------------------------------------------------------------
def call_tool(message: Message) -> Schema:
    """Return the tool's result: its rows, or with `isError` the one error body, for the agent to correct itself.

    Raises ProtocolError for a tool that does not exist or that the caller may not call: the same answer.
    """
    name: Any = message.params.get("name")
    sent = message.params.get("arguments")
    require(isinstance(name, str), Code.INVALID_PARAMS, "params.name must be the name of a tool.")
    require(isinstance(sent, dict | None), Code.INVALID_PARAMS, "params.arguments must be an object.")
    caller, request_id, started = message.caller, message.request_id, perf_counter()
    call: Call | None = None
    try:
        if message.refusal is not None:  # inside the tool, so that the agent learns when to try again
            raise message.refusal
        endpoint = calls.find_endpoint(name, caller=caller)
        if endpoint.name != name:  # a UUID names an endpoint, but no tool
            raise EndpointNotFound
        call = _read_call(message, endpoint, sent or {})
        answer = calls.run_endpoint(name, call=call, caller=caller, environ=message.environ)
    except Exception as error:  # whatever it was, the agent gets the one error body
        failure, seconds = as_endpoint_error(error), perf_counter() - started
        calls.note_failed_call(name, failure, caller, seconds=seconds, request_id=request_id, call=call, kind="mcp")
        if isinstance(failure, EndpointNotFound):
            text = "There is no tool of this name, or this access token may not call it."
            raise ProtocolError(Code.INVALID_PARAMS, text) from error
        logs.bind(error=failure.code)
        return _result(failure.body(request_id), is_error=True)
    seconds = perf_counter() - started
    calls.note_answered_call(answer, caller, status=200, seconds=seconds, request_id=request_id, call=call, kind="mcp")
    return _result(_rows(answer, endpoint), is_error=False)


def _read_call(message: Message, endpoint: Version, sent: dict[str, Any]) -> Call:
    """Return the call as the query route would read it, except that an argument that does not exist is refused."""
    arguments = from_json(sent)
    unknown = sorted(arguments.values.keys() - {"sql", "lql", *(each.name for each in endpoint.parameters)})
    if unknown:
        raise InvalidParameters(details=[{"name": name, "reason": "is no argument of this tool"} for name in unknown])
    environ = {**message.environ, "QUERY_STRING": "", "HTTP_ACCEPT": ResultFormat.NDJSON.value}
    return read_call(QueryRequest(environ, endpoint.name, message.request_id, read_body=lambda: arguments))


def first_lines(body: bytes, *, most: int, most_bytes: int) -> list[bytes]:
    """Return as many whole lines of an NDJSON body as may be: none of them if the first is too long."""
    lines = body.split(b"\n", most)[:-1]  # the last part is what comes after them
    return [line for line, so_far in zip(lines, accumulate(map(len, lines)), strict=True) if so_far <= most_bytes]


def _rows(answer: calls.Answer, endpoint: Version) -> Schema:
    """Return the rows that fit, as they are written, and a note if the query has more or newer ones."""
    outcome, notes = answer.outcome, []
    lines = first_lines(outcome.body, most=RESULT_ROWS, most_bytes=RESULT_BYTES)
    if answer.served.state is CacheState.STALE:
        notes.append(f"These rows are {answer.served.age_seconds:.0f} s old: nothing newer could be read.")
    if len(lines) < outcome.row_count:
        shown = f"Only the first {len(lines)} of {outcome.row_count} rows are here"
        limits = f"the result of a tool has at most {RESULT_ROWS} rows and {RESULT_BYTES} bytes"
        how = ", or choose columns, filter or count with sql or lql" if endpoint.sandboxing else ""
        notes.append(f"{shown}: {limits}. Narrow the arguments{how}.")
    if outcome.truncated:
        notes.append(f"The query has more rows than the {endpoint.max_rows} that this endpoint returns.")
    elif outcome.at_own_limit:
        notes.append(f"The stored query stops at {outcome.row_count} rows; there may be more.")
    notes += [f"{note}." for note in outcome.notes]
    return {"result": list(map(orjson.Fragment, lines))} | ({"note": " ".join(notes)} if notes else {})


def _result(document: Schema, *, is_error: bool) -> Schema:
    written = orjson.dumps(document)
    # Many clients show their model the text alone.
    result = {"content": [{"type": "text", "text": written.decode()}], "isError": is_error}
    return result if is_error else {**result, "structuredContent": orjson.Fragment(written)}
