"""Which field of a row is its event message, and what stays in metadata."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from logsources.messages import OTHER_FIELDS
from logsources.rows import BadRow, read_row

NOW = datetime(2025, 6, 2, 12, tzinfo=UTC)


def read(**fields: object) -> tuple[str, Any]:
    row = read_row({"project": "acme", **fields}, project_path=None, now=NOW)
    return row.event_message, orjson.loads(row.metadata_json)


@pytest.mark.parametrize("name", OTHER_FIELDS)
def test_takes_the_message_of_a_logger(name: str) -> None:
    assert read(**{name: "a line", "level": "info"}) == ("a line", [{"level": "info"}])


@pytest.mark.parametrize(
    ("fields", "message", "metadata"),
    [
        ({"event_message": "a", "message": "b"}, "a", [{"message": "b"}]),
        ({"event_message": None, "message": "b"}, "b", [{}]),
        ({"message": None, "msg": "c"}, "c", [{"message": None}]),
        ({"log": "d", "msg": "c"}, "c", [{"log": "d"}]),
        ({"message": ""}, "", [{}]),
        ({"message": {"a": {"b": 1}}}, '{"a":{"b":1}}', [{"message": [{"a": [{"b": 1}]}]}]),
        ({"message": [1, "x"]}, '[1,"x"]', [{"message": [1, "x"]}]),
        ({"msg": 42}, "42", [{"msg": 42}]),
        ({"message": "b", "metadata": {"message": "inside"}}, "b", [{"message": "inside"}]),
    ],
)
def test_loses_nothing(fields: dict[str, Any], message: str, metadata: list[Any]) -> None:
    assert read(**fields) == (message, metadata)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"text": "a"}, "event_message is missing"),
        ({"event_message": 1, "message": "b"}, "event_message is not text"),
        ({"message": "a\0"}, "event_message contains a NUL character (\\u0000), which PostgreSQL cannot store"),
        ({"event_message": "a", "msg": "b", "metadata": {"msg": "c"}}, "the field 'msg' differs from the field with"),
    ],
)
def test_refuses_rows_without_a_message(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadRow) as refused:
        read(**fields)
    assert refused.value.reason.startswith(reason)
