"""POST /v1/logs: log records of OpenTelemetry's exporters, by OTLP/HTTP (OTLP specification 1.9, "OTLP/HTTP").

The answer has the content type of the request. A failure is a google.rpc.Status; exporters send a body again after 429
and 503, and after nothing else.
"""

from __future__ import annotations

from typing import Final

import orjson
from django.http import HttpRequest, HttpResponse
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

from config import logs
from endpoints.api.load_requests import METHODS, LoadForm, load
from endpoints.api.views import AnsweringView
from endpoints.calling.loading import LoadedRows
from endpoints.errors import EndpointError
from logsources.otlp import json_form, protobuf

JSON: Final = "application/json"
PROTOBUF: Final = "application/x-protobuf"
_MEDIA_TYPES: Final = (PROTOBUF, JSON)
_PROTOBUF_RECORDS: Final = LoadForm(protobuf.read_rows, _MEDIA_TYPES, leaves_bad_rows_out=True)
_JSON_RECORDS: Final = LoadForm(json_form.read_rows, _MEDIA_TYPES, leaves_bad_rows_out=True)
# google.rpc.Code, by the HTTP status for which it stands (google/rpc/code.proto).
_CODES: Final = {400: 3, 401: 16, 403: 7, 404: 5, 405: 12, 408: 4, 413: 8, 415: 3, 429: 8, 431: 8, 503: 14}
_INTERNAL: Final = 13
_MOST_REASONS: Final = 3


class OTLPView(AnsweringView):
    """Store the log records of the body, and answer once they are on disk."""

    def answer(self, request: HttpRequest, **of_route: str) -> HttpResponse:
        if request.method == "OPTIONS":
            return HttpResponse(status=204, headers={"Allow": ", ".join(METHODS)})
        media_type = PROTOBUF if (request.content_type or "").lower() == PROTOBUF else JSON
        try:
            loaded = load(request, _PROTOBUF_RECORDS if media_type == PROTOBUF else _JSON_RECORDS)
        except EndpointError as error:
            logs.bind(error=error.code)
            return _failure(error, media_type)
        return _success(loaded, media_type)


def _success(loaded: LoadedRows, media_type: str) -> HttpResponse:
    response = ExportLogsServiceResponse()
    document = {}
    message = _remarks(loaded)
    if message:
        response.partial_success.rejected_log_records = loaded.bad_rows
        response.partial_success.error_message = message
        # Protobuf's JSON form writes integers of 64 bits as texts.
        document = {"partialSuccess": {"rejectedLogRecords": str(loaded.bad_rows), "errorMessage": message}}
    return HttpResponse(
        response.SerializeToString() if media_type == PROTOBUF else orjson.dumps(document),
        content_type=media_type,
        headers={"Cache-Control": "no-store"},
    )


def _remarks(loaded: LoadedRows) -> str:
    """Return why records were left out, the first few by their index in the request, and whose time was made up.

    Without a value of theirs. With nothing left out it is a warning, as OTLP has it.
    """
    remarks = [f"record {bad.index}: {bad.reason}" for bad in loaded.listed_bad_rows[:_MOST_REASONS]]
    more = loaded.bad_rows - len(remarks)
    if more:
        remarks.append(f"and {more} more")
    if loaded.without_timestamp:
        remarks.append(f"records without a time, stored with that of their arrival: {loaded.without_timestamp}")
    if loaded.with_replacements:
        remarks.append(f"records with U+FFFD in place of what text cannot hold: {loaded.with_replacements}")
    return "; ".join(remarks)


def _failure(error: EndpointError, media_type: str) -> HttpResponse:
    code = _CODES.get(error.status, _INTERNAL)
    if media_type == PROTOBUF:
        body = _status(code, error.message.encode())
    else:
        body = orjson.dumps({"code": code, "message": error.message})
    return HttpResponse(
        body, status=error.status, content_type=media_type, headers={"Cache-Control": "no-store", **error.headers}
    )


def _status(code: int, message: bytes) -> bytes:
    """Return a google.rpc.Status: field 1 is the code, 2 the message; its package would be needed for nothing else."""
    length = bytearray()
    rest = len(message)
    while rest > 0x7F:
        length.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([1 << 3, code, 2 << 3 | 2, *length, rest]) + message
