"""Positions in the write-ahead log of the log database: which standby is new enough for a statement.

    read_position("0/3A2B1C8")  ->  60993992
    write_position(60993992)    ->  "0/3A2B1C8"

A page has the position that the log had reached before its rows were read; the next page awaits it. The text is that of
PostgreSQL's type pg_lsn (manual, "pg_lsn Type"): two hexadecimal numbers of 32 bits.
"""

from __future__ import annotations

import re
from typing import Final

NO_POSITION: Final = 0  # lower than every other one: any standby will do
ON_PRIMARY: Final = (1 << 64) - 1  # no standby ever replays it, and a primary does not look at it

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
