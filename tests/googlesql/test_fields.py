"""Names of fields: compared exactly first, then without case, and only where a key in other letters is likely."""

from __future__ import annotations

import json
from typing import Any

import pytest

from googlesql import Column, translate

pytestmark = pytest.mark.sql

TABLES = {"edge_logs": (Column("id", "text"), Column("metadata", "jsonb"))}


def over(*records: dict[str, Any]) -> str:
    """FROM over records, as if a table contained them."""
    texts = ", ".join(f"parse_json({json.dumps(json.dumps(record))})" for record in records)
    return f"from unnest([{texts}]) as m"


def sql_of(text: str) -> str:
    translation = translate(text, TABLES, {}, moments="iso", functions=frozenset())
    return " ".join(piece for piece, _ in translation.pieces)


@pytest.mark.parametrize(
    ("written", "record", "value"),
    [
        ("m.LEVEL", {"level": "info"}, "info"),
        ("m.Level", {"LEVEL": "info"}, "info"),
        ("m.Level", {"level": "other", "Level": "exact"}, "exact"),
        ("m.Level", {"levels": 1, "Leve": 2, "aLevel": 3}, None),
        ("m.Level", {"level": None}, None),
        ("m.REQUEST.path", {"request": {"path": "/"}}, "/"),
        ("m.request.PATH", {"request": [{"path": "/"}]}, "/"),
        ("m.Request.Path", {"REQUEST": [{"PATH": "/"}]}, "/"),
        ("m.Request[0].Path", {"request": [{"path": "/"}]}, "/"),
        ("m.request.Path", {"request": "no record"}, None),
        ("m.request.Path", {"request": [1, {"path": "/"}]}, None),
        ("m.`A|b`", {"a|B": 1}, 1),
        ("m.`A+b`", {"aab": 1}, None),
        ("m.`A(`", {"a(": 1}, 1),
        ("m.`A'b`", {"a'B": 1}, 1),
        ('m.`A"b`', {'a"B': 1}, 1),
        (r"m.`A\\b`", {"a\\B": 1}, 1),
        ("m.`^A$`", {"^a$": 1, "a": 2}, 1),
        ("m.`É`", {"é": 1}, 1),
        ("m.`x-real-ip`", {"x-real-ip": "192.0.2.1"}, "192.0.2.1"),
        ("m.headers.`a b`", {"headers": [{"a b": 1}]}, 1),
        ("m.`log.level`", {"log.level": "error", "log": [{"level": "other"}]}, "error"),
        ("upper(m.Level)", {"level": "info"}, "INFO"),
        ("m.Status > 400", {"status": "404"}, True),
        ("m.Level is null", {"level": None}, True),
        ("m.`level`", {"Level": "info"}, None),  # the text writes no capital letter
    ],
)
def test_a_field_is_found_in_any_case_if_the_text_writes_a_capital_letter(
    bigquery: Any, written: str, record: dict[str, Any], value: Any
) -> None:
    assert bigquery.rows(f"select {written} as found {over(record)}") == [{"found": value}]


def test_a_name_of_the_text_itself_is_found_in_any_case(bigquery: Any) -> None:
    assert bigquery.rows("select struct(1 as Total).total as t") == [{"t": 1}]
    assert bigquery.rows("select x.total as t from unnest([struct(1 as Total), struct(2)]) x order by t") == [
        {"t": 1},
        {"t": 2},
    ]


def test_names_in_json_are_compared_exactly(bigquery: Any) -> None:
    assert bigquery.rows("""select parse_json('{"a": 1}').A as big, parse_json('{"a": 1}').a as small""") == [
        {"big": None, "small": 1}
    ]


@pytest.mark.parametrize(
    "text",
    [
        "select m.STATUS, count(*) as n {over} group by m.status order by n",
        "select m.status, count(*) as n {over} group by m.STATUS order by n",
        "select M.Status as STATUS, count(*) as n {over} group by 1 having max(m.status) > 0 order by n",
        "select m.STATUS, count(*) as n {over} group by m.status order by n, m.Status",
        "select concat(m.STATUS, '') as STATUS, count(*) as n {over} group by m.status having m.sTATUS > 0 order by n",
        "select distinct m.STATUS, 1 as n {over} order by m.status desc",
    ],
)
def test_two_spellings_of_a_field_are_one_group(bigquery: Any, text: str) -> None:
    rows = bigquery.rows(text.format(over=over({"status": 404}, {"Status": 200}, {"STATUS": 200})))
    given = [int(next(value for name, value in row.items() if name.upper() == "STATUS")) for row in rows]
    assert given == [404, 200]


def test_a_field_keeps_its_plain_reading_where_no_other_case_is_likely() -> None:
    text = "select m.level, m.request.path from edge_logs cross join unnest(metadata) m where m.level = 'a'"
    sql = sql_of(text)
    assert "COALESCE" not in sql
    assert "\"m\" -> 'level'" in sql
    assert "\"m\" ->> 'level'" in sql
    assert '\'$."request"."path"\'' in sql


def test_only_the_names_with_a_capital_letter_are_compared_without_case() -> None:
    text = "select m.botManagement.score, m.level from edge_logs cross join unnest(metadata) m"
    assert "like_regex" not in sql_of(text.lower())
    sql = sql_of(text)
    assert sql.count("like_regex") == 1
    assert '$.keyvalue() ? (@.key like_regex "^botManagement$" flag "i").value."score"' in sql


def test_a_very_long_name_is_compared_exactly() -> None:
    text = f"select m.{'A' * 301} from edge_logs cross join unnest(metadata) m"
    assert "like_regex" not in sql_of(text)
