"""SQL text → lexemes, by PostgreSQL's own lexical rules (PostgreSQL manual, chapter 4.1, "Lexical Structure").

`lex` promises three things: the lexemes joined are the text; every boundary is where PostgreSQL 15 to 18 puts it
(with ``standard_conforming_strings = on`` and UTF-8); what could be misread raises `LexicalError`. Two differences
are wanted: the parameter marker, and a literal that keeps its prefix (``N'…'`` is one lexeme here, two there).

How PostgreSQL reads operators, and where ``@name`` is a parameter:

* an operator is the longest run of ``+ - * / < > = ~ ! @ # % ^ & | ` ?``; ``--`` or ``/*`` inside the run ends it;
* a run of several characters ends in ``+`` or ``-`` only if it contains one of ``~ ! @ # % ^ & | ` ?``; otherwise
  the trailing signs begin the next operator: ``a=-1`` is ``a = -1``, ``a@-1`` is ``a @- 1``;
* ``@`` directly before an ASCII letter or ``_`` begins a parameter, even at the end of a run: ``x=@start`` and
  ``a||@suffix`` are an operator and a parameter, although PostgreSQL would read ``=@`` and ``||@``;
* unless the whole run is an operator that PostgreSQL has (`OPERATORS_ENDING_IN_AT`): ``a <@b`` and ``v @@q`` stay
  operators. A parameter after such an operator needs a space or follows it directly: ``a <@ @b``, ``a <@@b``;
* ``@`` before anything else is an operator: ``@ -5``, ``@ x`` and ``@(x)`` are absolute values, while ``@-5`` is
  the operator ``@-``, which PostgreSQL does not have;
* a parameter's name is ``[A-Za-z_][A-Za-z0-9_]*``. What would continue it as a PostgreSQL identifier (``$``, a
  non-ASCII letter) or turn it into a literal's prefix (a quote) is refused.

Only ASCII letters and digits have a meaning in these rules; every other character is part of an identifier, as in
PostgreSQL, or is inside quotes or comments.
"""

from __future__ import annotations

import re
import unicodedata
from enum import Enum
from typing import Final, NamedTuple

from sqlparse.lexer import Lexer
from sqlparse.tokens import Token

# pg_operator names that end in "@": the built-in ones of PostgreSQL 15 to 18, and ltree's.
OPERATORS_ENDING_IN_AT: Final = ("<@", "@@", "@@@", "@-@", "^@", "^<@")
MAX_COMMENT_DEPTH: Final = 8  # levels; PostgreSQL has no limit, a regular expression must have one
MAX_OPERATOR_CHARACTERS: Final = 63  # NAMEDATALEN - 1; also keeps long runs of signs from costing quadratic time


class LexicalError(ValueError):
    """Text that PostgreSQL would not read, or not read as we do; `position` is the offset where the fault starts."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


class Kind(Enum):
    """What a lexeme is; the value is its name in messages."""

    WHITESPACE = "white space"
    COMMENT = "comment"  # -- to the end of the line, or /* … */, nested
    WORD = "word"  # unquoted identifier or key word
    QUOTED_IDENTIFIER = "quoted identifier"  # "…"
    UNICODE_IDENTIFIER = "unicode identifier"  # U&"…"
    STRING = "string"  # '…', with '' for a quote
    ESCAPE_STRING = "escape string"  # E'…'
    BIT_STRING = "bit string"  # B'…', X'…'
    UNICODE_STRING = "unicode string"  # U&'…'
    NATIONAL_STRING = "national string"  # N'…'
    DOLLAR_STRING = "dollar-quoted string"  # $$…$$, $tag$…$tag$
    NUMBER = "number"
    POSITIONAL = "positional parameter"  # $1
    PARAMETER = "parameter"  # @name
    OPERATOR = "operator"
    PUNCTUATION = "punctuation"  # ( ) [ ] , ; . .. : :: :=


class Lexeme(NamedTuple):
    """One lexeme and where it starts. A named tuple because a query has hundreds and dataclasses cost three times."""

    kind: Kind
    text: str
    start: int

    @property
    def end(self) -> int:
        """The offset after the last character."""
        return self.start + len(self.text)

    @property
    def is_blank(self) -> bool:
        """Whether PostgreSQL's parser never sees it: white space or a comment."""
        return self.kind is Kind.WHITESPACE or self.kind is Kind.COMMENT


# Blanks that are none, and what no screen shows: copied from a page, they end names and begin others.
INVISIBLE: Final = re.compile("[\u00a0\u00ad\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]")
INVISIBLE_REASON: Final = "cannot be seen and is no blank; leave it out, or write a blank"

# ── The rules, one pattern a kind. No two can match at the same place, so their order does not matter.
# "/" and "$" mean only themselves in them ("[$]", never an anchor): see _shadow.
# A group that repeats without backtracking is `(?>(?:…)*)`, not `(?:…)*+`: Python before 3.11.5, such as Debian 12's,
# takes characters behind what the latter matches. Nothing in this project may use it (tests/test_patterns.py).
_NON_ASCII = r"\x80-\ud7ff\ue000-\U0010ffff"  # without lone surrogates
_NAME_START = rf"[A-Za-z_{_NON_ASCII}]"
_NAME = rf"{_NAME_START}[A-Za-z0-9_${_NON_ASCII}]*+"
_TAG = rf"{_NAME_START}[A-Za-z0-9_{_NON_ASCII}]*+"

# 'a' <newline> 'b' is one literal, and the later pieces are read by the first one's rules: in E'a' <newline> '\''
# the backslash escapes. Line comments may come between, block comments may not.
_CONTINUATION = r"(?>(?:[ \t\f]++|--[^\n\r]*+)*)[\n\r](?>(?:[ \t\n\r\f]++|--[^\n\r]*+[\n\r])*)'"
_PLAIN_BODY = r"[^']*+(?>(?:''[^']*+)*)"
_ESCAPE_BODY = r"[^'\\]*+(?>(?:(?:''|\\[\s\S])[^'\\]*+)*)"


def _literal(body: str) -> str:
    # A piece that is never closed makes the whole literal fail: otherwise it would be read again, by plain rules.
    return f"'{body}'(?>(?:{_CONTINUATION}{body}')*)(?!{_CONTINUATION})"


def _block_comment(depth: int) -> str:
    nested = "(?!)"  # matches nothing
    for _ in range(depth):
        nested = rf"/\*[^*/]*+(?>(?:(?:\*(?!/)|/(?!\*)|{nested})[^*/]*+)*)\*/"
    return nested


_DIGITS = "[0-9](?>(?:_?[0-9])*)"
_NUMBER = (
    r"(?>0[xX](?>(?:_?[0-9A-Fa-f])+)|0[oO](?>(?:_?[0-7])+)|0[bB](?>(?:_?[01])+)"
    rf"|(?:{_DIGITS}(?>(?:\.(?!\.)(?>(?:{_DIGITS})?))?)|\.{_DIGITS})(?>(?:[eE][+-]?{_DIGITS})?))"  # "1..2" is 1 .. 2
    rf"(?![$]|{_NAME_START})"  # trailing junk: an error in PostgreSQL too; "$" only after most forms, but never useful
)

_NOT_ENDED = r"(?!--|/\*|@[A-Za-z_])"  # a comment or a parameter starts here: the operator is over
_SIGN = rf"{_NOT_ENDED}[+\-*/<>=]"
_SPECIAL_SIGN = rf"{_NOT_ENDED}[~!@#%^&|`?]"
_ANY_SIGN = rf"{_NOT_ENDED}[~!@#%^&|`?+\-*/<>=]"
_OPERATOR = (
    rf"(?!(?:{_ANY_SIGN}){{{MAX_OPERATOR_CHARACTERS + 1}}})(?:"
    + rf"(?:{'|'.join(map(re.escape, sorted(OPERATORS_ENDING_IN_AT, key=len, reverse=True)))})(?=[A-Za-z_])"
    + rf"|(?>(?:{_SIGN})*){_SPECIAL_SIGN}(?>(?:{_ANY_SIGN})*)"  # may end in + or -
    + rf"|(?:{_SIGN})*{_NOT_ENDED}[*/<>=]"  # may not: backs off to the last other sign
    + rf"|{_NOT_ENDED}[+-])"
)

_RULES: Final[dict[Kind, str]] = {
    Kind.WHITESPACE: r"[ \t\n\r\f]++",  # not \v: white space for PostgreSQL 16, not for 15
    Kind.WORD: rf"""(?![EeBbXxNn]'|[Uu]&['"]){_NAME}""",
    Kind.PUNCTUATION: r"::|:=|:(?![:=])|\.\.|\.(?![.0-9])|[()\[\],;]",
    Kind.OPERATOR: _OPERATOR,
    Kind.STRING: _literal(_PLAIN_BODY),
    Kind.NUMBER: _NUMBER,
    Kind.PARAMETER: rf"""@[A-Za-z_][A-Za-z0-9_]*+(?![$'"{_NON_ASCII}])""",
    Kind.QUOTED_IDENTIFIER: r'"(?>(?:[^"]|"")+)"',
    Kind.COMMENT: rf"--[^\n\r]*+|{_block_comment(MAX_COMMENT_DEPTH)}",
    Kind.DOLLAR_STRING: rf"[$](?P<tag>(?>(?:{_TAG})?))[$][\s\S]*?[$](?P=tag)[$]",
    Kind.POSITIONAL: rf"[$][0-9]++(?!{_NAME_START})",
    Kind.ESCAPE_STRING: f"[eE]{_literal(_ESCAPE_BODY)}",
    Kind.BIT_STRING: "[bBxX]" + _literal("[^']*+"),  # a doubled quote is no quote in these
    Kind.NATIONAL_STRING: f"[nN]{_literal(_PLAIN_BODY)}",
    Kind.UNICODE_STRING: f"[uU]&{_literal(_PLAIN_BODY)}",
    Kind.UNICODE_IDENTIFIER: r'[uU]&"(?>(?:[^"]|"")+)"',
}

# Why a text is refused, by the text at the fault; the first match is reported.
_FAULTS: Final = tuple(
    (re.compile(pattern), message)
    for pattern, message in (
        (r'(?:[uU]&)?"', "a quoted identifier is empty or never closed"),
        (r"(?:[eEbBxXnN]|[uU]&)?'", "a string is never closed"),
        (r"/\*", f"a comment is never closed, or comments nest deeper than {MAX_COMMENT_DEPTH} levels"),
        (rf"[$](?:{_TAG})?[$]", "a dollar-quoted string is never closed"),
        (r"[$][0-9]", "a positional parameter is followed directly by a letter"),
        (r"[$]", "`$` does not begin a positional parameter or a dollar-quoted string"),
        (r"@[A-Za-z_]", "a parameter's name may have only ASCII letters, digits and `_`, and no quote after it"),
        (r"\.?[0-9]", "a number is malformed, or followed directly by a letter or `$`"),
        (r"[~!@#%^&|`?+\-*/<>=]", f"an operator is longer than {MAX_OPERATOR_CHARACTERS} characters"),
    )
)

_UNSENDABLE: Final = re.compile("[\x00\ud800-\udfff]")
_PATTERNS: Final = {kind: re.compile(rule) for kind, rule in _RULES.items()}
_KIND_OF_TOKEN: Final = {getattr(Token, kind.name): kind for kind in _RULES}


def _shadow(text: str) -> str:
    """Replace the characters that sqlparse treats in its own way by as many lone surrogates.

    From 0.6 on it pairs ``/*`` (not nested) and ``$tag$`` before it asks the configured rules, which would then
    never see them. Lone surrogates are free for this because `lex` refuses them in its input.
    """
    return text.replace("/", "\udc2f").replace("$", "\udc24")


def _postgresql_lexer() -> Lexer:
    """Return a sqlparse lexer of our own with PostgreSQL's rules; the library's shared instance stays untouched."""
    lexer = Lexer()
    lexer.clear()  # type: ignore[no-untyped-call]
    # (?-i:…) because set_SQL_REGEX compiles with IGNORECASE, under which [a-z] also matches U+017F and U+212A,
    # and the tags of a dollar-quoted string would match in any case.
    rules = [(f"(?-i:{_shadow(_RULES[kind])})", token) for token, kind in _KIND_OF_TOKEN.items()]
    lexer.set_SQL_REGEX(rules)  # type: ignore[no-untyped-call]
    return lexer


_LEXER: Final = _postgresql_lexer()


def lex(sql: str) -> tuple[Lexeme, ...]:
    """Return the lexemes of `sql`, white space and comments included; joined they are `sql`.

    Raises LexicalError for text that is not exactly a sequence of known lexemes, and for NUL and lone surrogates,
    which cannot be sent to PostgreSQL.
    """
    if unsendable := _UNSENDABLE.search(sql):
        raise LexicalError("a NUL character or a lone surrogate", unsendable.start())
    lexemes: list[Lexeme] = []
    start = 0
    for token, shadowed in _LEXER.get_tokens(_shadow(sql)):  # type: ignore[no-untyped-call]
        end = start + len(shadowed)
        kind = _KIND_OF_TOKEN.get(token)
        # Checked again on the real text: if sqlparse cuts at another place than the rule, we refuse.
        match = _PATTERNS[kind].match(sql, start) if kind else None
        if kind is None or match is None or match.end() != end:
            raise LexicalError(_fault(sql, start), start)
        lexemes.append(Lexeme(kind, match.group(), start))
        start = end
    if start != len(sql):
        raise LexicalError("the text was not read to its end", start)
    return tuple(lexemes)


def _fault(sql: str, position: int) -> str:
    if position == len(sql):
        return "the text was read past its end"
    for pattern, message in _FAULTS:
        if pattern.match(sql, position):
            return message
    return f"the character U+{ord(sql[position]):04X} has no meaning here"


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Return the 1-based line and column, in characters, of an offset; ``\\n``, ``\\r\\n`` and ``\\r`` end a line."""
    before = text[:offset]
    ends = list(re.finditer(r"\r\n|\n|\r", before))
    line_start = ends[-1].end() if ends else 0
    return len(ends) + 1, offset - line_start + 1


def called(character: str) -> str:
    """Return the code and the name of a character that cannot be seen: U+00A0 (NO-BREAK SPACE)."""
    return f"U+{ord(character):04X} ({unicodedata.name(character, 'no name')})"
