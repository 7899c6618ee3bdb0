"""One log record of OTLP -> one raw row, in the form that `rows.read_row` takes.

    resource attributes    metadata.resource; `project` is the row's project
    scope                  metadata.scope: name, version, attributes
    attributes             metadata.attributes
    body                   the event message: text as it is, anything else as JSON text; a structure also metadata.body
    event name             metadata.event_name; the event message of a record without a body
    severity, trace, span  metadata.severity_number, severity_text, trace_id, span_id (hexadecimal), flags
    time                   the timestamp; without it the observed time

Names with dots become objects, as in every row: `stored_form` says how. Pure: no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from logsources.json_batches import VALUES_PER_ROW, TooManyRows
from logsources.rows import with_replacements
from logsources.stored_form import StoredMetadata, expand_names, stored

PROJECT_ATTRIBUTE: Final = "project"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_END_OF_TIME: Final = 2**64  # fixed64, nanoseconds
# What the records of a request share is stored with each of them.
MAX_SHARED_BYTES: Final = 64 * 1024 * 1024


class BadOTLP(Exception):
    """A body or a record that is not OTLP; `reason` says why without quoting it."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Allowance:
    """What the records of one request may still have, before it is built; each method raises TooManyRows."""

    def __init__(self, max_rows: int) -> None:
        self._max_rows = self._rows = max_rows
        self._max_values = self._values = max_rows * VALUES_PER_ROW
        self._shared_bytes = MAX_SHARED_BYTES

    def take_row(self, origin: Origin) -> None:
        """Count a record, and what it shares with others."""
        self._rows -= 1
        self._shared_bytes -= origin.size
        if self._rows < 0:
            raise TooManyRows(self._max_rows, "rows")
        if self._shared_bytes < 0:
            raise TooManyRows(MAX_SHARED_BYTES, "bytes of resource and scope, which are stored with each record")

    def take_values(self, count: int) -> None:
        """Count values that are about to be built."""
        self._values -= count
        if self._values < 0:
            raise TooManyRows(self._max_values, "values")


@dataclass(frozen=True, slots=True)
class Origin:
    """What the records of one scope share: resource and scope as stored metadata, or what is wrong with them."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    project: object = None
    size: int = 0  # bytes of the metadata
    fault: BadOTLP | None = None


@dataclass(slots=True)
class LogRecord:
    """One record with its values as Python has them; times in nanoseconds, 0 if they are not known."""

    time: int = 0
    observed_time: int = 0
    body: Any = None
    attributes: dict[str, Any] = field(default_factory=dict)  # each value as `stored` returns it
    severity_number: int = 0
    severity_text: str = ""
    trace_id: str = ""
    span_id: str = ""
    flags: int = 0
    event_name: str = ""
    dropped_attributes_count: int = 0


def origin_of(
    resource: dict[str, Any], *, name: str = "", version: str = "", attributes: dict[str, Any] | None = None
) -> Origin:
    """Return what the records share, from the attributes of the resource and from the scope, which it takes over."""
    metadata: dict[str, Any] = {}
    project = resource.get(PROJECT_ATTRIBUTE)
    expand_names(filter(None, (resource, attributes)))
    if resource:
        metadata["resource"] = [resource]
    scope: dict[str, Any] = {}
    if name:
        scope["name"] = name
    if version:
        scope["version"] = version
    if attributes:
        scope["attributes"] = [attributes]
    if scope:
        metadata["scope"] = [scope]
    if project.__class__ is int:
        project = str(project)
    try:
        # Its records have it as it was sent: replacements are made, and counted, in each.
        return Origin(metadata, project, len(_dumped(metadata)))
    except TypeError as fault:  # of values that JSON cannot contain
        return Origin(fault=BadOTLP(f"resource or scope cannot be stored: {fault}"))


def _dumped(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # of half a surrogate pair, or of what is no JSON in any case
        return orjson.dumps(with_replacements(value))


def row_of(record: LogRecord, origin: Origin) -> dict[str, Any]:
    """Return the raw row of a record, whose attributes it takes over. Raises BadOTLP."""
    metadata = dict(origin.metadata)
    if record.attributes:
        expand_names((record.attributes,))
        metadata["attributes"] = [record.attributes]
    _put_facts(metadata, record)
    body = record.body
    if body.__class__ is str:
        message = body
    elif body is None:
        message = record.event_name
    else:
        try:
            message = _dumped(body).decode()
        except TypeError as fault:
            raise BadOTLP(f"the body cannot be stored: {fault}") from None
        if body.__class__ is dict or body.__class__ is list:
            metadata["body"] = stored(body)
    return {
        "event_message": message,
        "timestamp": _moment(record.time or record.observed_time),
        "project": origin.project,
        "metadata": StoredMetadata((metadata,)),
    }


def _put_facts(metadata: dict[str, Any], record: LogRecord) -> None:
    # One by one: this runs for each record, and a loop over the names takes twice as long.
    if record.severity_number:
        metadata["severity_number"] = record.severity_number
    if record.severity_text:
        metadata["severity_text"] = record.severity_text
    if record.trace_id.strip("0"):  # all zeros is no id
        metadata["trace_id"] = record.trace_id
    if record.span_id.strip("0"):
        metadata["span_id"] = record.span_id
    if record.flags:
        metadata["flags"] = record.flags
    if record.event_name:
        metadata["event_name"] = record.event_name
    if record.dropped_attributes_count:
        metadata["dropped_attributes_count"] = record.dropped_attributes_count


def _moment(nanoseconds: int) -> datetime | None:
    if not nanoseconds:
        return None
    if not 0 < nanoseconds < _END_OF_TIME:
        raise BadOTLP("the time is not a number of nanoseconds")
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)
