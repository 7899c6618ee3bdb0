"""Gateway rows as an exporter of OpenTelemetry sends them: one resource, one scope, and an attribute for each value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue


def request_of(rows: Sequence[Mapping[str, Any]]) -> ExportLogsServiceRequest:
    """Return rows with `timestamp`, `event_message` and `metadata` as one request."""
    request = ExportLogsServiceRequest()
    logs = request.resource_logs.add()
    for key, value in {"service.name": "gateway", "project": "acme"}.items():
        logs.resource.attributes.add(key=key).value.string_value = value
    scope = logs.scope_logs.add()
    scope.scope.name = "gateway"
    for row in rows:
        moment = int(datetime.fromisoformat(row["timestamp"]).timestamp() * 1_000_000) * 1_000
        record = scope.log_records.add(
            time_unix_nano=moment, observed_time_unix_nano=moment, severity_number=9, severity_text="INFO"
        )
        record.body.string_value = row["event_message"]
        record.trace_id, record.span_id = b"\x5b" * 16, b"\xee" * 8
        for key, value in _flat(row["metadata"]):
            _fill(record.attributes.add(key=key).value, value)
    return request


def as_json(request: ExportLogsServiceRequest) -> bytes:
    """Return the request as OTLP/JSON, which has other ids than protobuf's own JSON form."""
    document = MessageToDict(request, use_integers_for_enums=True)
    for logs in document["resourceLogs"]:
        for scope in logs["scopeLogs"]:
            for record in scope["logRecords"]:
                record |= {"traceId": "5b" * 16, "spanId": "ee" * 8}
    return orjson.dumps(document)


def _flat(members: Mapping[str, Any], outer: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in members.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{outer}{name}.")
        else:
            yield f"{outer}{name}", value


def _fill(value: AnyValue, given: object) -> None:
    if isinstance(given, bool):
        value.bool_value = given
    elif isinstance(given, int):
        value.int_value = given
    elif isinstance(given, float):
        value.double_value = given
    elif isinstance(given, str):
        value.string_value = given
    elif isinstance(given, list):
        for item in given:
            _fill(value.array_value.values.add(), item)
