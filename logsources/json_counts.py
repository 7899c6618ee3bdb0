"""Counts the values of JSON text before any is created: Python takes 200 bytes for a value of two bytes.

The text is read in short steps: one step of a regular expression or of bytes.count() keeps all other threads of
the process waiting, 30 ms for 6 MB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

_STEP_BYTES: Final = 65_536
# An unclosed string ends with its line, because no string spans lines: so each byte is looked at once.
_STRING: Final = rb'"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"?'
_STRINGS: Final = re.compile(_STRING)
# A step never ends inside a string.
_STEP: Final = re.compile(rb'(?:[^"]{1,1024}+|' + _STRING + rb"){1,64}+")


def holds_more_than(most: int, marks: Sequence[bytes], text: bytes) -> bool:
    """Tell whether a JSON text, well formed or not, has so many of these characters outside its strings."""
    return _exceeds(most, marks, _slices(text)) and _exceeds(most, marks, _without_strings(text))


def _exceeds(most: int, marks: Sequence[bytes], pieces: Iterator[bytes]) -> bool:
    found = 0
    for piece in pieces:
        found += sum(map(piece.count, marks))
        if found > most:
            return True
    return False


def _slices(text: bytes) -> Iterator[bytes]:
    for start in range(0, len(text), _STEP_BYTES):
        yield text[start : start + _STEP_BYTES]


def _without_strings(text: bytes) -> Iterator[bytes]:
    for step in _STEP.finditer(text):
        yield _STRINGS.sub(b"", step[0])
