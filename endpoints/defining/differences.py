"""The difference of two texts, as lines with the changed words marked; long stretches without a change are folded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Final

_WORDS: Final = re.compile(r"\w+|\s|[^\w\s]")
# Comparing is quadratic at worst: beyond this many pairs of words whole lines are marked, which takes no time.
MAX_WORD_PAIRS: Final = 4_000_000


class Change(StrEnum):
    """What happened to a piece of text."""

    EQUAL = "equal"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Run:
    """A piece of text that was kept, added or removed as a whole."""

    change: Change
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line: removed (with its number in the text before), added (in the text after) or equal (in both)."""

    change: Change
    before: int | None
    after: int | None
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """That many lines without a change, left out."""

    lines: int


def compare_words(before: str, after: str) -> tuple[Run, ...]:
    """Return both texts as runs: those that are not added make up `before`, those not removed `after`."""
    # a < 5  ->  a < 10:  equal "a < ", removed "5", added "10"
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if len(old) * len(new) > MAX_WORD_PAIRS:
        return tuple(run for run in (Run(Change.REMOVED, before), Run(Change.ADDED, after)) if run.text)
    runs: list[Run] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            runs.append(Run(Change.EQUAL, "".join(old[i1:i2])))
            continue
        if i2 > i1:
            runs.append(Run(Change.REMOVED, "".join(old[i1:i2])))
        if j2 > j1:
            runs.append(Run(Change.ADDED, "".join(new[j1:j2])))
    return tuple(runs)


def compare_lines(before: str, after: str, *, context: int = 3) -> tuple[Line | Fold, ...]:
    """Return the lines of both texts, of the equal ones only `context` beside a change; () when the texts are equal."""
    old, new = before.splitlines(), after.splitlines()
    if old == new:
        return ()
    lines = list(_all_lines(old, new))
    near: set[int] = set()
    for number, line in enumerate(lines):
        if line.change is not Change.EQUAL:
            near.update(range(number - context, number + context + 1))
    return tuple(_folded(lines, near))


def _all_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[Line]:
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            for offset, text in enumerate(old[i1:i2], start=1):
                yield Line(Change.EQUAL, i1 + offset, j1 + offset, _plain(text))
            continue
        runs = compare_words("\n".join(old[i1:i2]), "\n".join(new[j1:j2]))
        if tag == "replace":
            yield from _side(runs, Change.REMOVED, first=i1 + 1)
            yield from _side(runs, Change.ADDED, first=j1 + 1)
        else:
            # A whole line was added or removed if every word of it was; so was an empty line, which has none.
            change = Change.REMOVED if tag == "delete" else Change.ADDED
            texts, first = (old[i1:i2], i1 + 1) if tag == "delete" else (new[j1:j2], j1 + 1)
            yield from (_line(change, n, (Run(change, text),)) for n, text in enumerate(texts, start=first))


def _side(runs: Iterable[Run], change: Change, *, first: int) -> Iterator[Line]:
    """Return the lines of one side, cut at its line ends; only words inside lines are marked."""
    number, current = first, list[Run]()
    for run in runs:
        if run.change not in (Change.EQUAL, change):
            continue
        head, *rest = run.text.split("\n")
        current += _piece(run.change, head)
        for text in rest:
            yield _line(change, number, tuple(current))
            number, current = number + 1, list(_piece(run.change, text))
    yield _line(change, number, tuple(current))


def _piece(change: Change, text: str) -> tuple[Run, ...]:
    return (Run(change, text),) if text else ()


def _plain(text: str) -> tuple[Run, ...]:
    return _piece(Change.EQUAL, text)


def _line(change: Change, number: int, runs: tuple[Run, ...]) -> Line:
    return Line(change, number if change is Change.REMOVED else None, number if change is Change.ADDED else None, runs)


def _folded(lines: Sequence[Line], near: set[int]) -> Iterator[Line | Fold]:
    hidden: list[Line] = []
    for number, line in enumerate(lines):
        if number not in near:
            hidden.append(line)
            continue
        yield from _fold(hidden)
        hidden = []
        yield line
    yield from _fold(hidden)


def _fold(hidden: Sequence[Line]) -> Iterator[Line | Fold]:
    # One line takes as much room as the words that it is left out.
    yield from hidden if len(hidden) < 2 else (Fold(len(hidden)),)
