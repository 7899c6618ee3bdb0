"""Regular expressions match alike on every Python that is supported.

Python before 3.11.5, Debian 12's 3.11.2 among them, matches too much where a group repeats possessively (`(?:…)*+`):
such a quantifier keeps the end of an attempt that failed. `(?>(?:…)*)` means the same and is right everywhere; a
possessive quantifier of one character or class (`[0-9]*+`) is right too.
"""

from __future__ import annotations

import re
from typing import Final

import pytest

from endpoints.results.redaction import redact_text
from endpoints.sql.lexemes import Kind, lex
from tests.files import PROJECT

_POSSESSIVE_GROUP: Final = re.compile(r"(?<!\\)\)(?:[*+?]|\{\{?[0-9]*,?[0-9]*\}\}?)\+")
_ROOMS: Final = ("config", "endpoints", "googlesql", "logsources")


def repeated_groups(text: str) -> list[str]:
    """Return the lines, comments apart, in which a group repeats possessively."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("#", "//"))]
    return [line.strip() for line in lines if _POSSESSIVE_GROUP.search(line)]


@pytest.mark.parametrize("pattern", [r"(?:ab)*+", r"(a|b)?+", r"(?:a)++", "(a){2,}+", "(a){{2,3}}+"])
def test_finds_a_group_that_repeats_possessively(pattern: str) -> None:
    assert repeated_groups(f"x = {pattern!r}") != []


@pytest.mark.parametrize("pattern", [r"[ab]*+", r"(?>(?:ab)*)", r"\([^)]*+\)", r"(?:ab)+\+", "(a){2}"])
def test_finds_nothing_else(pattern: str) -> None:
    assert repeated_groups(f"x = {pattern!r}") == []


def test_no_group_repeats_possessively() -> None:
    files = [path for room in _ROOMS for end in ("py", "lark") for path in (PROJECT / room).rglob(f"*.{end}")]
    assert len(files) > 100
    found = {str(path.relative_to(PROJECT)): repeated_groups(path.read_text(encoding="utf-8")) for path in files}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_literal_ends_with_its_quote() -> None:
    assert [lexeme.text for lexeme in lex("'a' -> 'b' as c")] == ["'a'", " ", "->", " ", "'b'", " ", "as", " ", "c"]


def test_a_comment_inside_a_comment_ends() -> None:
    assert [lexeme.kind for lexeme in lex("/* a /* b */ c */ d")] == [Kind.COMMENT, Kind.WHITESPACE, Kind.WORD]


def test_an_address_before_a_zone_that_is_none_is_redacted() -> None:
    assert redact_text("from=fe80::1%eth0.a:1 to=fe80::2") == "from=REDACTED:1 to=REDACTED"
