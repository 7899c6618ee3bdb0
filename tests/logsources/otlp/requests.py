"""The same requests of OTLP in both forms, for tests: written once, as OTLP/JSON."""

from __future__ import annotations

import copy
import json
from base64 import b64encode
from typing import Any

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

RESOURCE = {
    "attributes": [
        {"key": "project", "value": {"stringValue": "acme"}},
        {"key": "service.name", "value": {"stringValue": "shop"}},
    ]
}
NANOSECONDS = 1_764_000_000_123_456_789


def record(body: object = "a line", **fields: object) -> dict[str, Any]:
    """Return a log record; a text is the whole body."""
    value = {"stringValue": body} if isinstance(body, str) else body
    return {"timeUnixNano": str(NANOSECONDS), "body": value, **fields}


def request(*records: object, resource: object = RESOURCE, scope: object = None) -> dict[str, Any]:
    return {"resourceLogs": [{"resource": resource, "scopeLogs": [{"scope": scope, "logRecords": list(records)}]}]}


def as_json(document: object) -> bytes:
    return json.dumps(document).encode()


def as_protobuf(document: dict[str, Any]) -> bytes:
    """Return a request as protobuf; protobuf's own JSON form, which is read here, has ids in base64."""
    document = copy.deepcopy(document)
    for resource_logs in document["resourceLogs"]:
        for scope_logs in resource_logs["scopeLogs"]:
            for each in scope_logs["logRecords"]:
                for name in {"traceId", "spanId"} & each.keys():
                    each[name] = b64encode(bytes.fromhex(each[name])).decode()
    return ParseDict(document, ExportLogsServiceRequest()).SerializeToString()
