"""Formatting: laid out by clause, and whatever it is given, PostgreSQL reads the same lexemes afterwards."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.sql.formatting import MAX_FORMATTED_CHARACTERS, NotFormattable, format_sql
from endpoints.sql.lexemes import Kind, LexicalError, lex

PIECES = (
    "select", "SELECT", "from", "where", "with", "as", "and", "or", "case", "when", "then", "else", "end", "group by",
    "order by", "limit", "left", "t.left", "level", "timestamp", "logs.edge_logs", "a", '"Ä b"', "'it''s @x'",
    "@project", "@n::int", "$$ from where $$",
    "E'\\''", "-- a note\n", "/* two\nlines */", "(", ")", ",", "=", ">=", "->>", "#>>",
    "::", "1.50", ".5e3", "count(*)", "\n", "  ",
)  # fmt: skip


def meaning(sql: str) -> list[str]:
    kept = [lexeme for lexeme in lex(sql) if lexeme.kind is not Kind.WHITESPACE]
    return [
        lexeme.text.lower()
        if lexeme.kind is Kind.WORD
        else " ".join(lexeme.text.split())
        if lexeme.kind is Kind.COMMENT
        else lexeme.text
        for lexeme in kept
    ]


def test_lays_out_one_clause_a_line() -> None:
    sql = "select id, t.timestamp from logs.edge_logs as t where t.project = @project and level = 'Error' limit 5"
    assert format_sql(sql).splitlines() == [
        "SELECT id, t.timestamp",
        "FROM logs.edge_logs AS t",
        "WHERE t.project = @project",
        "  AND level = 'Error'",
        "LIMIT 5",
    ]


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        ("select t.left from t", "t.left"),
        ("select level, timestamp from t", "level, timestamp"),
        ('select "select" from t', '"select"'),
        ("select 'from where' from t", "'from where'"),
        ("select 1 -- from here on\n, 2", "-- from here on"),
        ("select @from_moment from t", "@from_moment"),
    ],
)
def test_changes_no_name_string_or_comment(sql: str, kept: str) -> None:
    assert kept in format_sql(sql)


def test_formats_what_it_has_formatted_to_the_same() -> None:
    once = format_sql("with a as (select 1 as x), b as (select 2) select * from a join b on a.x = b.x order by 1 desc")
    assert format_sql(once) == once


@pytest.mark.parametrize("sql", ["select 'open", "select /* open", 'select "open', "select $$ open"])
def test_refuses_what_cannot_be_read(sql: str) -> None:
    with pytest.raises(NotFormattable, match="cannot be read"):
        format_sql(sql)


def test_refuses_too_long_a_text() -> None:
    with pytest.raises(NotFormattable, match="is not formatted"):
        format_sql("select " + "1," * MAX_FORMATTED_CHARACTERS)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map(" ".join))
def test_never_changes_what_postgresql_reads(sql: str) -> None:
    try:
        before = meaning(sql)
    except LexicalError:
        return
    try:
        formatted = format_sql(sql)
    except NotFormattable:
        return
    assert meaning(formatted) == before
