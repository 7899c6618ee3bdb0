"""Log records from a JSON body, by the rules of OTLP/JSON (OTLP specification, "JSON Protobuf Encoding").

Names are camelCase, ids hexadecimal, integers of 64 bits numbers or texts; null is an absent value, and unknown names
mean nothing.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import orjson

from logsources.json_batches import VALUES_PER_ROW, TooManyRows, holds_more_than
from logsources.ndjson import BYTE_ORDER_MARK, BadJSON, exact_decoder
from logsources.otlp.records import Allowance, BadOTLP, LogRecord, Origin, origin_of, row_of
from logsources.stored_form import stored

_BEGINNINGS: Final = (b",", b"[", b"{")
_BASE64_ID_CHARACTERS: Final = (12, 24)  # of 8 and 16 bytes
_MAX_INTEGER_CHARACTERS: Final = 20  # of 64 bits; Python refuses to read a number of thousands of digits


def read_rows(body: bytes, *, max_rows: int) -> Iterator[dict[str, Any] | BadOTLP]:
    """Yield the raw row of each record, or a BadOTLP in the place of one that cannot be read.

    Raises TooManyRows, and BadOTLP if the body is no request at all.
    """
    if holds_more_than(max_rows * VALUES_PER_ROW, _BEGINNINGS, body):
        raise TooManyRows(max_rows * VALUES_PER_ROW, "values")
    request = _object(_document(body.removeprefix(BYTE_ORDER_MARK)), "the body")
    # Of traces or metrics, or with other names: nothing would be kept.
    if request and "resourceLogs" not in request:
        raise BadOTLP("the body has no resourceLogs")
    allowance = Allowance(max_rows)
    for resource_logs in _members(request, "resourceLogs"):
        for scope_logs in _members(resource_logs, "scopeLogs"):
            origin = _origin(resource_logs.get("resource"), scope_logs.get("scope"))
            for sent in _items(scope_logs.get("logRecords"), "logRecords"):
                allowance.take_row(origin)
                yield _row(sent, origin)


def _document(text: bytes) -> Any:
    with suppress(orjson.JSONDecodeError):
        return orjson.loads(text)
    # Halves of surrogate pairs, which orjson refuses, are the fault of one record.
    try:
        return exact_decoder().decode(text.decode())
    except UnicodeDecodeError as fault:
        raise BadOTLP(f"the body is not UTF-8 (byte {fault.start + 1})") from None
    except json.JSONDecodeError as fault:
        reason = fault.msg.rstrip(": ")
        raise BadOTLP(f"the body is not JSON: {reason} (line {fault.lineno}, column {fault.colno})") from None
    except BadJSON as fault:
        raise BadOTLP(fault.reason) from None
    except RecursionError:
        raise BadOTLP("the body is nested too deeply") from None


def _origin(resource: Any, scope: Any) -> Origin:
    try:
        library = _object(scope, "scope")
        return origin_of(
            _attributes(_object(resource, "resource").get("attributes")),
            name=_text(library, "name"),
            version=_text(library, "version"),
            attributes=_attributes(library.get("attributes")),
        )
    except BadOTLP as fault:
        return Origin(fault=fault)
    except RecursionError:
        return Origin(fault=BadOTLP("resource or scope is nested too deeply"))


def _row(sent: Any, origin: Origin) -> dict[str, Any] | BadOTLP:
    if origin.fault is not None:
        return origin.fault
    try:
        record = _object(sent, "a log record")
        return row_of(
            LogRecord(
                time=_integer(record, "timeUnixNano"),
                observed_time=_integer(record, "observedTimeUnixNano"),
                body=_value(record.get("body")),
                attributes=_attributes(record.get("attributes")),
                severity_number=_integer(record, "severityNumber"),
                severity_text=_text(record, "severityText"),
                trace_id=_id(record, "traceId"),
                span_id=_id(record, "spanId"),
                flags=_integer(record, "flags"),
                event_name=_text(record, "eventName"),
                dropped_attributes_count=_integer(record, "droppedAttributesCount"),
            ),
            origin,
        )
    except BadOTLP as fault:
        return fault
    except RecursionError:
        return BadOTLP("the record is nested too deeply")


# --- Values -----------------------------------------------------------------------------------------------------------


def _attributes(sent: Any) -> dict[str, Any]:
    """Return attributes by name, each value in stored form."""
    found: dict[str, Any] = {}
    for pair in _items(sent, "attributes"):
        value = pair.get("value") if pair.__class__ is dict else None
        text = value.get("stringValue") if value.__class__ is dict else None
        found[_key(pair)] = text if text.__class__ is str else stored(_value(value))
    return found


def _key(pair: Any) -> str:
    key = pair.get("key") if pair.__class__ is dict else None
    if key.__class__ is not str:
        raise BadOTLP("an attribute must be an object with a key")
    return str(key)


def _value(sent: Any) -> Any:
    """Return the value of an AnyValue, which is an object with one member."""
    if sent is None:
        return None
    if sent.__class__ is not dict:
        raise BadOTLP("a value must be an object, such as {stringValue: …}")
    for kind, value in sent.items():
        read = _READERS.get(kind)
        if read is not None and value is not None:
            return read(value)
    return None


def _string(value: Any) -> str:
    if value.__class__ is str:
        return str(value)
    raise BadOTLP("a text value is not text")


def _boolean(value: Any) -> bool:
    if value.__class__ is bool:
        return bool(value)
    raise BadOTLP("boolValue is not true or false")


def _double(value: Any) -> Any:
    if value.__class__ in (int, float) or value in ("NaN", "Infinity", "-Infinity"):
        return value
    try:
        number = float(_string(value))
    except ValueError:
        raise BadOTLP("doubleValue is not a number") from None
    if not math.isfinite(number):
        raise BadOTLP("doubleValue is not a number")
    return number


def _whole(value: Any) -> int:
    if value.__class__ is int:
        return int(value)
    if value.__class__ is float and value.is_integer() and abs(value) < 2**64:
        return int(value)
    if value.__class__ is str and len(value) <= _MAX_INTEGER_CHARACTERS:
        try:
            return int(value)
        except ValueError:
            pass
    raise BadOTLP("a whole number is expected")


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "stringValue": _string,
    "intValue": _whole,
    "boolValue": _boolean,
    "doubleValue": _double,
    "bytesValue": _string,  # base64, as it is stored
    "arrayValue": lambda value: [_value(item) for item in _items(_object(value, "arrayValue").get("values"), "values")],
    "kvlistValue": lambda value: {
        _key(pair): _value(pair.get("value")) for pair in _items(_object(value, "kvlistValue").get("values"), "values")
    },
}


# --- The structure ----------------------------------------------------------------------------------------------------


def _object(value: Any, what: str) -> dict[str, Any]:
    if value is None:
        return {}
    if value.__class__ is not dict:
        raise BadOTLP(f"{what} must be an object")
    found: dict[str, Any] = value
    return found


def _items(value: Any, what: str) -> list[Any]:
    if value is None:
        return []
    if value.__class__ is not list:
        raise BadOTLP(f"{what} must be an array")
    found: list[Any] = value
    return found


def _members(of: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [_object(item, f"each item of {name}") for item in _items(of.get(name), name)]


def _text(of: dict[str, Any], name: str) -> str:
    value = of.get(name)
    if value is None:
        return ""
    if value.__class__ is not str:
        raise BadOTLP(f"{name} must be text")
    return str(value)


def _id(of: dict[str, Any], name: str) -> str:
    text = _text(of, name)
    if len(text) in _BASE64_ID_CHARACTERS:  # as other protobuf messages have bytes in JSON
        with suppress(binascii.Error):
            return base64.b64decode(text, validate=True).hex()
    return text.lower()


def _integer(of: dict[str, Any], name: str) -> int:
    value = of.get(name)
    if value is None or value == "":
        return 0
    try:
        return _whole(value)
    except BadOTLP:
        raise BadOTLP(f"{name} must be a whole number") from None
