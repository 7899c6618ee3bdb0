"""Positions in the write-ahead log of the log database: how new a result is, and how new a caller wants it to be.

    read_position("0/3A2B1C8")  ->  60993992
    write_position(60993992)    ->  "0/3A2B1C8"

A load is answered with the position that the log had reached once its rows were visible. A result has the position up
to which it contains every row; a call that sends a position gets no result with a lower one. The text is that of
PostgreSQL's type pg_lsn (manual, "pg_lsn Type"): two hexadecimal numbers of 32 bits.
"""

from __future__ import annotations

import re
from typing import Final

NO_POSITION: Final = 0  # lower than every other one: any result will do

_POSITION: Final = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})", re.ASCII)


def read_position(text: str) -> int:
    """Return the number of a position. Raises ValueError for any other text."""
    match = _POSITION.fullmatch(text)
    if match is None:
        raise ValueError("not a position such as 0/3A2B1C8")
    return int(match[1], 16) << 32 | int(match[2], 16)


def write_position(position: int) -> str:
    """Return the text of a position, as PostgreSQL writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def covered_by_snapshot(read_before: int, *, awaited: int) -> int:
    """Return the position of a result whose snapshot was taken after the log's position was read.

    One less than it: a commit is written to the log a moment before it is visible. But the position that a caller sends
    was visible before, so a result made for that call covers it, unless the log has never been so far.
    """
    return read_before if awaited == read_before else read_before - 1
