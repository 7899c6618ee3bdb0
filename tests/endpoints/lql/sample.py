# ruff: noqa: DTZ001 - every datetime here is UTC without zone
"""Sixty rows with what logs hold and what they should not, for every query of `queries.txt`."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.endpoints.lql.evaluation import MISSING, Row
from tests.endpoints.lql.live_table import NOW, make_row

DAY = datetime(2024, 5, 14)
ALMOST = timedelta(days=1) - timedelta(microseconds=1)
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
DOCUMENTS: tuple[Any, ...] = (
    MISSING,
    None,
    {},
    [],
    [{}],
    [{"status": 200, "level": "error", "tags": ["a", "b"], "user": {"id": 7, "name": "Ann"}}],
    {"status": "200", "level": "warning", "tags": "a", "user": [{"id": "7", "name": "Bob"}]},
    [{"status": 200.0, "level": "info", "tags": [], "user": [{"id": 8}, {"id": "9", "name": None}]}],
    [{"status": "404"}, {"status": 500, "level": ["debug", "alert"]}],
    {"status": [404, "200"], "tags": [["a"], ["b", "c"]], "user": {"id": [1, 2, 3]}},
    {"status": None, "level": None, "tags": [None], "user": None},
    {"status": True, "level": "Error", "tags": [True, False, "true"]},
    {"status": "true", "tags": ["50%", "a_b", "axb", "a\\b", 'say "x"', "日本", "ä", "Z", "z", "é", ""]},
    {"status": {"code": 200}, "tags": [{"a": "b"}], "user": "Ann"},
    {"status": [[200]], "tags": [[["a"]]], "user": [[{"id": 7}]]},
    {"status": "abc", "level": 3, "tags": ["007", "7", 7, -7, "-7", "+7", " 7", "7 ", "1e3", 1000, "0x7"]},
    {"status": 9007199254740993, "tags": ["9007199254740993", 12345678901234567890.5, "1" * 40, "1" * 41]},
    {"status": "2024-05-14T10:00:00Z", "level": "fatal", "tags": ["2024-05-14", "2024-05-15"]},
    {"status": "2024-05-14 12:00:00+0200", "tags": ["2024-05-14T10:00:00.000000900Z", "2024-05-14T23:30:00-02:00"]},
    {"status": 1715680800, "tags": [1715680800000, 1715680800000001, "1715680800", 171568080], "level": "2024-05-14"},
    {
        "status": "2024-05-14t10:00z",
        "tags": ["2024-02-30", "2024-05-14T24:61:00Z", "now", "infinity", "epoch", "today"],
    },
    {"status": "2024-05-14 09:59:59,999 UTC", "tags": ["2024-05-14 deploy", "2024-05", "2024-05-15T12:00"]},
    {"status": -0.5, "tags": [0, 0.0, "-0", "0.50", 0.5], "user": {"id": "NULL", "name": "null"}},
)
MESSAGES = (
    "",
    "GET /a 200",
    "get /A 500",
    "50% done",
    "50 done",
    "a_b",
    "axb",
    "back\\slash",
    'say "x"',
    "日本 404",
    "o'x",
)
MOMENTS = (
    NOW,
    NOW.replace(microsecond=0),
    NOW + timedelta(seconds=1),
    NOW - timedelta(seconds=1),
    NOW - timedelta(minutes=5),
    DAY,
    DAY + ALMOST,
    DAY - timedelta(microseconds=1),
    DAY + timedelta(hours=10),
    DAY + timedelta(days=1),
    datetime(2024, 5, 13),
    datetime(2024, 5, 12, 23, 59, 59, 999_999),
    datetime(2024, 5, 1),
    datetime(2024, 4, 15),
    datetime(2024, 1, 1),
    datetime(2023, 12, 31, 23, 59, 59),
    datetime(2023, 5, 15),
    datetime(1970, 1, 1),
    datetime(9999, 12, 31, 12),
)
COLUMN_VALUES: dict[str, tuple[Any, ...]] = {
    "total": (None, 0, 7, 200, -5, 2_147_483_647),
    "price": (None, Decimal("0.10"), Decimal(7), Decimal("-5.5"), Decimal("12345678901234567890.123")),
    "ratio": (None, 0.1, 0.5, 7.0, -5.0, 1e300, float("inf")),
    "small": (None, 0.10000000149011612, 0.5, 7.0, 16_777_216.0),
    "ok": (None, True, False),
    "day": (None, date(2024, 5, 14), date(2024, 5, 15), date(2024, 4, 30), date(9999, 12, 31)),
    "local": (None, *MOMENTS[:9]),
    "owner": (None, "123e4567-e89b-12d3-a456-426614174000", "00000000-0000-0000-0000-000000000007"),
    "note": (None, "", "a", "B", "b", "ä", "200", "50%", "a_b", "NULL"),
    "tags": (None, [], ["a", "b"], ["ab", None], ["7", "ä"], ["50%"]),
    "counts": (None, [], [7], [1, 2, 7], [None, -5]),
    "times": (None, [], [DAY + timedelta(hours=3)], [NOW, DAY + ALMOST], [None, datetime(2024, 1, 1)]),
}


def sample_rows() -> list[Row]:
    rows = []
    for number in range(60):
        columns = {name: values[number % len(values)] for name, values in COLUMN_VALUES.items()}
        columns["metadata"] = DOCUMENTS[number % len(DOCUMENTS)]
        columns["extra"] = DOCUMENTS[(number * 7 + 3) % len(DOCUMENTS)]
        columns["event_message"] = MESSAGES[number % len(MESSAGES)]
        columns["timestamp"] = MOMENTS[number * 5 % len(MOMENTS)] if number % 20 != 19 else None
        rows.append(make_row(number, **columns))
    return rows


SAMPLE = sample_rows()
