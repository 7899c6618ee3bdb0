"""What a call becomes in the audit log: a row, and a part of the sums of its minute and hour. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import add
from typing import Any, Final

import orjson

from endpoints.auditing.call_queue import VALUE_CHARACTERS, CountedRefusals, NotedCall, as_text
from endpoints.cache.usage.recent_calls import BUCKETS, RecentCall, bucket_of
from endpoints.definition import Version
from endpoints.results.redaction import redact_text

FAILED_CLASS: Final = 400
NO_ENDPOINT: Final = "00000000-0000-0000-0000-000000000000"
_MINUTE: Final = 60
_HOUR: Final = 3600
_Key = tuple[int, str, str]  # start in seconds since 1970, endpoint, prefix of the access token
_OF_LOG_SOURCES: Final = frozenset(("explorer", "load"))
COLUMNS: Final = (
    "at", "request_id", "kind", "endpoint_id", "endpoint", "version", "caller", "prefix", "argument_names",
    "argument_values", "cache", "status", "error_code", "result_rows", "milliseconds", "calls",
    "reason",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """A call, or several refused ones with one reason, as the audit log has it."""

    call: RecentCall
    endpoint: Version | None
    request_id: str
    kind: str
    names: list[str]
    values: dict[str, str] | None
    calls: int = 1

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.call.at, UTC)

    def copy_line(self) -> str:
        """Return its line of COPY, in PostgreSQL's text format: by psycopg it takes five times as long."""
        call, endpoint = self.call, self.endpoint
        pk, name = (_NULL, "") if endpoint is None else (endpoint.pk.hex, endpoint.name)
        values = _NULL if self.values is None else _escaped(orjson.dumps(self.values).decode())
        return (
            f"{self.at.isoformat()}\t{_escaped(self.request_id)}\t{self.kind}\t{pk}\t{_escaped(name)}\t{call.version}"
            f"\t{_escaped(call.access_token)}\t{call.access_token_prefix}\t{_escaped(_array(self.names))}\t{values}"
            f"\t{call.cache}\t{call.status}\t{call.error_code}\t{call.rows}\t{call.milliseconds!r}\t{self.calls}"
            f"\t{_escaped(call.reason)}\n"
        )


_NULL: Final = r"\N"
# PostgreSQL, "COPY", File Formats, Text Format: what would end a value or a line, and the character that escapes them.
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def _array(names: Iterable[str]) -> str:
    quoted = (name.replace("\\", r"\\").replace('"', r"\"") for name in names)
    return "{" + ",".join(f'"{name}"' for name in quoted) + "}"


@dataclass(slots=True)
class _Sum:
    """The calls of a minute or an hour with one endpoint and access token."""

    calls: int = 0
    refused: int = 0
    failed: int = 0
    cached: int = 0
    durations: list[int] = field(default_factory=lambda: [0] * BUCKETS)

    def add(self, entry: Entry) -> None:
        self.calls += entry.calls
        if entry.call.status >= 500:
            self.failed += entry.calls
        elif entry.call.status >= FAILED_CLASS:
            self.refused += entry.calls
            return
        elif entry.call.cache in ("hit", "stale"):
            self.cached += entry.calls
        self.durations[bucket_of(entry.call.milliseconds)] += entry.calls

    def add_sum(self, other: _Sum) -> None:
        self.calls += other.calls
        self.refused += other.refused
        self.failed += other.failed
        self.cached += other.cached
        self.durations = list(map(add, self.durations, other.durations))


# --- What a call becomes ----------------------------------------------------------------------------------------------
def entry_of(noted: NotedCall) -> Entry:
    call, endpoint, request_id, kind, arguments, is_redacted = noted
    if endpoint is None:
        if kind not in _OF_LOG_SOURCES:  # nothing is known of what was sent
            return Entry(call, None, request_id, kind, [], None)
        source = {name: as_text(value) for name, value in arguments.items() if name == "source" and value}
        return Entry(call, None, request_id, kind, sorted(arguments), source or None)
    # What is not declared is ignored by the call, and may be anything.
    names = sorted(parameter.name for parameter in endpoint.parameters if parameter.name in arguments)
    if not endpoint.record_argument_values:
        return Entry(call, endpoint, request_id, kind, names, None)
    hide = redact_text if is_redacted or endpoint.redact_pii else str
    values = {name: _short(hide(as_text(arguments[name]))) for name in names}
    return Entry(call, endpoint, request_id, kind, names, values)


def _short(text: str) -> str:
    return text if len(text) <= VALUE_CHARACTERS else f"{text[:VALUE_CHARACTERS]}…"


def entry_of_refusals(counted: CountedRefusals) -> Entry:
    return Entry(counted.call, counted.endpoint, "", counted.kind, [], None, counted.calls)


# --- Sums -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Sums:
    """The sums of some calls, as rows in one order, so that two processes never wait for each other."""

    minutes: list[list[Any]]
    hours: list[list[Any]]


def sums_of(entries: Iterable[Entry]) -> Sums:
    minutes: dict[_Key, _Sum] = {}
    for entry in entries:
        endpoint = NO_ENDPOINT if entry.endpoint is None else str(entry.endpoint.pk)
        key = (int(entry.call.at) // _MINUTE * _MINUTE, endpoint, entry.call.access_token_prefix)
        minutes.setdefault(key, _Sum()).add(entry)
    hours: dict[_Key, _Sum] = {}
    for (start, endpoint, prefix), one in minutes.items():
        hours.setdefault((start // _HOUR * _HOUR, endpoint, prefix), _Sum()).add_sum(one)
    return Sums(minutes=_rows(minutes), hours=_rows(hours))


def _rows(sums: dict[_Key, _Sum]) -> list[list[Any]]:
    return [
        [
            datetime.fromtimestamp(start, UTC),
            endpoint,
            prefix,
            one.calls,
            one.refused,
            one.failed,
            one.cached,
            one.durations,
        ]
        for (start, endpoint, prefix), one in sorted(sums.items())
    ]
