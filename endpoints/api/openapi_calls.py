"""The part of the OpenAPI document that is the same for calls of every endpoint: headers, answers, cancelling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.conf import settings

from endpoints.api.middleware import REQUEST_ID
from endpoints.api.negotiation import FORMAT
from endpoints.api.openapi_parts import failures, headers, parameter, result_of
from endpoints.api.schemas import Schema, reference
from endpoints.results.encoding import BINARY_FORMATS, STREAMED_FORMATS, offered_formats
from endpoints.results.outcomes import ResultFormat

_CALL_FAILURES: Final = (400, 401, 403, 404, 406, 408, 409, 413, 415, 429, 431, 500, 503, 504)
_CANCEL_FAILURES: Final = (401, 404, 429, 431, 500, 503)
_RESULT_HEADERS: Final = (
    "X-Request-ID", "ETag", "Cache-Control", "Age", "X-Cache", "X-Result-Rows", "X-Result-Truncated",
    "X-Ignored-Arguments", "Content-Disposition", "Server-Timing",
)  # fmt: skip
_NOT_MODIFIED_HEADERS: Final = ("X-Request-ID", "ETag", "Cache-Control", "Age", "X-Cache", "X-Ignored-Arguments")
_REQUEST_ID_SCHEMA: Final[Schema] = {"type": "string", "pattern": f"^{REQUEST_ID.pattern}$"}
_REQUEST_ID: Final = parameter(
    "X-Request-ID",
    "header",
    "The caller's own id of this call, in the log and in the answer; without it the service makes one.",
    **_REQUEST_ID_SCHEMA,
)
_CACHE_CONTROL: Final = parameter(
    "Cache-Control",
    "header",
    "no-cache: every row that was stored before this call is in its answer, which comes from the primary, past the "
    "cache. No other directive counts.",
)
_BINARY: Final[Mapping[ResultFormat, str]] = {
    ResultFormat.PARQUET: "A Parquet file: the rows as columns with types.",
    ResultFormat.ARROW: "An Arrow IPC stream: the rows as columns with types.",
}
_ENDS: Final[Mapping[ResultFormat, str]] = {
    ResultFormat.CSV: '`# {"end": {…}}`',
    ResultFormat.NDJSON: '`{"end": {…}}`',
}


def call_headers() -> list[Schema]:
    """Return the headers that every call may send, besides If-None-Match."""
    redaction = parameter(
        f"{settings.ENDPOINTS_HEADER_PREFIX}-ENDPOINT-REDACT-PII",
        "header",
        "true redacts IP and e-mail addresses in this answer.",
        type="boolean",
    )
    return [redaction, _CACHE_CONTROL, _REQUEST_ID]


def format_parameter() -> Schema:
    """Return the parameter that names a format, for who cannot send Accept."""
    description = "The format, in place of Accept; the answer then is a file: Content-Disposition."
    return parameter(FORMAT, "query", description) | {"schema": reference("ResultFormat")}


def answers(rows: str, *more_headers: str, stream_rows: int) -> Schema:
    """Return every answer to a call whose JSON is the schema `rows`; up to `stream_rows` stream, 0 is no streams."""
    success = {
        "description": "The rows.",
        "headers": headers(*_RESULT_HEADERS, *more_headers),
        "content": {each.value: {"schema": _document(each, rows, stream_rows)} for each in offered_formats()},
    }
    return {"200": success, **failures(*_CALL_FAILURES)}


def not_modified(*more_headers: str) -> Schema:
    """Return the answer to a GET whose result the client has already."""
    description = "The result is the one that If-None-Match names; there is no body."
    return {"304": {"description": description, "headers": headers(*_NOT_MODIFIED_HEADERS, *more_headers)}}


def _document(result_format: ResultFormat, rows: str, stream_rows: int) -> Schema:
    if result_format is ResultFormat.JSON:
        return reference(rows)
    if result_format in BINARY_FORMATS:
        return {"type": "string", "format": "binary", "description": _BINARY[result_format]}
    if stream_rows and result_format in STREAMED_FORMATS:
        return {"type": "string", "description": _stream(result_format, stream_rows)}
    return {"type": "string"}


def _stream(result_format: ResultFormat, stream_rows: int) -> str:
    return (
        f"A stream of up to {stream_rows} rows, sent while they arrive. Its last line says how it ended: "
        f"{_ENDS[result_format]} with `rows`, `truncated` and the `request_id` of the header X-Request-ID; after a "
        "failure it is the error body. Without the line of its end a stream is incomplete. It has no ETag, "
        "X-Result-Rows or X-Result-Truncated."
    )


# --- Cancelling -------------------------------------------------------------------------------------------------------
def cancel_paths() -> Schema:
    """Return the path item of calls that run."""
    cancelled = {
        "description": "The calls are cancelled: each gets a 409.",
        "headers": headers("X-Request-ID"),
        "content": {ResultFormat.JSON.value: {"schema": reference("CancelledResult")}},
    }
    return {
        "/api/calls/{request_id}": {
            "delete": {
                "operationId": "cancel_call",
                "summary": "Cancel a call",
                "description": "Cancels the calls with this request id that run with the same access token; "
                "PostgreSQL stops their queries, unless others wait for the same result.",
                "tags": ["calls"],
                "parameters": [
                    {
                        "name": "request_id",
                        "in": "path",
                        "required": True,
                        "description": "The X-Request-ID of the call.",
                        "schema": _REQUEST_ID_SCHEMA,
                    }
                ],
                "responses": {"200": cancelled, **failures(*_CANCEL_FAILURES)},
            }
        }
    }


def call_components() -> Schema:
    """Return the schemas to which operations of every endpoint refer."""
    row = {
        "type": "object",
        "description": "The columns of the sandbox query, in its order; each value may be null.",
        "additionalProperties": True,
    }
    following = {"type": "string", "description": "Only of a tail: the page token of the next page."}
    purged = {
        "type": "object",
        "required": ["endpoint", "removed"],
        "properties": {"endpoint": {"type": "string"}, "removed": {"type": "integer", "minimum": 0}},
    }
    cancelled = {
        "type": "object",
        "required": ["request_id", "cancelled"],
        "properties": {"request_id": {"type": "string"}, "cancelled": {"type": "boolean"}},
    }
    return {
        "ResultFormat": {"type": "string", "enum": [each.short_name for each in offered_formats()]},
        "SandboxRow": row,
        "SandboxRows": result_of(reference("SandboxRow"), next=following),
        "Purged": purged,
        "PurgedResult": result_of(reference("Purged")),
        "Cancelled": cancelled,
        "CancelledResult": result_of(reference("Cancelled")),
    }
