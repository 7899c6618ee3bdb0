"""The part of the OpenAPI document about loading: rows at /api/logs, log records of OpenTelemetry at /v1/logs."""

from __future__ import annotations

from typing import Any, Final

from endpoints.api.logs import JSON_ROWS
from endpoints.api.otlp import JSON, PROTOBUF
from endpoints.api.replies import POSITION_HEADER

Schema = dict[str, Any]

_FAILURES: Final = {
    400: "The body cannot be read, rows cannot be stored, or no log source is named.",
    401: "No valid access token is sent.",
    403: "The access token may not load rows, or not into this log source.",
    404: "There is no such log source.",
    408: "The body arrived too slowly.",
    413: "The body has too many bytes, rows or values.",
    415: "Its content type or encoding is not accepted.",
    429: "The rate limit of the access token is reached.",
    500: "The service failed.",
    503: "Too many loads at once, or a database is away.",
}
_SENT_AGAIN: Final = (429, 503)
_RETRY_AFTER: Final = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}}

_ROW: Schema = {
    "type": "object",
    "description": "Other fields move into metadata.",
    "properties": {
        "event_message": {
            "type": "string",
            "description": "Required; without it, the first of message, msg, log and log_entry.",
        },
        "project": {"type": "string", "description": "Without it, the default of the access token or log source."},
        "id": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        "timestamp": {"oneOf": [{"type": "string", "format": "date-time"}, {"type": "number"}]},
        "metadata": {"oneOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}]},
    },
}
_BAD_ROW: Schema = {"type": "object", "properties": {"index": {"type": "integer"}, "reason": {"type": "string"}}}
_LOADED: Schema = {
    "type": "object",
    "required": ["source", "loaded", "already_there"],
    "properties": {
        "source": {"type": "string"},
        "loaded": {"type": "integer"},
        "already_there": {"type": "integer", "description": "Rows that an earlier load has stored."},
        "bad_rows": {"type": "integer", "description": "Rows that were left out."},
        "details": {"type": "array", "items": _BAD_ROW},
    },
}
_EXPORT_RESPONSE: Schema = {
    "type": "object",
    "properties": {
        "partialSuccess": {
            "type": "object",
            "properties": {"rejectedLogRecords": {"type": "string"}, "errorMessage": {"type": "string"}},
        }
    },
}
_STATUS: Schema = {"type": "object", "properties": {"code": {"type": "integer"}, "message": {"type": "string"}}}
_BYTES: Schema = {"type": "string", "format": "binary"}


def load_paths() -> Schema:
    """Return the path items of both addresses."""
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    loaded = {"type": "object", "properties": {"result": {"type": "array", "items": _LOADED}}}
    return {
        "/api/logs": {
            "post": {
                "operationId": "load_rows",
                "summary": "Load rows",
                "description": "Stores the rows of the body, all of them or none, and answers once they are on disk.",
                "tags": ["loading"],
                "parameters": [*_SOURCE, _BAD_ROWS, _IDEMPOTENCY_KEY, _ENCODING],
                "requestBody": {"required": True, "content": _row_forms()},
                "responses": _responses({"application/json": {"schema": loaded}}, error),
            }
        },
        "/v1/logs": {
            "post": {
                "operationId": "export_logs",
                "summary": "Load log records of OpenTelemetry (OTLP/HTTP)",
                "description": "Stores the log records of an ExportLogsServiceRequest, and answers once they are on "
                "disk. Records that cannot be stored are left out and counted.",
                "tags": ["loading"],
                "parameters": [*_SOURCE, _IDEMPOTENCY_KEY, _ENCODING],
                "requestBody": {"required": True, "content": _otlp_forms({"type": "object"})},
                "responses": _responses(_otlp_forms(_EXPORT_RESPONSE), _otlp_forms(_STATUS)),
            }
        },
    }


def _row_forms() -> Schema:
    rows = {"type": "array", "items": _ROW}
    document = {"oneOf": [rows, {"type": "object", "properties": {"batch": rows}}, _ROW]}
    as_json, *lines = JSON_ROWS.media_types
    return {as_json: {"schema": document}, **{each: {"schema": {"type": "string"}} for each in lines}}


def _otlp_forms(document: Schema) -> Schema:
    return {JSON: {"schema": document}, PROTOBUF: {"schema": _BYTES}}


def _responses(success: Schema, failure: Schema) -> Schema:
    position = {"description": "A position of the log that has the rows.", "schema": {"type": "string"}}
    responses: Schema = {
        "200": {"description": "Every row is on disk.", "headers": {POSITION_HEADER: position}, "content": success}
    }
    for status, description in _FAILURES.items():
        headers = {"headers": _RETRY_AFTER} if status in _SENT_AGAIN else {}
        responses[str(status)] = {"description": description, "content": failure, **headers}
    return responses


def _parameter(name: str, place: str, description: str, **schema: object) -> Schema:
    return {
        "name": name,
        "in": place,
        "required": False,
        "description": description,
        "schema": {"type": "string", **schema},
    }


_SOURCE: Final = (
    _parameter(
        "source", "query", "Name or UUID of the log source; an access token for exactly one log source needs none."
    ),
    _parameter("source_name", "query", "What producers call the log source; one of the two is sent."),
)
_BAD_ROWS: Final = _parameter(
    "bad_rows", "query", "Whether one bad row refuses all, or is left out and listed.", enum=["refuse", "skip"]
)
_IDEMPOTENCY_KEY: Final = _parameter(
    "Idempotency-Key", "header", "Distinguishes equal bodies that should both be stored.", maxLength=255
)
_ENCODING: Final = _parameter("Content-Encoding", "header", "How the body is compressed.", enum=["gzip", "identity"])
