"""One log record of OTLP -> one raw row, in the form that `rows.read_row` takes.

    resource attributes    metadata.resource; `project` is the row's project
    scope                  metadata.scope: name, version, attributes
    attributes             metadata.attributes
    body                   the event message: text as it is, anything else as JSON text; a structure also metadata.body
    event name             metadata.event_name; the event message of a record without a body
    severity, trace, span  metadata.severity_number, severity_text, trace_id, span_id (hexadecimal), flags
    time                   the timestamp; without it the observed time

Names with dots become objects, `service.name` -> `{"service": {"name": …}}`, because paths into metadata are written
with dots. Pure: no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import orjson

from logsources.json_batches import VALUES_PER_ROW, TooManyRows

PROJECT_ATTRIBUTE: Final = "project"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_END_OF_TIME: Final = 2**64  # fixed64, nanoseconds
# Names of attributes have up to five parts; one of a thousand parts would become a thousand objects.
_MAX_PARTS: Final = 8
_MAX_DOTTED_CHARACTERS: Final = 200
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
    """What the records of one scope share: resource and scope as metadata, or what is wrong with them."""

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
    attributes: Mapping[str, Any] = field(default_factory=dict)
    severity_number: int = 0
    severity_text: str = ""
    trace_id: str = ""
    span_id: str = ""
    flags: int = 0
    event_name: str = ""
    dropped_attributes_count: int = 0


def origin_of(
    resource: Mapping[str, Any], *, name: str = "", version: str = "", attributes: Mapping[str, Any] | None = None
) -> Origin:
    """Return what the records share, from the attributes of the resource and from the scope."""
    metadata: dict[str, Any] = {}
    if resource:
        metadata["resource"] = nested(resource)
    scope: dict[str, Any] = {}
    if name:
        scope["name"] = name
    if version:
        scope["version"] = version
    if attributes:
        scope["attributes"] = nested(attributes)
    if scope:
        metadata["scope"] = scope
    project = resource.get(PROJECT_ATTRIBUTE)
    if project.__class__ is int:
        project = str(project)
    try:
        return Origin(metadata, project, len(orjson.dumps(metadata)))
    except TypeError as fault:  # of values that JSON cannot contain, such as lone surrogates
        return Origin(fault=BadOTLP(f"resource or scope cannot be stored: {fault}"))


def row_of(record: LogRecord, origin: Origin) -> dict[str, Any]:
    """Return the raw row of a record. Raises BadOTLP."""
    metadata = dict(origin.metadata)
    if record.attributes:
        metadata["attributes"] = nested(record.attributes)
    for name in (
        "severity_number", "severity_text", "trace_id", "span_id", "flags", "event_name", "dropped_attributes_count",
    ):  # fmt: skip
        if value := getattr(record, name):
            metadata[name] = value
    body = record.body
    if body.__class__ is str:
        message = body
    elif body is None:
        message = record.event_name
    else:
        try:
            message = orjson.dumps(body).decode()
        except TypeError as fault:
            raise BadOTLP(f"the body cannot be stored: {fault}") from None
        if body.__class__ in (dict, list):
            metadata["body"] = body
    return {
        "event_message": message,
        "timestamp": _moment(record.time or record.observed_time),
        "project": origin.project,
        "metadata": metadata,
    }


def _moment(nanoseconds: int) -> datetime | None:
    if not nanoseconds:
        return None
    if not 0 < nanoseconds < _END_OF_TIME:
        raise BadOTLP("the time is not a number of nanoseconds")
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)


# --- Names with dots --------------------------------------------------------------------------------------------------


def nested(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes with objects for names with dots.

    A name whose place is taken keeps its dots: `a` and `a.b` -> `{"a": …, "a.b": …}`.
    """
    found = {name: value for name, value in attributes.items() if "." not in name}
    if len(found) == len(attributes):
        return found
    objects: dict[str, dict[str, Any] | None] = {"": found}  # by the names on the way; None where a value is
    for name, value in attributes.items():
        if "." not in name:
            continue
        outer, last = _split(name) if len(name) <= _MAX_DOTTED_CHARACTERS else ("", name)
        place = objects[outer] if outer in objects else _object_at(objects, outer)
        if place is None or last in place:
            found[name] = value
        else:
            place[last] = value
    return found


def _object_at(objects: dict[str, dict[str, Any] | None], path: str) -> dict[str, Any] | None:
    """Return the object for a path, a new one if it is missing; None if a value is in its place or on the way."""
    outer, _, last = path.rpartition(".")
    place = objects[outer] if outer in objects else _object_at(objects, outer)
    inner: dict[str, Any] | None = None
    if place is not None and last not in place:
        inner = place[last] = {}
    objects[path] = inner
    return inner


@lru_cache(maxsize=2048)
def _split(name: str) -> tuple[str, str]:
    """Return the path of the object that a name belongs into, and its name there."""
    parts = name.split(".")
    if not all(parts) or len(parts) > _MAX_PARTS:
        return "", name
    return ".".join(parts[:-1]), parts[-1]
