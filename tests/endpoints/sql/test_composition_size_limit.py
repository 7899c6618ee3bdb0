"""The byte budget's wrapper keeps the text movable and knows its own error; its effect is tested on a server."""

from __future__ import annotations

import pytest

from endpoints.sql.composition import MARKER, is_over_budget, limit_bytes, limit_bytes_of_chunks


@pytest.mark.parametrize("sql", ["select 1", "", "select 1 -- comment"])
def test_tells_how_far_it_moves_the_text(sql) -> None:
    limited, moved = limit_bytes(sql, max_bytes=1000)
    assert limited[moved:].startswith(sql + "\n)")
    assert "> 1000 " in limited


@pytest.mark.parametrize(
    ("sqlstate", "message", "over"),
    [
        ("22P02", f'invalid input syntax for type integer: "{MARKER}"', True),
        ("22P02", 'invalid input syntax for type integer: "a"', False),
        ("22012", MARKER, False),
    ],
)
def test_knows_its_own_error(sqlstate, message, over) -> None:
    assert is_over_budget(sqlstate, message) is over


@pytest.mark.parametrize("sql", ["select 1", 'select sum(a) over (rows unbounded preceding) as "UNBOUNDED PRECEDING"'])
@pytest.mark.parametrize("rows", [2, 128, 100_000])
def test_counts_the_bytes_of_rows_that_follow_each_other_and_moves_the_text_no_further(sql, rows) -> None:
    limited, moved = limit_bytes(sql, max_bytes=1000)
    of_chunks = limit_bytes_of_chunks(limited, rows=rows)
    assert of_chunks[moved:] == limited[moved:]
    assert f"(ROWS {rows - 1} PRECEDING " in of_chunks
