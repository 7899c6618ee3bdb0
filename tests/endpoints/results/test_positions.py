"""Positions in the write-ahead log: as PostgreSQL writes them."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.results.positions import ON_PRIMARY, read_position, write_position


@pytest.mark.parametrize(
    ("text", "position"),
    [("0/0", 0), ("0/3A2B1C8", 0x3A2B1C8), ("1/0", 1 << 32), ("ffffffff/FFFFFFFF", ON_PRIMARY)],
)
def test_a_position_is_two_hexadecimal_numbers(text: str, position: int) -> None:
    assert read_position(text) == position
    assert write_position(position) == text.upper()


@pytest.mark.parametrize("text", ["", "0", "0/", "/0", "0/123456789", "0/G", " 0/1", "0/1\n", "0/١", "-1/0", "0/1/2"])
def test_any_other_text_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="not a position such as 0/3A2B1C8"):
        read_position(text)


@given(st.integers(0, (1 << 64) - 1))
def test_what_is_written_is_read_again(position: int) -> None:
    assert read_position(write_position(position)) == position


@pytest.mark.django_db(databases=["logs"])
def test_postgres_writes_and_compares_them_alike(log_database: psycopg.Connection[tuple[object, ...]]) -> None:
    for position in (0, 1, 0xFFFFFFFF, 1 << 32, (3 << 32) + 0xA0):
        row = log_database.execute("SELECT %s::pg_lsn::text", [write_position(position)]).fetchone()
        assert row == (write_position(position),)
