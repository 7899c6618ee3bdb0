"""Which fields of a row are its event message and its time, and what stays in metadata."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from logsources.field_names import OTHER_MESSAGE_FIELDS, OTHER_TIME_FIELDS
from logsources.rows import BadRow, read_row

NOW = datetime(2025, 6, 2, 12, tzinfo=UTC)


def read(**fields: object) -> tuple[str, Any]:
    row = read_row({"project": "acme", **fields}, project_path=None, now=NOW)
    return row.event_message, orjson.loads(row.metadata_json)


@pytest.mark.parametrize("name", OTHER_MESSAGE_FIELDS)
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
        ({"event_message": "a", "msg": "b", "metadata": {"msg": "c"}}, "the field 'msg' differs from the field with"),
    ],
)
def test_refuses_rows_without_a_message(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadRow) as refused:
        read(**fields)
    assert refused.value.reason.startswith(reason)


MOMENT = datetime(2025, 6, 1, 8, 30, tzinfo=UTC)
UNIX = int(MOMENT.timestamp())


def read_time(**fields: object) -> tuple[datetime, bool, Any]:
    row = read_row({"project": "acme", "event_message": "m", **fields}, project_path=None, now=NOW)
    return row.timestamp, row.has_own_time, orjson.loads(row.metadata_json)


@pytest.mark.parametrize("name", ["timestamp", *OTHER_TIME_FIELDS])
@pytest.mark.parametrize(
    "sent",
    ["2025-06-01T08:30:00Z", "2025-06-01T10:30:00.000000000+02:00", UNIX, float(UNIX), UNIX * 1000, str(UNIX * 10**6)],
)
def test_takes_the_time_of_a_logger(name: str, sent: object) -> None:
    assert read_time(**{name: sent, "level": "info"}) == (MOMENT, True, [{"level": "info"}])


@pytest.mark.parametrize(
    ("fields", "metadata"),
    [
        ({"timestamp": UNIX, "time": "0.3 s", "ts": None}, [{"time": "0.3 s", "ts": None}]),
        ({"timestamp": None, "ts": UNIX}, [{}]),
        ({"date": "yesterday", "ts": UNIX, "time": None}, [{"date": "yesterday", "time": None}]),
        ({"@timestamp": UNIX, "time": 5, "metadata": {"@timestamp": 1}}, [{"@timestamp": 1, "time": 5}]),
    ],
)
def test_the_first_time_counts_and_the_others_stay(fields: dict[str, Any], metadata: list[Any]) -> None:
    assert read_time(**fields) == (MOMENT, True, metadata)


@pytest.mark.parametrize("fields", [{}, {"time": None}, {"Date": UNIX}, {"metadata": {"time": UNIX}}])
def test_a_row_without_a_time_gets_the_one_of_its_arrival_and_says_so(fields: dict[str, Any]) -> None:
    assert read_time(**fields)[:2] == (NOW, False)


NO_UNIX_TIME = (
    "is a number, but no Unix time of 10 (seconds), 13 (milliseconds), 16 (microseconds) or 19 (nanoseconds) digits;"
    " send one, or a time in ISO 8601, such as 2025-06-02T08:15:02Z"
)


@pytest.mark.parametrize("name", ["timestamp", *OTHER_TIME_FIELDS])
@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ("soon", "is not a time in ISO 8601, such as 2025-06-02T08:15:02Z or 2025-06-02T10:15:02+02:00"),
        ("", "is not a time in ISO 8601, such as 2025-06-02T08:15:02Z or 2025-06-02T10:15:02+02:00"),
        ({"seconds": UNIX}, "must be text or a number"),
        (True, "must be text or a number"),
        (0.25, NO_UNIX_TIME),
        ("1" * 65, NO_UNIX_TIME),
        ("1999-12-31", "is before 2000 or more than 366 days ahead"),
    ],
)
def test_refuses_a_time_that_cannot_be_read(name: str, sent: object, reason: str) -> None:
    with pytest.raises(BadRow) as refused:
        read_time(**{name: sent})
    assert refused.value.reason == f"{name} {reason}"
