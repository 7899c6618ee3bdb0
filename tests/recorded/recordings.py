"""The recordings below tests/cases/recorded/: compared with what the service says now, or written anew.

`make record` writes all of them. A recording is text, one fact a line, so that the difference in git reads well. What
is another one each time stands there by the name of its mask, such as `<moment>`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from html.parser import HTMLParser
from typing import Final

import pytest

from tests.files import CASES

FOLDER: Final = CASES / "recorded"
RECORDING: Final = bool(os.environ.get("RECORD_ANSWERS"))
# What a reader does not see.
_HIDDEN: Final = ("script", "style", "head", "template", "noscript", "svg")
_ICONS: Final = "material-symbols"  # of a font whose letters are pictures
_WITHOUT_END: Final = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source"})


DAYS_OF_ROWS: Final = "2025-06-"  # what rows of the recordings say of their time is no moment of a run
# In this order: an earlier one finds what a later one would find a part of.
MASKS: Final = {
    "<secret>": re.compile(r"lqe_[0-9a-f]{12}_[0-9A-Za-z_-]{43}"),
    "<page token>": re.compile(r"(?<=page_token=)[0-9A-Za-z_-]+"),
    "<moment>": re.compile(rf"\b(?!{DAYS_OF_ROWS})20\d\d-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?(?:Z|\+00:00)?)?"),
    "<seconds> s": re.compile(r"\b\d+\.\d+ s\b"),
    "<rate> rows/s": re.compile(r"\b[\d,]+ rows/s"),
    "<token id>": re.compile(r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{12}\b"),
}


def masked(text: str) -> str:
    """Return the text with the names of the masks in place of what is another one each time."""
    for name, pattern in MASKS.items():
        text = pattern.sub(name, text)
    return text


class _VisibleText(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        is_hidden = tag in _HIDDEN or _ICONS in (dict(attributes).get("class") or "")
        if tag not in _WITHOUT_END and (is_hidden or self._hidden):
            self._hidden += 1

    def handle_endtag(self, tag: str) -> None:
        if self._hidden and tag not in _WITHOUT_END:
            self._hidden -= 1

    def handle_data(self, data: str) -> None:
        text = " ".join(data.split())
        if text and not self._hidden:
            self.texts.append(text)


def visible_text(html: str) -> list[str]:
    """Return the texts of a page in their order, without those of scripts and styles."""
    parser = _VisibleText()
    parser.feed(html)
    return parser.texts


def assert_recorded(name: str, lines: Iterable[str]) -> None:
    """Compare the lines with the recording of this name, or record them."""
    now = list(lines)
    assert all("\n" not in line for line in now)
    file = FOLDER / name
    if RECORDING:
        file.write_text("".join(f"{line}\n" for line in now), encoding="utf-8")
        return
    before = file.read_text(encoding="utf-8").split("\n")[:-1]
    if now != before:
        differing = [f"- {line}" for line in before if line not in set(now)]
        differing += [f"+ {line}" for line in now if line not in set(before)] or ["other lines, or in another order"]
        pytest.fail("\n".join((f"tests/cases/recorded/{name} (`make record` writes it anew):", *differing)), False)
