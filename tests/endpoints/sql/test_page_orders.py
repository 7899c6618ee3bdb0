"""The order of pages as text: what it means, and why a text or a result has none."""

from __future__ import annotations

import pytest

from endpoints.results.outcomes import Column
from endpoints.sql.page_orders import PageKey, PageOrderError, may_repeat, page_order_problems, parse_page_order


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("", ()),
        (" \n", ()),
        ("id", (PageKey("id"),)),
        ("timestamp desc, id desc", (PageKey("timestamp", True, True), PageKey("id", True, True))),
        ("Timestamp ASC NULLS FIRST,id", (PageKey("timestamp", nulls_first=True), PageKey("id"))),
        ("a desc nulls last", (PageKey("a", descending=True),)),
        ("a nulls first", (PageKey("a", nulls_first=True),)),
        ("a not null, b desc not null", (PageKey("a", not_null=True), PageKey("b", True, True, True))),
        ('"Odd ""name"", with comma" desc', (PageKey('Odd "name", with comma', True, True),)),
        ("a /* the day */ desc -- newest first", (PageKey("a", True, True),)),
        ("ÉTÉ", (PageKey("ÉtÉ"),)),
    ],
)
def test_reads_columns_with_their_directions(text: str, keys: tuple[PageKey, ...]) -> None:
    assert parse_page_order(text) == keys


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (",", "one comma"),
        ("a,", "one comma"),
        ("a,,b", "one comma"),
        ("a b", "not a column with its direction"),
        ("a desc asc", "not a column with its direction"),
        ("a nulls", "not a column with its direction"),
        ("a nulls last desc", "not a column with its direction"),
        ("lower(a)", "not a column with its direction"),
        ("t.a", "not a column with its direction"),
        ("a desc; drop table x", "not a column with its direction"),
        ("1", "not the name of a column"),
        ("'a'", "not the name of a column"),
        ("@a", "not the name of a column"),
        ('U&"a"', "not the name of a column"),
        ("a, A desc", "named twice"),
        ("a, b, c, d, e", "at most 4 columns"),
        ("a 'open", "cannot be read"),
    ],
)
def test_refuses_what_is_no_order(text: str, reason: str) -> None:
    with pytest.raises(PageOrderError, match=reason):
        parse_page_order(text)


COLUMNS = (
    Column("timestamp", "timestamp(3) with time zone"),
    Column("id", "text"),
    Column("amount", "numeric(10,2)"),
    Column("short", "character varying(40)"),
    Column("twice", "text"),
    Column("twice", "text"),
    Column("metadata", "jsonb"),
    Column("padded", "character(4)"),
)


@pytest.mark.parametrize("text", ["timestamp desc, id desc", "amount, short", ""])
def test_finds_nothing_wrong_with_columns_of_the_result(text: str) -> None:
    assert list(page_order_problems(parse_page_order(text), COLUMNS)) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("timestmap desc, id", "no column timestmap; its columns are timestamp, id, amount, short, twice, metadata"),
        ("twice", "2 columns called twice"),
        ("metadata", "metadata, which is jsonb"),
        ("padded", "padded, which is character(4)"),
        ('"Timestamp"', "no column Timestamp"),
    ],
)
def test_says_which_column_does_not_fit(text: str, reason: str) -> None:
    (problem,) = page_order_problems(parse_page_order(text), COLUMNS)
    assert reason in problem


@pytest.mark.parametrize(
    ("text", "expected"), [("timestamp desc, id desc", False), ("id, timestamp", False), ("timestamp desc", True)]
)
def test_knows_the_key_of_log_tables(text: str, expected: bool) -> None:
    assert may_repeat(parse_page_order(text)) is expected
