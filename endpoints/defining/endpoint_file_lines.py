"""Where things stand in the file of an endpoint: the line of a setting, of a parameter, of a line of its SQL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

FIRST_LINE: Final = "/* endpoint"
LAST_LINE: Final = "*/"
_LINE_ENDS: Final = re.compile(r"\r\n?")
_PARAMETER: Final = re.compile(r"\s*\[\[\s*parameters\s*\]\]")


@dataclass(frozen=True, slots=True)
class FileLines:
    """The header, its opening comment included, and what follows the line that ends it.

    Lines are counted from 1 in the whole file; None is said of what the file leaves out.
    """

    header: Sequence[str]
    rest: Sequence[str]
    header_ends: bool = True

    @property
    def begin_as_they_should(self) -> bool:
        return [line.rstrip() for line in self.header[:1]] == [FIRST_LINE]

    @property
    def sql(self) -> str:
        return "\n".join(self.rest)

    def of_setting(self, name: str) -> int | None:
        """Return the line that gives a setting its value."""
        return self._line_of(name, start=1, stop=self._first_table())

    def of_table(self, name: str) -> int | None:
        """Return the line of a key or ``[table]`` anywhere in the header."""
        return self._line_of(name, start=1, stop=len(self.header))

    def of_parameter(self, number: int, *, among: int) -> int:
        """Return the line on which a parameter begins: the one of that number, from 0, of so many."""
        return self._parameter_starts(among)[number] + 1

    def of_parameter_key(self, number: int, key: str, *, among: int) -> int:
        """Return the line of a key of a parameter, or the one on which the parameter begins."""
        starts = self._parameter_starts(among)
        later = starts[number + 1 :]
        stop = (later[0] if later else 0) or len(self.header)
        return self._line_of(key, start=starts[number], stop=stop) or starts[number] + 1

    def of_sql(self, line: int, column: int) -> tuple[int, int]:
        """Return line and column in the file of a place in its SQL, which begins with its first letter."""
        blank = next((number for number, text in enumerate(self.rest) if text.strip()), 0)
        first = self.rest[blank] if self.rest else ""
        indent = len(first) - len(first.lstrip()) if line == 1 else 0
        return len(self.header) + 1 + blank + line, indent + column

    def _first_table(self) -> int:
        tables = (number for number, line in enumerate(self.header) if line.lstrip().startswith("["))
        return next(tables, len(self.header))

    def _parameter_starts(self, count: int) -> list[int]:
        starts = [number for number, line in enumerate(self.header) if _PARAMETER.match(line)]
        # Such a line stands inside a text, too, or all are written as one list: then only the file is known.
        return starts if len(starts) == count else [0] * count

    def _line_of(self, key: str, *, start: int, stop: int) -> int | None:
        assigns = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*[=.]|\s*\[+\s*{re.escape(key)}\b""")
        return next((n + 1 for n, line in enumerate(self.header) if start <= n < stop and assigns.match(line)), None)


def find_lines(text: str) -> FileLines:
    """Return the two parts of a file; where its header has no end, it is all header."""
    lines = _LINE_ENDS.sub("\n", text.removeprefix("\ufeff")).split("\n")
    end = next((number for number, line in enumerate(lines) if line.rstrip() == LAST_LINE), None)
    return FileLines(lines, [], header_ends=False) if end is None else FileLines(lines[:end], lines[end + 1 :])
