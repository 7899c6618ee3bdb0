"""The byte budget's wrapper keeps the text movable and knows its own error; its effect is tested on a server."""

from __future__ import annotations

import pytest

from endpoints.sql.composition import MARKER, is_over_budget, limit_bytes


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
