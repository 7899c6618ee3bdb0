"""Rows as text for a terminal: a table if it fits, else one block per row. Pure: it knows no terminal.

The short columns of a table (a time, an id, a number) are shown whole; the long ones (a message, JSON) share the rest
and are cut with `…`. If that leaves too little, each row becomes a block of `column value` lines, as in psql's expanded
display.
"""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import category

from rich.cells import cell_len, set_cell_size

SHORT_CELLS = 40  # a UUID has 36, a time with microseconds 27
MIN_LONG_CELLS = 20  # a message cut shorter is useless
GAP = "  "

Row = Sequence[str]


def format_rows(header: Row, rows: Sequence[Row], *, width: int) -> str:
    """Return the rows as lines of at most `width` terminal cells, each ending in a line break."""
    header = [_printable(name) for name in header]
    rows = [[_printable(value) for value in row] for row in rows]
    widths = _column_widths(header, rows, width)
    lines = _table(header, rows, widths) if widths else _blocks(header, rows, width)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _printable(value: str) -> str:
    r"""Show line breaks, escapes and other control characters as `\n`, `\x1b`: a log row must not steer a terminal."""
    if value.isprintable():
        return value
    return "".join(
        character.encode("unicode_escape").decode() if category(character).startswith("C") else character
        for character in value
    )


def _column_widths(header: Row, rows: Sequence[Row], width: int) -> list[int]:
    """Return a width for every column, or nothing if a table would not be readable."""
    natural = [max(map(cell_len, column)) for column in zip(header, *rows, strict=True)]
    available = width - len(GAP) * (len(natural) - 1)
    if sum(natural) <= available:
        return natural
    long = [index for index, cells in enumerate(natural) if cells > SHORT_CELLS]
    available -= sum(cells for cells in natural if cells <= SHORT_CELLS)
    widths = list(natural)
    # The shortest first: the unused part of its share goes to the others.
    for done, index in enumerate(sorted(long, key=natural.__getitem__)):
        widths[index] = min(natural[index], available // (len(long) - done))
        available -= widths[index]
        if widths[index] < MIN_LONG_CELLS:
            return []
    return widths if available >= 0 else []


def _table(header: Row, rows: Sequence[Row], widths: Sequence[int]) -> list[str]:
    rule = GAP.join("─" * cells for cells in widths)
    return [_line(header, widths), rule, *(_line(row, widths) for row in rows)]


def _line(row: Row, widths: Sequence[int]) -> str:
    return GAP.join(set_cell_size(_cut(value, cells), cells) for value, cells in zip(row, widths, strict=True))


def _blocks(header: Row, rows: Sequence[Row], width: int) -> list[str]:
    names = min(max(map(cell_len, header)), width // 2)
    values = max(width - names - len(GAP), 1)
    lines: list[str] = []
    for number, row in enumerate(rows, start=1):
        title = f"── row {number} "
        lines.append(title + "─" * max(width - cell_len(title), 0))
        for name, value in zip(header, row, strict=True):
            lines.append(f"{set_cell_size(_cut(name, names), names)}{GAP}{_cut(value, values)}")
    return lines


def _cut(value: str, cells: int) -> str:
    return value if cell_len(value) <= cells else f"{set_cell_size(value, max(cells - 1, 0))}…"
