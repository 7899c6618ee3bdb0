"""Stored SQL and arguments → the one `Statement` that runs: ``@name`` becomes ``($n::type)``, rows are limited.

Values never enter the SQL text, so it is the same for all arguments and is made once: `compile_query` keeps it.
The parentheses let every suffix follow a parameter, as in ``@list[1]`` or ``@start::date``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from endpoints.results.outcomes import BoundValue, Statement
from endpoints.sql.coercion import ParameterType
from endpoints.sql.lexemes import Kind, Lexeme, LexicalError, lex, line_and_column
from endpoints.sql.parameters import DeclaredParameter

COMPILED_QUERIES_KEPT: Final = 512  # more than the endpoints of one installation; each is a few kB
_QUERY_BEGINNINGS: Final = frozenset({"select", "with", "values", "table"})
_NAME_KINDS: Final = frozenset({Kind.WORD, Kind.QUOTED_IDENTIFIER, Kind.UNICODE_IDENTIFIER})
LIMIT_PREFIX: Final = "SELECT * FROM (\n"
_CLOSING: Final = {"(": ")", "[": "]"}


class CompositionError(ValueError):
    """Stored SQL that cannot be run as one query; `line` and `column` (1-based) say where in it."""

    def __init__(self, message: str, *, line: int, column: int) -> None:
        super().__init__(f"{message} (line {line}, column {column})")
        self.message = message
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """SQL with numbered placeholders, and which parameter each number takes: `parameter_names[0]` is ``$1``."""

    sql: str
    parameter_names: tuple[str, ...]

    def statement(self, arguments: Mapping[str, BoundValue]) -> Statement:
        """Return the statement for these arguments. Raises KeyError when one of the parameters is missing."""
        return Statement(self.sql, tuple(arguments[name] for name in self.parameter_names))


def compile_query(sql: str, parameters: Sequence[DeclaredParameter], *, max_rows: int) -> CompiledQuery:
    """Return the stored query bound and limited; the last few hundred are remembered.

    Raises CompositionError when the SQL is not exactly one query.
    """
    return _compiled(sql, _types(parameters), max_rows)


def limit_rows(sql: str, *, max_rows: int) -> str:
    """Return a query around one query that gives at most ``max_rows + 1`` rows: the spare one tells of a cut.

    `sql` has to be one balanced query without a trailing ``;``, as `single_query` returns it.
    """
    # The line break before ")" ends a "--" comment, which would otherwise swallow the rest.
    return f"{LIMIT_PREFIX}{sql}\n) AS result LIMIT {max_rows + 1:d}"


def single_query(sql: str) -> tuple[Lexeme, ...]:
    """Return the lexemes of the one query in `sql`, without blanks around it and one trailing ``;``.

    Raises CompositionError when the text cannot be lexed, is empty, does not begin like a query, holds a second
    statement or a ``$1``, or closes what it did not open: then it could leave the parentheses put around it.
    """
    try:
        lexemes = lex(sql)
    except LexicalError as error:
        raise _error(sql, error.position, error.message) from error
    seen = [index for index, lexeme in enumerate(lexemes) if not lexeme.is_blank]
    if seen and lexemes[seen[-1]].text == ";":
        seen.pop()
    if not seen:
        raise _error(sql, 0, "there is no query")
    query = lexemes[seen[0] : seen[-1] + 1]
    if query[0].text != "(" and query[0].text.lower() not in _QUERY_BEGINNINGS:
        raise _error(sql, query[0].start, "a query begins with SELECT or WITH")
    _check_structure(sql, query)
    return query


def _check_structure(sql: str, query: Sequence[Lexeme]) -> None:
    open_: list[Lexeme] = []
    for lexeme in query:
        if lexeme.kind is Kind.POSITIONAL:
            raise _error(sql, lexeme.start, "write @name, not a numbered parameter")
        if lexeme.kind is not Kind.PUNCTUATION:
            continue
        if lexeme.text == ";":
            raise _error(sql, lexeme.start, "a second statement")
        if lexeme.text in _CLOSING:
            open_.append(lexeme)
        elif lexeme.text in _CLOSING.values() and (not open_ or _CLOSING[open_.pop().text] != lexeme.text):
            raise _error(sql, lexeme.start, f"`{lexeme.text}` closes nothing")
    if open_:
        raise _error(sql, open_[-1].start, f"`{open_[-1].text}` is never closed")


def replace_parameters(sql: str, replacement: Callable[[str], str]) -> str:
    """Return the one query in `sql` with ``replacement(name)`` for every ``@name``; see `single_query` for errors.

    Also raises CompositionError for a parameter glued to a name: ``x@y`` would turn into the call ``x(…)``.
    """
    pieces: list[str] = []
    before: Lexeme | None = None
    for lexeme in single_query(sql):
        if lexeme.kind is Kind.PARAMETER:
            if before is not None and before.kind in _NAME_KINDS:
                raise _error(sql, lexeme.start, f"write a space or an operator before {lexeme.text}")
            pieces.append(replacement(lexeme.text[1:]))
        else:
            pieces.append(lexeme.text)
        before = lexeme
    return "".join(pieces)


def original_offset(sql: str, parameters: Sequence[DeclaredParameter], offset: int) -> int:
    """Return where in `sql` an offset of the statement that `compile_query` made of it belongs: for error positions.

    An offset inside a placeholder belongs to its ``@name``; one behind the query to the query's end.
    """
    types = _types(parameters)
    emitted = len(LIMIT_PREFIX)
    numbers: dict[str, int] = {}
    query = single_query(sql)
    for lexeme in query:
        text = lexeme.text
        if lexeme.kind is Kind.PARAMETER:
            text = _placeholder(text[1:], dict(types), numbers)
        if offset < emitted + len(text):
            inside = max(offset - emitted, 0)
            return lexeme.start if lexeme.kind is Kind.PARAMETER else lexeme.start + inside
        emitted += len(text)
    return query[-1].end


def _types(parameters: Sequence[DeclaredParameter]) -> tuple[tuple[str, ParameterType], ...]:
    return tuple((parameter.name, parameter.type) for parameter in parameters)


@lru_cache(maxsize=COMPILED_QUERIES_KEPT)
def _compiled(sql: str, types: tuple[tuple[str, ParameterType], ...], max_rows: int) -> CompiledQuery:
    numbered = _numbered(sql, types)
    return CompiledQuery(limit_rows(numbered.sql, max_rows=max_rows), numbered.parameter_names)


def _numbered(sql: str, types: tuple[tuple[str, ParameterType], ...]) -> CompiledQuery:
    type_of = dict(types)
    numbers: dict[str, int] = {}

    bound = replace_parameters(sql, lambda name: _placeholder(name, type_of, numbers))
    return CompiledQuery(bound, tuple(numbers))


def _placeholder(name: str, type_of: Mapping[str, ParameterType], numbers: dict[str, int]) -> str:
    """Return ``($n::type)``, the same name always under the same number.

    where a = @x and b > @y or c = @x  ->  where a = ($1::text) and b > ($2::bigint) or c = ($1::text)
    """
    number = numbers.setdefault(name, len(numbers) + 1)
    return f"(${number}::{type_of.get(name, ParameterType.TEXT).postgresql_type})"


def _error(sql: str, position: int, message: str) -> CompositionError:
    line, column = line_and_column(sql, position)
    return CompositionError(message, line=line, column=column)
