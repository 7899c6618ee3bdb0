from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pglast.parser
import pytest
import sqlparse
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from sqlparse.tokens import Token

from endpoints.sql import lexemes
from endpoints.sql.lexemes import MAX_COMMENT_DEPTH, Kind, Lexeme, LexicalError, lex, line_and_column
from tests.linear import takes_longer_than

# Every character with a meaning in PostgreSQL's scanner, and some without.
CHARACTERS = "'\"$@/*-+<=:.~#%;,()[] \n\t\r\fabeEuUxXnN_0189\\&|?é`!^>{}"
# fmt: off
FRAGMENTS = (
    "'", "''", "E'", "e'\\", "U&'", 'u&"', '"', '""', "$$", "$a$", "$a", "$1", "$b$", "/*", "*/", "--", "@", "@-", "<@",
    "@@", "^@", "+", "-", "*", "/", "=", "=>", ":=", "::", ":", "..", ".", "1", "1e", "1e5", "0x1f", "1_0", "_", "a",
    "b", "x'", "B'", "N'", "n'", "é", "U&", "\\", "\\'", "?", "|", "#", "%", "&", ";", "(", ")", "[", "]", "<", ">",
    "!", "~", "e", "0o7", "0b1", "uescape", " ", "\n", "\r", "\t", "\n '",
)
NUMBERS = ("0", "42", "1_000", "3.5", "4.", ".001", "5e2", "1.925e-3", ".5E+1", "0x1F", "0o17", "0b1_0")
OPERATORS = (
    "+", "-", "*", "/", "<", ">", "=", "~", "!", "@", "#", "%", "^", "&", "|", "`", "?", "<=", "<>", "!=", "=>", "->",
    "->>", "#>>", "@>", "<@", "@@", "?|", "?&", "@?", "@-", "~-", "-|-", "<->", "@-@", "!~~*", "^@", "|/",
)
PUNCTUATION = ("(", ")", "[", "]", ",", ";", ".", "..", ":", "::", ":=")
# fmt: on
TRICKY_TEXT = st.text(CHARACTERS, max_size=16) | st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join)


def kinds_and_texts(sql: str) -> list[tuple[Kind, str]]:
    return [(lexeme.kind, lexeme.text) for lexeme in lex(sql) if not lexeme.is_blank]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (" \t\r\n\f", Kind.WHITESPACE),
        ("-- to the end", Kind.COMMENT),
        ("/* a /* b */ c */", Kind.COMMENT),
        ("/***/", Kind.COMMENT),
        ("/*/ */", Kind.COMMENT),
        ("select", Kind.WORD),
        ("_a$1é", Kind.WORD),
        ("\u212a\u017f", Kind.WORD),
        ('"a""b"', Kind.QUOTED_IDENTIFIER),
        ('""""', Kind.QUOTED_IDENTIFIER),
        ('U&"d\\0061t"', Kind.UNICODE_IDENTIFIER),
        ("''", Kind.STRING),
        ("'it''s'", Kind.STRING),
        ("'\\'", Kind.STRING),
        ("'a'\n  'b'", Kind.STRING),
        ("'a' -- c\n\n -- d\n 'b'", Kind.STRING),
        ("E'\\''", Kind.ESCAPE_STRING),
        ("e'\\\\'", Kind.ESCAPE_STRING),
        ("E'a'\n'\\''", Kind.ESCAPE_STRING),
        ("B'01'", Kind.BIT_STRING),
        ("x'1F'", Kind.BIT_STRING),
        ("u&'\\0061'", Kind.UNICODE_STRING),
        ("N'a'", Kind.NATIONAL_STRING),
        ("$$a$b$$", Kind.DOLLAR_STRING),
        ("$q$ $$ $Q$ $q$", Kind.DOLLAR_STRING),
        *((number, Kind.NUMBER) for number in NUMBERS),
        ("$12", Kind.POSITIONAL),
        ("@project", Kind.PARAMETER),
        *((sign, Kind.OPERATOR) for sign in OPERATORS),
        *((sign, Kind.PUNCTUATION) for sign in PUNCTUATION),
    ],
)
def test_reads_one_lexeme(text: str, kind: Kind) -> None:
    assert lex(text) == (Lexeme(kind, text, 0),)


@pytest.mark.parametrize(
    ("sql", "texts"),
    [
        # Trailing signs belong to the next operator unless the run has one of ~ ! @ # % ^ & | ` ?
        ("a=-1", ["a", "=", "-", "1"]),
        ("a*-+1", ["a", "*", "-", "+", "1"]),
        ("a+-+1", ["a", "+", "-", "+", "1"]),
        ("a=-*1", ["a", "=-*", "1"]),
        ("a@-1", ["a", "@-", "1"]),
        ("a-@-1", ["a", "-@-", "1"]),
        ("a=-@b", ["a", "=", "-", "@b"]),
        # Comments end an operator.
        ("a*--b\nc", ["a", "*", "c"]),
        ("a@/*b*/c", ["a", "@", "c"]),
        # The parameter marker against operators that end in it.
        ("a=@b", ["a", "=", "@b"]),
        ("a<@b", ["a", "<@", "b"]),
        ("a<@@b", ["a", "<@", "@b"]),
        ("a @@b", ["a", "@@", "b"]),
        ("a @@@b", ["a", "@@@", "b"]),
        ("a @@@@b", ["a", "@@@", "@b"]),
        ("a=<@b", ["a", "=<", "@b"]),
        ("@-@b", ["@-@", "b"]),
        ("a<->@b", ["a", "<->", "@b"]),
        ("@é", ["@", "é"]),
        ("@5", ["@", "5"]),
        # Numbers and dots, colons and arrays.
        ("1..2", ["1", "..", "2"]),
        ("1...2", ["1", "..", ".2"]),
        ("1.5.6", ["1.5", ".6"]),
        ("a.5", ["a", ".5"]),
        ("a:::b", ["a", "::", ":", "b"]),
        ("a[1:b]", ["a", "[", "1", ":", "b", "]"]),
        # Literals that end where one would not think.
        ("b'1''0'", ["b'1'", "'0'"]),
        ("'a' 'b'", ["'a'", "'b'"]),
        ("'a' /* */\n'b'", ["'a'", "'b'"]),
        ("'a'\n'\\' b", ["'a'\n'\\'", "b"]),
        ("me'\\'", ["me", "'\\'"]),
        ("u&a", ["u", "&", "a"]),
        ("a$b$c", ["a$b$c"]),
        ("$a$ $b$a$", ["$a$ $b$a$"]),
        ("$$$$a", ["$$$$", "a"]),
    ],
)
def test_cuts_where_postgresql_does(sql: str, texts: list[str]) -> None:
    assert [text for _, text in kinds_and_texts(sql)] == texts


@pytest.mark.parametrize(
    ("sql", "position", "reason"),
    [
        ("a 'b", 2, "string is never closed"),
        ("a 'b''", 2, "string is never closed"),
        ("a E'b\\'", 2, "string is never closed"),
        ("a U&'b", 2, "string is never closed"),
        ("a N'b'\n'", 2, "string is never closed"),
        ("E'a'\n'\\' b", 0, "string is never closed"),
        ('a "b', 2, "quoted identifier is empty or never closed"),
        ('a ""', 2, "quoted identifier is empty or never closed"),
        ('a U&"b', 2, "quoted identifier is empty or never closed"),
        ("a /* b", 2, "comment is never closed"),
        ("a /* /* */", 2, "comment is never closed"),
        ("/*" * (MAX_COMMENT_DEPTH + 1) + "*/" * (MAX_COMMENT_DEPTH + 1), 0, "deeper than 8 levels"),
        ("a $$ b", 2, "dollar-quoted string is never closed"),
        ("a $q$ b $Q$", 2, "dollar-quoted string is never closed"),
        ("a $q b", 2, "does not begin a positional parameter"),
        ("a $1b", 2, "positional parameter is followed"),
        ("1a", 0, "number is malformed"),
        ("a 1e", 2, "number is malformed"),
        ("1e+", 0, "number is malformed"),
        ("1__0", 0, "number is malformed"),
        ("0x", 0, "number is malformed"),
        ("0b1$1", 0, "number is malformed"),
        ("1\u0661", 0, "number is malformed"),
        ("@a$", 0, "parameter's name"),
        ("@naïve", 0, "parameter's name"),
        ("@e'\\''", 0, "parameter's name"),
        ('@a"b"', 0, "parameter's name"),
        ("+*" * 32, 0, "operator is longer than 63"),
        ("a \\ b", 2, "U+005C"),
        ("a\v", 1, "U+000B"),
        ("{", 0, "U+007B"),
        ("'a\x00'", 2, "NUL"),
        ("'\udc2f'", 1, "lone surrogate"),
        ("é" + chr(0xDC24), 1, "lone surrogate"),
    ],
)
def test_refuses_what_it_could_misread(sql: str, position: int, reason: str) -> None:
    with pytest.raises(LexicalError, match=reason.replace("+", r"\+")) as refusal:
        lex(sql)
    assert refusal.value.position == position


def test_reads_comments_nested_to_the_limit() -> None:
    comment = "/*" * MAX_COMMENT_DEPTH + "*/" * MAX_COMMENT_DEPTH
    assert lex(comment) == (Lexeme(Kind.COMMENT, comment, 0),)


def test_spans_point_into_the_text() -> None:
    sql = "select é, '/$' -- x\nfrom @t"
    assert [sql[lexeme.start : lexeme.end] for lexeme in lex(sql)] == [lexeme.text for lexeme in lex(sql)]


def test_leaves_the_shared_sqlparse_lexer_alone() -> None:
    lex("select 1")
    assert sqlparse.format("select 1 from a", keyword_case="upper") == "SELECT 1 FROM a"


@pytest.mark.parametrize(
    "tokens",
    [
        [(Token.OPERATOR, "<"), (Token.OPERATOR, "="), (Token.WORD, "a")],
        [(Token.OPERATOR, "<=")],
        [(Token.WORD, "<="), (Token.WORD, "a")],
        [(Token.Operator, "<="), (Token.WORD, "a")],
        [(Token.OPERATOR, "<="), (Token.WORD, "a"), (Token.WORD, "b")],
    ],
)
def test_refuses_when_sqlparse_cuts_elsewhere(tokens: list[tuple[Any, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexemes, "_LEXER", SimpleNamespace(get_tokens=lambda _: iter(tokens)))
    with pytest.raises(LexicalError):
        lex("<=a")


@pytest.mark.parametrize(
    "sql",
    ["/*" * 20_000, "+-" * 20_000, "'a' " * 5_000, "$a$" * 5_001, "1_" * 20_000, "'a'\n--" * 3_000, "/*/" * 9_000],
)
def test_takes_linear_time_on_hostile_text(sql: str) -> None:
    # Quadratic time would take a minute.
    assert not takes_longer_than(2, lambda: lex(sql), refusals=(LexicalError,))


@settings(deadline=None, max_examples=300)
@given(st.text() | TRICKY_TEXT)
@example("'/' || $$ / $ $$ /* / */")
def test_is_lossless_or_refuses_with_a_position(sql: str) -> None:
    try:
        found = lex(sql)
    except LexicalError as error:
        refused_at = error.position
    else:
        refused_at = None
    if refused_at is not None:
        assert 0 <= refused_at < len(sql)
        return
    assert "".join(lexeme.text for lexeme in found) == sql
    assert [lexeme.start for lexeme in found] == [0, *(lexeme.end for lexeme in found)][: len(found)]


def our_boundaries(found: tuple[Lexeme, ...]) -> list[tuple[int, int]]:
    boundaries: list[tuple[int, int]] = []
    for lexeme in found:
        if lexeme.kind is Kind.NATIONAL_STRING:  # PostgreSQL's scanner gives the prefix as a word of its own
            boundaries += [(lexeme.start, lexeme.start + 1), (lexeme.start + 1, lexeme.end)]
        elif lexeme.kind is not Kind.WHITESPACE:
            boundaries.append((lexeme.start, lexeme.end))
    return boundaries


@settings(deadline=None, max_examples=600)
@given(TRICKY_TEXT)
@example("E'a'\n'\\' b'")
@example("a<@b @-1 'a' -- x\n 'b' é $é$ $é$")
def test_agrees_with_the_scanner_of_postgresql(sql: str) -> None:
    try:
        found = lex(sql)
        theirs = [(token.start, token.end + 1) for token in pglast.parser.scan(sql)]
    except (LexicalError, pglast.parser.ParseError):
        assume(False)
    assume(all(lexeme.kind is not Kind.PARAMETER for lexeme in found))
    assert our_boundaries(found) == theirs


@pytest.mark.parametrize(
    ("text", "offset", "expected"),
    [
        ("", 0, (1, 1)),
        ("abc", 2, (1, 3)),
        ("a\nb", 1, (1, 2)),
        ("a\nb", 2, (2, 1)),
        ("a\r\nb", 3, (2, 1)),
        ("a\rb", 2, (2, 1)),
        ("é\n\nxy", 4, (3, 2)),
        ("a\u2028b", 2, (1, 3)),
    ],
)
def test_tells_line_and_column(text: str, offset: int, expected: tuple[int, int]) -> None:
    assert line_and_column(text, offset) == expected
