"""Format a stored query: one clause per line, reserved words in capitals, and not one lexeme more or less."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import sqlparse

from endpoints.sql.lexemes import Kind, Lexeme, LexicalError, lex

MAX_FORMATTED_CHARACTERS: Final = 100_000  # sqlparse takes some seconds for more
# Reserved in PostgreSQL (manual, appendix C), or never a name in their place; sqlparse's own list contains columns
# too, such as "level" and "timestamp".
_CAPITALS: Final = frozenset({
    "ALL", "AND", "ANY", "ARRAY", "AS", "ASC", "BETWEEN", "BY", "CASE", "CAST", "COALESCE", "CROSS", "DESC",
    "DISTINCT", "ELSE", "END", "EXCEPT", "EXISTS", "FALSE", "FROM", "FULL", "GROUP", "HAVING", "ILIKE", "IN",
    "INNER", "INTERSECT", "IS", "JOIN", "LATERAL", "LEFT", "LIKE", "LIMIT", "NOT", "NULL", "NULLIF", "OFFSET", "ON",
    "OR", "ORDER", "OUTER", "RIGHT", "SELECT", "THEN", "TRUE", "UNION", "USING", "WHEN", "WHERE", "WINDOW", "WITH",
})  # fmt: skip


class NotFormattable(ValueError):
    """SQL that is too long, cannot be read, or would not mean the same afterwards; the message says which."""


def format_sql(sql: str) -> str:
    """Return `sql` laid out by sqlparse, every lexeme of PostgreSQL's kept, comments too. Raises NotFormattable.

    sqlparse reads SQL by rules of its own, which are not PostgreSQL's: what it returns counts only when PostgreSQL
    would read the same lexemes in it.
    """
    if len(sql) > MAX_FORMATTED_CHARACTERS:
        raise NotFormattable(f"SQL of more than {MAX_FORMATTED_CHARACTERS} characters is not formatted.")
    try:
        before = _meaning(lex(sql))
    except LexicalError as error:
        raise NotFormattable(f"The SQL cannot be read: {error.message}.") from error
    try:
        formatted = sqlparse.format(sql, reindent=True, indent_width=2, wrap_after=100).strip()
        laid_out = lex(formatted)
    except (LexicalError, sqlparse.exceptions.SQLParseError) as error:
        raise NotFormattable("The SQL cannot be formatted without a change of its meaning.") from error
    if _meaning(laid_out) != before:
        raise NotFormattable("The SQL cannot be formatted without a change of its meaning.")
    return "".join(_capitalised(laid_out))


def _capitalised(lexemes: tuple[Lexeme, ...]) -> Iterator[str]:
    # t.left and t."left" are columns: reserved or not, a word after a dot is a name
    before = ""
    for lexeme in lexemes:
        is_word = lexeme.kind is Kind.WORD and before != "." and lexeme.text.upper() in _CAPITALS
        yield lexeme.text.upper() if is_word else lexeme.text
        before = lexeme.text


def _meaning(lexemes: tuple[Lexeme, ...]) -> list[str]:
    """Return what PostgreSQL reads: an unquoted word means the same in every case, white space means nothing."""
    # Comments count, so that none gets lost; white space inside and after them does not.
    return [
        " ".join(lexeme.text.split()) if lexeme.kind is Kind.COMMENT else _folded(lexeme)
        for lexeme in lexemes
        if lexeme.kind is not Kind.WHITESPACE
    ]


def _folded(lexeme: Lexeme) -> str:
    # Not the rest: in a string the case counts, and so it does in a parameter's name.
    return lexeme.text.lower() if lexeme.kind is Kind.WORD else lexeme.text
