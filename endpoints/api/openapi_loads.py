"""The part of the OpenAPI document about loading: rows at /api/logs, log records of OpenTelemetry at /v1/logs."""

from __future__ import annotations

from typing import Final

from endpoints.api.bodies import ENCODINGS
from endpoints.api.logs import JSON_ROWS
from endpoints.api.openapi_parts import failure_headers, failure_text, failures, headers, parameter
from endpoints.api.otlp import JSON, PROTOBUF
from endpoints.api.schemas import Schema, reference

_FAILURES: Final = (400, 401, 403, 404, 408, 413, 415, 429, 431, 500, 503)
_SOURCE: Final = (
    parameter(
        "source", "query", "Name or UUID of the log source; an access token for exactly one log source needs none."
    ),
    parameter("source_name", "query", "What producers call the log source; one of the two is sent."),
)
_BAD_ROWS: Final = parameter(
    "bad_rows", "query", "Whether one bad row refuses all, or is left out and listed.", enum=["refuse", "skip"]
)
_IDEMPOTENCY_KEY: Final = parameter(
    "Idempotency-Key", "header", "Distinguishes equal bodies that should both be stored.", maxLength=255
)
_ENCODING: Final = parameter("Content-Encoding", "header", "How the body is compressed.", enum=[*ENCODINGS, "identity"])
_BYTES: Final[Schema] = {"type": "string", "format": "binary"}


def load_paths() -> Schema:
    """Return the path items of both addresses."""
    return {
        "/api/logs": {
            "post": {
                "operationId": "load_rows",
                "summary": "Load rows",
                "description": "Stores the rows of the body, all of them or none, and answers once they are on disk.",
                "tags": ["loading"],
                "parameters": [*_SOURCE, _BAD_ROWS, _IDEMPOTENCY_KEY, _ENCODING],
                "requestBody": {"required": True, "content": _row_forms()},
                "responses": {
                    "200": _stored({"application/json": {"schema": reference("LoadResult")}}),
                    **failures(*_FAILURES),
                },
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
                "responses": {
                    "200": _stored(_otlp_forms(reference("ExportResult"))),
                    **{str(status): _status(status) for status in _FAILURES},
                },
            }
        },
    }


def load_components() -> Schema:
    """Return the schemas to which the operations of both addresses refer."""
    text, number = {"type": "string"}, {"type": "integer", "minimum": 0}
    fields = {"type": "object", "additionalProperties": True}
    partial = {"type": "object", "properties": {"rejectedLogRecords": text, "errorMessage": text}}
    return {
        "LogRecord": {
            "type": "object",
            "description": "A row to load. Other fields move into metadata.",
            "properties": {
                "event_message": text
                | {"description": "Required; without it, the first of message, msg, log and log_entry."},
                "project": text | {"description": "Without it, the default of the access token or log source."},
                "id": {"oneOf": [text, {"type": "integer"}]},
                "timestamp": {
                    "oneOf": [{"type": "string", "format": "date-time"}, {"type": "number"}],
                    "description": "Without it, the first of @timestamp, time, ts and date, else the time of arrival.",
                },
                "metadata": {"oneOf": [fields, {"type": "array", "items": fields}]},
            },
            "additionalProperties": True,
        },
        "LogBatch": {
            "type": "object",
            "required": ["batch"],
            "properties": {"batch": {"type": "array", "items": reference("LogRecord")}},
        },
        "LoadResult": {
            "type": "object",
            "required": ["result"],
            "properties": {"result": {"type": "array", "items": reference("Load")}},
        },
        "Load": {
            "type": "object",
            "required": ["source", "loaded", "already_there"],
            "properties": {
                "source": text,
                "loaded": number,
                "already_there": number | {"description": "Rows that an earlier load has stored."},
                "without_timestamp": number
                | {"description": "Rows of these that have no time, and got that of their arrival."},
                "with_replacements": number
                | {"description": "Rows in which U+FFFD stands for NUL or a lone surrogate."},
                "bad_rows": number | {"description": "Rows that were left out."},
                "details": {"type": "array", "items": reference("LoadProblem")},
            },
        },
        "LoadProblem": {
            "type": "object",
            "required": ["index", "reason"],
            "properties": {"index": number, "reason": text},
        },
        "ExportResult": {"type": "object", "properties": {"partialSuccess": partial}},
        "ExportFailure": {
            "type": "object",
            "description": "A google.rpc.Status.",
            "properties": {"code": {"type": "integer"}, "message": text},
        },
    }


def _row_forms() -> Schema:
    rows = {"type": "array", "items": reference("LogRecord")}
    as_json, *lines = JSON_ROWS.media_types
    document = {"oneOf": [rows, reference("LogBatch"), reference("LogRecord")]}
    return {as_json: {"schema": document}, **{each: {"schema": {"type": "string"}} for each in lines}}


def _otlp_forms(document: Schema) -> Schema:
    return {JSON: {"schema": document}, PROTOBUF: {"schema": _BYTES}}


def _stored(content: Schema) -> Schema:
    return {
        "description": "Every row is on disk.",
        "headers": headers("X-Request-ID"),
        "content": content,
    }


def _status(status: int) -> Schema:
    return {
        "description": failure_text(status),
        "headers": failure_headers(status),
        "content": _otlp_forms(reference("ExportFailure")),
    }
