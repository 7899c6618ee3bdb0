"""Log records from a protobuf body: `ExportLogsServiceRequest` of opentelemetry-proto.

Parsed as a whole, a body of two bytes a message would take thirty times its size. So the levels down to the records are
walked here over the bytes, and each record is parsed by itself, becomes a row and is forgotten.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from logsources.otlp.records import Allowance, BadOTLP, LogRecord, Origin, origin_of, row_of
from logsources.stored_form import stored

# A parsed message takes up to thirty times its bytes.
MAX_MESSAGE_BYTES: Final = 2 * 1024 * 1024
# Field numbers (opentelemetry/proto/logs/v1/logs.proto): the request's resource_logs, and in each level below what
# describes it and what it contains.
_DESCRIPTION, _CONTENT = 1, 2
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5  # wire types

Span = tuple[int, int]  # the beginning and the end of a message in the body


def read_rows(body: bytes, *, max_rows: int) -> Iterator[dict[str, Any] | BadOTLP]:
    """Yield the raw row of each record, or a BadOTLP in the place of one that cannot be read.

    Raises TooManyRows, and BadOTLP if the body is no request at all.
    """
    allowance = Allowance(max_rows)
    for resource_logs in _spans(body, (0, len(body)), _DESCRIPTION, allowance):
        resource = b"".join(body[a:b] for a, b in _spans(body, resource_logs, _DESCRIPTION, allowance))
        for scope_logs in _spans(body, resource_logs, _CONTENT, allowance):
            scope = b"".join(body[a:b] for a, b in _spans(body, scope_logs, _DESCRIPTION, allowance))
            origin = _origin(resource, scope, allowance)
            for begin, end in _spans(body, scope_logs, _CONTENT, allowance):
                allowance.take_row(origin)
                yield _row(body[begin:end], origin, allowance)


def _origin(resource: bytes, scope: bytes, allowance: Allowance) -> Origin:
    try:
        shared = _parsed(Resource, resource, "resource")
        library = _parsed(InstrumentationScope, scope, "scope")
        return origin_of(
            _attributes(shared.attributes, allowance),
            name=library.name,
            version=library.version,
            attributes=_attributes(library.attributes, allowance),
        )
    except BadOTLP as fault:
        return Origin(fault=fault)


def _row(encoded: bytes, origin: Origin, allowance: Allowance) -> dict[str, Any] | BadOTLP:
    if origin.fault is not None:
        return origin.fault
    try:
        sent = _parsed(logs_pb2.LogRecord, encoded, "record")
        record = LogRecord(
            time=sent.time_unix_nano,
            observed_time=sent.observed_time_unix_nano,
            body=_value(sent.body, allowance),
            attributes=_attributes(sent.attributes, allowance),
            severity_number=sent.severity_number,
            severity_text=sent.severity_text,
            trace_id=sent.trace_id.hex(),
            span_id=sent.span_id.hex(),
            flags=sent.flags,
            event_name=sent.event_name,
            dropped_attributes_count=sent.dropped_attributes_count,
        )
        return row_of(record, origin)
    except BadOTLP as fault:
        return fault


def _parsed(kind: Any, encoded: bytes, what: str) -> Any:
    if len(encoded) > MAX_MESSAGE_BYTES:
        raise BadOTLP(f"the {what} is larger than {MAX_MESSAGE_BYTES // 1024**2} MiB")
    try:
        return kind.FromString(encoded)
    except DecodeError:
        raise BadOTLP(f"the {what} is not protobuf, not UTF-8, or nested too deeply") from None


# --- Values -----------------------------------------------------------------------------------------------------------


def _attributes(sent: Any, allowance: Allowance) -> dict[str, Any]:
    allowance.take_values(len(sent))
    # A text that is not empty needs no question which of its fields an AnyValue has.
    return {pair.key: (value := pair.value).string_value or stored(_value(value, allowance)) for pair in sent}


def _value(sent: AnyValue, allowance: Allowance) -> Any:
    kind = sent.WhichOneof("value")
    if kind == "string_value":
        return sent.string_value
    if kind == "int_value":
        return sent.int_value
    if kind == "bool_value":
        return sent.bool_value
    if kind == "kvlist_value":
        members = sent.kvlist_value.values
        allowance.take_values(len(members))
        return {pair.key: _value(pair.value, allowance) for pair in members}
    if kind == "array_value":
        items = sent.array_value.values
        allowance.take_values(len(items))
        return [_value(item, allowance) for item in items]
    if kind == "double_value":
        number = sent.double_value
        return number if math.isfinite(number) else not_finite(number)
    if kind == "bytes_value":
        return b64encode(sent.bytes_value).decode()
    return None


def not_finite(number: float) -> str:
    """Return a number that JSON cannot express as protobuf's own JSON form writes it."""
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


# --- The bytes above the records --------------------------------------------------------------------------------------


def _spans(body: bytes, of: Span, number: int, allowance: Allowance) -> list[Span]:
    """Return where the messages with this field number are in a message. Raises BadOTLP if it is not protobuf.

    Protobuf encoding: a tag, which is `number << 3 | wire type`, then the value ("Message Structure").
    """
    at, end = of
    found: list[Span] = []
    while at < end:
        allowance.take_values(1)
        tag, at = _varint(body, at, end)
        kind = tag & 7
        if kind == _LENGTH:
            size, at = _varint(body, at, end)
            if size > end - at:
                raise BadOTLP("the body is cut short, or is not protobuf")
            if tag >> 3 == number:
                found.append((at, at + size))
            at += size
        elif kind == _VARINT:
            _, at = _varint(body, at, end)
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise BadOTLP("the body is not an ExportLogsServiceRequest")
    if at != end:
        raise BadOTLP("the body is cut short, or is not protobuf")
    return found


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 64:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise BadOTLP("the body is cut short, or is not protobuf")
