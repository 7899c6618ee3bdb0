"""Rows for both engines: log tables of typed records, as the sandbox stores them and as GoogleSQL reads them.

Each value that a translation treats differently is in some row: a field that is absent, NULL or empty, a number below
zero or with a fraction, a text that is a number or JSON, letters outside ASCII, an array of none, one and more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from tests.fuzz.googlesql import Table, array_of, scalar, struct_of

Row = Mapping[str, Any]


def _row(table: str, number: int, timestamp: str, message: str, metadata: Any) -> Row:
    identifier = f"{'e' if table == 'edge_logs' else 'f'}0000000-0000-4000-8000-{number:012}"
    return {"table": table, "id": identifier, "timestamp": timestamp, "event_message": message, "metadata": metadata}


def _edge(method: str | None, path: str | None, status: int | None, time: int | None, **others: Any) -> dict[str, Any]:
    return {
        "request": {"method": method, "path": path, **others.pop("request", {})},
        "response": {"status_code": status, "origin_time": time, **others.pop("response", {})},
        **others,
    }


ROWS: Final[tuple[Row, ...]] = (
    _row("edge_logs", 1, "2025-06-02T08:15:02.000001Z", "GET | 200 | /rest/v1/orders",
         _edge("GET", "/rest/v1/orders", 200, 38, cached=True, tags=["a", "b", "a"], sizes=[3, 1, 2],
               request={"search": "?select=id", "host": "acme.example.com", "headers": {"user_agent": "Client/2.1"}},
               response={"ratio": 0.25})),
    _row("edge_logs", 2, "2025-06-02T08:15:40.500000Z", "POST | 201 | /rest/v1/orders",
         _edge("POST", "/rest/v1/orders", 201, 12, cached=False, tags=["b"], sizes=[7],
               request={"search": "", "host": "acme.example.com", "headers": {"user_agent": "curl/8.5"}},
               response={"ratio": 2.5})),
    _row("edge_logs", 3, "2025-06-02T09:16:05.000000Z", "GET | 404 | /auth/v1/user",
         _edge("GET", "/auth/v1/user", 404, None, cached=None, tags=[], sizes=[],
               request={"search": "?a=1&b=2", "host": "WWW.Example.com", "headers": {"user_agent": None}},
               response={"ratio": -1.5})),
    _row("edge_logs", 4, "2025-06-03T00:00:00.000000Z", '{"a": {"b": [1, "x"]}, "n": 5, "t": true}',
         _edge("PUT", "/storage/v1/object/ä ö.png", 503, 0, cached=True, tags=["x,y", "", "Z"], sizes=[0, -5],
               request={"search": None, "host": "acme.example.com"}, response={"ratio": 0.75})),
    _row("edge_logs", 5, "2024-12-31T23:59:59.999999Z", "  padded\ttext  ",
         _edge("get", "", 500, 1200, cached=False, response={"ratio": 100.125})),
    _row("edge_logs", 6, "2025-06-08T12:00:00.120000Z", "404", _edge(None, None, None, -7)),
    _row("edge_logs", 7, "2025-06-09T12:34:56.789000Z", "", _edge("DELETE", "/rest/v1/orders/5", 200, 38)),
    _row("edge_logs", 8, "2025-03-30T01:30:00.000000Z", "no record", None),
    _row("function_logs", 1, "2025-06-02T08:15:02.000001Z", "booted (time: 31ms)",
         {"level": "info", "event_type": "Boot", "function_id": "f1", "version": "4", "ms": 31, "ok": True}),
    _row("function_logs", 2, "2025-06-02T08:15:02.000001Z", "Error: boom\n  at main.ts:3",
         {"level": "error", "event_type": "UncaughtException", "function_id": "f1", "version": "4.5", "ms": 187}),
    _row("function_logs", 3, "2025-06-02T10:00:00.250000Z", "[1, 2.5, null, \"z\"]",
         {"level": None, "event_type": "Log", "function_id": "f2", "version": "n/a", "ms": None, "ok": False}),
    _row("function_logs", 4, "2025-01-01T00:00:00.000000Z", "true",
         {"level": "warning", "event_type": "Log", "function_id": None, "version": "-12", "ms": 9, "ok": None}),
)  # fmt: skip

_TEXT, _INTEGER, _FLOAT, _BOOLEAN = (scalar(name) for name in ("STRING", "INT64", "DOUBLE", "BOOL"))


def record(fields: Mapping[str, Any]) -> Any:
    """Return the type of a record as BigQuery stores it: an array of one struct."""
    return array_of(struct_of(fields))


METADATA: Final[Mapping[str, Any]] = {
    "edge_logs": record({
        "request": record({
            "method": _TEXT, "path": _TEXT, "search": _TEXT, "host": _TEXT, "headers": record({"user_agent": _TEXT}),
        }),
        "response": record({"status_code": _INTEGER, "origin_time": _INTEGER, "ratio": _FLOAT}),
        "cached": _BOOLEAN, "tags": array_of(_TEXT), "sizes": array_of(_INTEGER),
    }),
    "function_logs": record({
        "level": _TEXT, "event_type": _TEXT, "function_id": _TEXT, "version": _TEXT, "ms": _INTEGER, "ok": _BOOLEAN,
    }),
}  # fmt: skip


def stored(value: Any) -> Any:
    """Return a record as it is stored: every object as an array of one."""
    if isinstance(value, dict):
        return [{name: stored(field) for name, field in value.items()}]
    return value


def tables(rows: Iterable[Row], metadata: Mapping[str, Any]) -> list[Table]:
    """Return the tables of GoogleSQL's engine with these rows; `metadata` has the type of each table's records."""
    return [
        Table(
            name,
            (("timestamp", scalar("TIMESTAMP")), ("id", _TEXT), ("event_message", _TEXT), ("metadata", type_)),
            tuple(
                (datetime.fromisoformat(row["timestamp"]), row["id"], row["event_message"], stored(row["metadata"]))
                for row in rows
                if row["table"] == name
            ),
        )
        for name, type_ in metadata.items()
    ]


def inferred(values: Iterable[Any]) -> Any:
    """Return the type of some values of one field: text if any of them is text; STRING if all of them are NULL."""
    known = [value for value in values if value is not None]
    if any(isinstance(value, dict) for value in known):
        names = dict.fromkeys(name for value in known for name in value)
        return record({name: inferred(value.get(name) for value in known) for name in names})
    if any(isinstance(value, list) for value in known):
        return array_of(inferred(item for value in known for item in value))
    if not known or any(isinstance(value, str) for value in known):
        return _TEXT
    if all(isinstance(value, bool) for value in known):
        return _BOOLEAN
    return _INTEGER if all(isinstance(value, int) for value in known) else _FLOAT
