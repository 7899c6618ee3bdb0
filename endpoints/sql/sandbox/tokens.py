"""Lexemes → the tokens that the sandbox's grammar reads: blanks gone, every form checked, literals re-quoted.

A token is identified by its symbol: a word folded to lower case, an operator or punctuation as it is written, and for
all else one of the constants below. Quoted identifiers have their own symbol, so ``"select"`` is never the key word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from endpoints.errors import RequestTooLarge, SandboxViolation
from endpoints.sql.lexemes import INVISIBLE, INVISIBLE_REASON, Kind, Lexeme, LexicalError, called, lex
from endpoints.sql.sandbox.vocabulary import THE_QUERY, violation

QUOTED: Final = '"'
STRING: Final = "'"
NUMBER: Final = "0"
PARAMETER: Final = "@name"
END: Final = ""

# Control characters and the like: none has a use in a query, each has been misread by some tool. White space is
# blank, tab and line end; \f is refused with them. Lone surrogates are refused by the lexer.
_UNWANTED: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]")
_WORD: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_QUOTED: Final = re.compile(r'"[ !#-\[\]-~]+"')  # printable ASCII but the double quote and the backslash
_NUMBER: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")  # the same in 15 and in 18
_STRING: Final = re.compile("'(?>(?:[^']|'')*)'")  # one piece, not several continued over line ends
# Roughly the lexemes of a text, counted fast: a text that surely has too many never reaches the lexer.
_ROUGH_LEXEME: Final = re.compile(
    r"--[^\n\r]*+|/[*][\s\S]*?[*]/|'[^']*+'|\"[^\"]*+\"|[A-Za-z_][A-Za-z0-9_]*+|[0-9]++|\s++|."
)
_CLOSING: Final = {"(": ")", "[": "]"}
_SHORT: Final = 64  # characters; translations have the same few short pieces
_lex_short: Final = lru_cache(maxsize=2_000)(lex)


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """The limits of a sandbox query; each one bounds the time for checking or for PostgreSQL's planner."""

    bytes: int = 16 * 1024  # of the text in UTF-8
    tokens: int = 3_000
    depth: int = 32  # brackets and CASE within one another
    from_items: int = 32  # in the whole query
    from_items_per_select: int = 12
    identifier_bytes: int = 63  # NAMEDATALEN - 1: a longer one would be cut silently
    prefix_operators: int = 8  # in a row
    nested_operators: int = 300  # PostgreSQL plans a chain of twins in the square of its length


@dataclass(frozen=True, slots=True)
class Tokens:
    """A query as parallel lists, the end of the text last; `values` are names folded, or literals ready to be sent.

    `closers` gives the index of the bracket that closes the one at this index, and 0 for everything else.
    """

    symbols: list[str]
    values: list[str]
    starts: list[int]
    closers: list[int]


class TokenReader:
    """Reads one text, or its translation, into `Tokens`; raises SandboxViolation for forms that are not wanted."""

    def __init__(
        self, text: str, limits: SandboxLimits, *, tables: Sequence[str], translated: Sequence[tuple[str, int]] = ()
    ) -> None:
        self._text = text
        self._limits = limits
        self._tables = tables
        self._is_translated = bool(translated)
        self._pieces = translated or ((text, 0),)
        self._sql = " ".join([piece for piece, _ in self._pieces])

    def read(self) -> Tokens:
        """Return the tokens. Also raises RequestTooLarge if the text is over the length limit."""
        self._refuse_long_text()
        self._refuse_unwanted_characters()
        tokens = Tokens([], [], [], [])
        for lexeme in self._lexemes():
            kind, text, start = lexeme
            if kind is Kind.WHITESPACE or kind is Kind.COMMENT:
                continue
            read_value = _READ_VALUE.get(kind)
            if read_value is None:
                symbol = value = text
                if kind is not Kind.OPERATOR and kind is not Kind.PUNCTUATION:
                    raise self._refusal(start, text, f"is not part of sandbox queries ({kind.value})")
            else:
                symbol, value = read_value(self, lexeme)
            tokens.symbols.append(symbol)
            tokens.values.append(value)
            tokens.starts.append(start)
        if len(tokens.symbols) > self._limits.tokens:
            raise self._too_many_tokens(tokens.starts[self._limits.tokens])
        tokens.symbols.append(END)
        tokens.values.append("")
        tokens.starts.append(self._place(self._pieces[-1][1], len(self._sql)))
        self._match_brackets(tokens)
        return tokens

    def _place(self, origin: int, offset: int) -> int:
        """Return the place of an offset in a piece: of a translation only that of the whole piece is known."""
        return origin if self._is_translated else offset

    def _refuse_long_text(self) -> None:
        # A surrogate is refused later, with its place; it must not raise an encoding error here.
        if len(self._sql) > self._limits.bytes or len(self._sql.encode(errors="replace")) > self._limits.bytes:
            raise RequestTooLarge(f"A sandbox query may have at most {self._limits.bytes} bytes.")

    def _refuse_unwanted_characters(self) -> None:
        if not _UNWANTED.search(self._sql):
            return
        for piece, origin in self._pieces:
            if unwanted := _UNWANTED.search(piece):
                name = f"U+{ord(unwanted.group()):04X}"
                raise self._refusal(self._place(origin, unwanted.start()), name, "cannot be part of a query")

    def _lexemes(self) -> Iterator[Lexeme]:
        """Yield the lexemes with their places in the consumer's text; a translation's never go on in the next piece."""
        # Twice the limit: every token may have one blank lexeme before it.
        if len(_ROUGH_LEXEME.findall(self._sql)) > 2 * self._limits.tokens + 1:
            raise self._too_many_tokens(self._pieces[0][1])
        for piece, origin in self._pieces:
            try:
                lexemes = _lex_short(piece) if len(piece) <= _SHORT else lex(piece)
            except LexicalError as error:
                construct = piece[error.position : error.position + 1]
                if not construct.isprintable():
                    construct = f"U+{ord(construct):04X}"
                place = self._place(origin, error.position)
                raise self._refusal(place, construct, f"cannot be read: {error.message}") from error
            if self._is_translated:
                yield from [Lexeme(kind, text, origin) for kind, text, _ in lexemes]
            else:
                yield from lexemes

    def read_word(self, lexeme: Lexeme) -> tuple[str, str]:
        """Return a word folded; only ASCII, since PostgreSQL's folding of other letters depends on the server."""
        if not _WORD.fullmatch(lexeme.text):
            if hidden := INVISIBLE.search(lexeme.text):
                raise self._refusal(lexeme.start + hidden.start(), called(hidden.group()), INVISIBLE_REASON)
            reason = "is not a name: a name without quotes may have only ASCII letters, digits and `_`"
            raise self._refusal(lexeme.start, lexeme.text, reason)
        self._refuse_long_name(lexeme)
        folded = lexeme.text.lower()
        return folded, folded

    def read_quoted_identifier(self, lexeme: Lexeme) -> tuple[str, str]:
        """Return the text between the double quotes."""
        if not _QUOTED.fullmatch(lexeme.text):
            reason = 'is not a name: a name in quotes may have only printable ASCII characters, without `"` and `\\`'
            raise self._refusal(lexeme.start, lexeme.text, reason)
        name = lexeme.text[1:-1]
        self._refuse_long_name(lexeme, length=len(name))
        return QUOTED, name

    def read_string(self, lexeme: Lexeme) -> tuple[str, str]:
        """Return a literal that means the same whatever standard_conforming_strings says."""
        if not _STRING.fullmatch(lexeme.text):
            reason = "begins a string that continues on another line, which is not part of sandbox queries"
            raise self._refusal(lexeme.start, "'", reason)
        if "\\" in lexeme.text:
            return STRING, "E" + lexeme.text.replace("\\", "\\\\")
        return STRING, lexeme.text

    def read_number(self, lexeme: Lexeme) -> tuple[str, str]:
        """Return a decimal number; PostgreSQL 15 would read ``0x1F`` and ``1_000`` as a number and a name."""
        if not _NUMBER.fullmatch(lexeme.text):
            raise self._refusal(lexeme.start, lexeme.text, "must be written in decimal digits")
        return NUMBER, lexeme.text

    def read_parameter(self, lexeme: Lexeme) -> tuple[str, str]:
        """Return the name without its marker."""
        return PARAMETER, lexeme.text[1:]

    def _match_brackets(self, tokens: Tokens) -> None:
        tokens.closers.extend([0] * len(tokens.symbols))
        open_: list[int] = []
        for index, symbol in enumerate(tokens.symbols):
            if symbol in _CLOSING:
                if len(open_) >= self._limits.depth:
                    reason = f"is nested deeper than {self._limits.depth} levels"
                    raise self._refusal(tokens.starts[index], symbol, reason)
                open_.append(index)
            elif symbol == ")" or symbol == "]":
                if not open_ or _CLOSING[tokens.symbols[open_[-1]]] != symbol:
                    raise self._refusal(tokens.starts[index], symbol, "closes nothing")
                tokens.closers[open_.pop()] = index
        if open_:
            raise self._refusal(tokens.starts[open_[-1]], tokens.symbols[open_[-1]], "is never closed")

    def _refuse_long_name(self, lexeme: Lexeme, *, length: int | None = None) -> None:
        limit = self._limits.identifier_bytes
        if (len(lexeme.text) if length is None else length) > limit:
            raise self._refusal(lexeme.start, lexeme.text, f"is a name of more than {limit} bytes")

    def _too_many_tokens(self, offset: int) -> SandboxViolation:
        return self._refusal(offset, THE_QUERY, f"has more than {self._limits.tokens} words and signs")

    def _refusal(self, offset: int, construct: str, reason: str) -> SandboxViolation:
        return violation(self._text, offset, construct=construct, reason=reason, tables=self._tables)


_READ_VALUE: Final[dict[Kind, Callable[[TokenReader, Lexeme], tuple[str, str]]]] = {
    Kind.WORD: TokenReader.read_word,
    Kind.QUOTED_IDENTIFIER: TokenReader.read_quoted_identifier,
    Kind.STRING: TokenReader.read_string,
    Kind.NUMBER: TokenReader.read_number,
    Kind.PARAMETER: TokenReader.read_parameter,
}
