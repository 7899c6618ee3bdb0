"""Rows fit any width; short values stay whole, long ones are cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from endpoints.management.text_tables import format_rows

UUID = "123e4567-e89b-12d3-a456-426614174000"


def test_a_table_that_fits_is_as_narrow_as_it_can_be() -> None:
    assert format_rows(["a", "long"], [["1", "x"], ["22", ""]], width=80) == "a   long\n──  ────\n1   x\n22\n"


def test_long_values_share_what_the_short_ones_leave() -> None:
    text = format_rows(["id", "message", "json"], [[UUID, "m" * 45, "j" * 500]], width=150)
    (row,) = text.splitlines()[2:]
    assert row.split() == [UUID, "m" * 45, "j" * (150 - 36 - 45 - 4 - 1) + "…"]


def test_rows_become_blocks_where_a_table_would_say_nothing() -> None:
    text = format_rows(["id", "message"], [[UUID, "m" * 500], [UUID, "n"]], width=50)
    assert text.splitlines() == [
        "── row 1 " + "─" * 41,
        f"id       {UUID}",
        "message  " + "m" * 40 + "…",
        "── row 2 " + "─" * 41,
        f"id       {UUID}",
        "message  n",
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\x00\x7f\x9b", r"\x00\x7f\x9b"),
        ("\u202e\u200b", r"\u202e\u200b"),
        ("é 日本 🦊", "é 日本 🦊"),
        ("\u00a0", "\u00a0"),
        ("back\\slash", "back\\slash"),
        ("[bold]", "[bold]"),
    ],
)
def test_control_characters_are_spelt_out(value: str, shown: str) -> None:
    assert format_rows(["a"], [["|" + value + "|"]], width=80).splitlines()[2] == f"|{shown}|"


@settings(deadline=None, max_examples=200)
@given(
    st.integers(1, 5).flatmap(
        lambda columns: st.tuples(
            st.lists(st.text(min_size=1, max_size=30), min_size=columns, max_size=columns),
            st.lists(st.lists(st.text(max_size=300), min_size=columns, max_size=columns), max_size=4),
        )
    ),
    st.integers(20, 250),
)
def test_no_line_is_wider_than_the_terminal(table: tuple[list[str], list[list[str]]], width: int) -> None:
    header, rows = table
    text = format_rows(header, rows, width=width)
    assert all(cell_len(line) <= width for line in text.split("\n"))
    assert text.count("\n") in (2 + len(rows), len(rows) * (1 + len(header)))
