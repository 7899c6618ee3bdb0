"""The shape of made-up rows: which fields they have, and the types of their values."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson

from logsources.generation import SOURCE_NAMES, generate_rows
from tests.recorded.recordings import assert_recorded

UNTIL = datetime(2025, 6, 9, 12, tzinfo=UTC)


def test_made_up_rows_have_the_recorded_fields() -> None:
    lines = []
    for name in SOURCE_NAMES:
        rows = generate_rows(name, count=300, until=UNTIL, days=7, projects=["acme", "globex"], seed="recorded")
        lines += sorted({f"{name} {field}" for row in rows for field in fields_of(orjson.loads(row))})
    assert_recorded("made_up_rows.txt", lines)


def fields_of(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from fields_of(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for inner in value:
            yield from fields_of(inner, f"{path}[]")
    else:
        yield f"{path}: {type(value).__name__}"
