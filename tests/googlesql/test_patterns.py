r"""RE2's patterns as PostgreSQL's: what they match, on PostgreSQL, and what cannot be said there."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from googlesql.patterns import PatternError, translate_pattern

pytestmark = pytest.mark.sql

# Pattern, texts that it matches, texts that it does not.
CASES = [
    (r"^/rest/v1/\w+$", ["/rest/v1/orders"], ["/rest/v1/", "x/rest/v1/a", "/rest/v1/a-b"]),
    (r"foo|bar", ["a bar"], ["FOO"]),
    (r"a||b", ["zzz"], []),
    (r"(?i)foo|bar", ["FOO", "Bar"], ["fo"]),
    (r"(?i)É", ["é"], ["e"]),
    (r"ab(?i)cd", ["abCD", "abcd"], ["ABcd"]),
    (r"a(?i:b)c", ["aBc", "abc"], ["aBC"]),
    (r"(?i)a(?-i)b", ["Ab", "ab"], ["aB"]),
    (r"a(?i)[b-d]", ["aB", "ad"], ["aE", "AB"]),
    (r"(x(?i)y)z", ["xYz"], ["xYZ"]),
    (r"\bword\b", ["a word.", "word"], ["sword", "words"]),
    (r"\Bor", ["word"], ["or"]),
    (r"\d{3}", ["a404"], ["40"]),
    (r"\D\S\W", ["ab-"], ["1b-", "a -", "abc"]),
    (r"x{2,3}?y", ["xxy"], ["xy"]),
    (r"x{", ["x{"], ["x"]),
    (r"{x}", ["{x}"], ["x"]),
    (r"(?P<code>\d+)-(?P<rest>\w)", ["12-a"], ["12-"]),
    (r"(?<code>\d)", ["1"], ["a"]),
    (r"\Qa.b*\E+c", ["a.b*c", "a.b**c"], ["axb*c"]),
    (r"\Qa.b", ["a.b"], ["axb"]),
    (r"\pL\p{Lu}\p{Nd}\PL", ["xA1-", "éZ99"], ["xa1-", "1A1-"]),
    (r"[\p{Lu}\d]{2}", ["A1"], ["a1"]),
    (r"[\PL]", ["1"], ["a"]),
    (r"a.b", ["axb"], ["a\nb"]),
    (r"(?s)a.b", ["axb", "a\nb"], ["ab"]),
    (r"(?s:a.b).c", ["a\nbxc"], ["a\nb\nc"]),
    (r"[^a]b", ["xb", "\nb"], ["ab"]),
    (r"^b$", ["b"], ["a\nb", "b\n"]),
    (r"(?m)^b$", ["b", "a\nb", "b\nc"], ["ab"]),
    (r"(?im)^err", ["x\nERROR"], ["an error"]),
    (r"[\s\S]+x", ["a\nx"], ["x"]),
    (r"[^\S\n]x", [" x", "\tx"], ["\nx", "ax"]),
    (r"[]a]", ["]", "a"], ["b"]),
    (r"[^]a]", ["b"], ["]", "a"]),
    (r"[a\]\-\\^]", ["]", "-", "\\", "^"], ["b"]),
    (r"[\w.-]+@[\w-]+", ["x.y-z@b-c"], ["@"]),
    (r"[[:alpha:]_][[:^digit:]]", ["_x"], ["_1", "1x"]),
    (r"[[:word:]]", ["_"], ["-"]),
    (r"\x41\x{42}\t", ["AB\t"], ["ab\t"]),
    (r"[\x00-\x1f]", ["a\tb"], ["ab"]),
    (r"\.\/\-\|\(\)\[\]\{\}\+\*\?\^\$\\", ["./-|()[]{}+*?^$\\"], ["x"]),
    (r"^GET.{3}(200|404)", ["GET | 200"], ["GET 200"]),
    (r"\Ax\z", ["x"], ["ax", "x\n"]),
    ("it's", ["it's"], ["its"]),
    ("", ["", "x"], []),
]
REFUSED = [r"(a)\1", r"(?U)a", r"(?#x)a", r"a{300}", r"[a", "a\\", r"\p{Klingon}", r"[[:klingon:]]", r"\Ca", r"[a-"]
TEXTS = ["", "a", "B", "ab\nc", "x1-y_z", "A.b*C", " \t", "{}[]()", "é", "\\", "aaa", "404", "\n"]


def matches(connection, pattern, text):
    return connection.execute("SELECT %s::text ~ %s::text", [text, translate_pattern(pattern)]).fetchone()[0]


@pytest.mark.parametrize(("pattern", "matching", "others"), CASES, ids=[case[0] for case in CASES])
def test_matches_what_re2_matches(log_database, pattern, matching, others):
    assert [text for text in matching if not matches(log_database, pattern, text)] == []
    assert [text for text in others if matches(log_database, pattern, text)] == []


@pytest.mark.parametrize("pattern", REFUSED)
def test_refuses_what_postgresql_cannot_say(pattern):
    with pytest.raises(PatternError):
        translate_pattern(pattern)


PIECES = st.sampled_from(
    [
        "a",
        "B",
        "1",
        "_",
        ".",
        "\\.",
        "\\d",
        "\\w",
        "\\s",
        "\\D",
        "[a-c]",
        "[^a]",
        "[\\w-]",
        "[^\\s]",
        "x",
        "é",
        "\\n",
        "-",
    ]
)
QUANTIFIERS = st.sampled_from(["", "", "", "*", "+", "?", "{1,2}"])
ATOMS = st.builds(str.__add__, PIECES, QUANTIFIERS)
BRANCHES = st.lists(ATOMS, min_size=1, max_size=4).map("".join)
GROUPS = st.lists(BRANCHES, min_size=1, max_size=3).map(lambda branches: f"({'|'.join(branches)})")
PATTERNS = st.builds("".join, st.lists(ATOMS | GROUPS, min_size=1, max_size=4))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(flags=st.sampled_from(["", "(?i)", "(?s)", "(?is)"]), pattern=PATTERNS, anchored=st.booleans())
def test_agrees_with_another_reader_of_the_same_syntax(log_database, flags, pattern, anchored):
    # Python's re reads these pieces as RE2 does, with ASCII classes.
    written = f"{flags}^(?:{pattern})\\z" if anchored else flags + pattern
    expression = re.compile(written.replace("\\z", "\\Z"), re.ASCII)
    expected = [text for text in TEXTS if expression.search(text)]
    found = log_database.execute(
        "SELECT array_agg(t ORDER BY n) FROM unnest(%s::text[]) WITH ORDINALITY AS x (t, n) WHERE t ~ %s",
        [TEXTS, translate_pattern(written)],
    ).fetchone()[0]
    assert (found or []) == expected
