"""Texts that LQL reads as something else than their author means: what is noted, and what is not."""

from __future__ import annotations

import pytest

from endpoints.errors import InvalidLQL
from endpoints.lql import parse_lql
from endpoints.lql.mistakes import filter_notes, word_notes


@pytest.mark.parametrize(
    ("lql", "meant"),
    [
        ("m.response.status_code >= 500", "m.response.status_code:>=500"),
        ("m.response.status_code>=500", "m.response.status_code:>=500"),
        ("m.response.status_code >=500", "m.response.status_code:>=500"),
        ("m.response.status_code>= 500", "m.response.status_code:>=500"),
        ("status < 500", "status:<500"),
        ("status<=500", "status:<=500"),
        ("status=500", "status:500"),
        ("m.level=error", "m.level:error"),
        ("level = error", "level:error"),
        ("level == error", "level:error"),
        ('level = "an error"', 'level:"an error"'),
        ("level != error", "-level:error"),
        ("level <> error", "-level:error"),
        ("m.offset > -5", "m.offset:>-5"),
        ("m.a:1 status >= 500 m.b:2", "status:>=500"),
    ],
)
def test_a_comparison_in_another_language_is_noted(lql: str, meant: str) -> None:
    (note,) = filter_notes(parse_lql(lql))
    assert note.endswith(f"is looked for in the message; a filter is `{meant}`.")
    parse_lql(meant)


@pytest.mark.parametrize(
    ("lql", "noted"),
    [
        ("select * from edge_logs", True),
        ("SELECT id FROM edge_logs WHERE status = 500", True),
        ("with x as ( select 1 ) select * from x", True),
        ("select from", False),
        ("f:edge_logs select", False),
    ],
)
def test_sql_is_noted(lql: str, noted: bool) -> None:
    assert [note.startswith("This reads as SQL") for note in filter_notes(parse_lql(lql))] == [True] * noted


@pytest.mark.parametrize(
    "lql", ["select id from edge_logs where m.level = 'error'", "select count(*) from t where x::text = 'a b'"]
)
def test_sql_that_is_refused_is_told_as_such(lql: str) -> None:
    with pytest.raises(InvalidLQL, match=r"This reads as SQL, which is sent as sql\.$"):
        parse_lql(lql)


@pytest.mark.parametrize(
    ("lql", "noted"),
    [
        ("t:>2026-11-25", ["`t:>2026-11-25` begins after that day; with it, write `t:>=2026-11-25`."]),
        ("t:2026-11-25T10:00:00Z", []),
        ("t:>=2026-11-25", []),
        ("t:<2026-11-25", []),
        ("t:2026-11-25", []),
        ("t:>2026-11-25T10:00:00", []),
        ("t:now", []),
        ("t:today", []),
        ("t:2026-11-25..2026-11-26", []),
    ],
)  # fmt: skip
def test_times_that_are_often_meant_otherwise_are_noted(lql: str, noted: list[str]) -> None:
    assert list(filter_notes(parse_lql(lql))) == noted


@pytest.mark.parametrize(
    "lql",
    [
        "", "host=db_1", "a => b", "->", "GET /x?a=1", "x > ", "a-b > 5", '"m.level >= 5"', "m.level:error",
        "=", "1 = 1x", "-host=db_1",
    ],
)  # fmt: skip
def test_what_messages_have_is_no_comparison(lql: str) -> None:
    assert [*filter_notes(parse_lql(lql)), *word_notes(parse_lql(lql))] == []
