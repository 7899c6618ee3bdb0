"""A character that nobody sees is named with its code and its place, in SQL, BigQuery's dialect and LQL."""

from __future__ import annotations

import pytest

from endpoints.dialects import DIALECTS
from endpoints.errors import InvalidLQL, SandboxViolation
from endpoints.lql import parse_lql
from endpoints.results.outcomes import Column
from endpoints.sql.sandbox import SandboxTable, check_sandbox_query

TABLES = {"edge_logs": (Column("id", "text"), Column("metadata", "jsonb"))}
BIGQUERY = DIALECTS["bigquery"]
HIDDEN = [
    ("\u00a0", "U+00A0 (NO-BREAK SPACE)"),
    ("\u200b", "U+200B (ZERO WIDTH SPACE)"),
    ("\u2003", "U+2003 (EM SPACE)"),
    ("\u202e", "U+202E (RIGHT-TO-LEFT OVERRIDE)"),
    ("\u3000", "U+3000 (IDEOGRAPHIC SPACE)"),
    ("\ufeff", "U+FEFF (ZERO WIDTH NO-BREAK SPACE)"),
]


@pytest.mark.parametrize(("character", "called"), HIDDEN)
@pytest.mark.parametrize(
    "text", ["select id from{} edge_logs", "select id{}from edge_logs", "select\nid from e{}dge_logs"]
)
def test_sql_names_it_and_its_place(text: str, character: str, called: str) -> None:
    line, column = 1 + text[: text.index("{}")].count("\n"), text.index("{}") - text.rfind("\n", 0, text.index("{}"))
    sql = text.format(character)
    checks = [lambda: check_sandbox_query(sql, tables=[SandboxTable("edge_logs", ("id",))])]
    if not character.isspace():  # BigQuery reads every blank of Unicode as one
        checks.append(lambda: BIGQUERY.check(sql, tables=TABLES))
    for check in checks:
        with pytest.raises(SandboxViolation) as refused:
            check()
        assert refused.value.message.startswith(f"Line {line}, column {column}: `{called}` cannot be seen")


@pytest.mark.parametrize(("character", "called"), [one for one in HIDDEN if not one[0].isspace()])
@pytest.mark.parametrize(("text", "column"), [("ab{}c", 3), ("m.level:er{}ror", 11), ("{}m.a:1", 1), ("x {}", 3)])
def test_lql_names_it_and_its_place(text: str, column: int, character: str, called: str) -> None:
    with pytest.raises(InvalidLQL) as refused:
        parse_lql(text.format(character))
    assert refused.value.message.startswith(f"Line 1, column {column}: {called} cannot be seen")


@pytest.mark.parametrize(("character", "called"), HIDDEN)
def test_in_a_string_it_is_a_character(character: str, called: str) -> None:
    sql = f"select id from edge_logs where id = 'a{character}b'"
    check_sandbox_query(sql, tables=[SandboxTable("edge_logs", ("id",))])
    BIGQUERY.check(sql, tables=TABLES)
    (rule,) = parse_lql(f'm.a:"a{character}b"').filters
    assert character in rule.value.text
