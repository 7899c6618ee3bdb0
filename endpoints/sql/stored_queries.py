"""A stored query, taken apart: its CTEs, each of which becomes a sandbox table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from endpoints.sql.composition import single_query
from endpoints.sql.lexemes import Kind, Lexeme

MAX_NAME_BYTES: Final = 63  # PostgreSQL cuts a longer name, which could then be the name of another table
_QUERY_BEGINNINGS: Final = frozenset({"select", "with", "values", "table", "("})
_OPENING: Final = frozenset({"(", "["})
_CLOSING: Final = frozenset({")", "]"})


class StoredTablesError(ValueError):
    """A stored query whose CTEs cannot be sandbox tables; `position` is the offset in it."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


@dataclass(frozen=True, slots=True)
class StoredTable:
    """One CTE: its name as PostgreSQL folds it, its column names if it lists them, and its query with ``@name``.

    `position` is the offset of its name in the stored query.
    """

    name: str
    columns: tuple[str, ...]
    sql: str
    position: int


def stored_tables(sql: str) -> tuple[StoredTable, ...]:
    """Return the CTEs of the WITH list that the stored query begins with; none without one.

    Raises StoredTablesError for what cannot be a sandbox table (a recursive CTE, one that is no query, a name that
    PostgreSQL would cut or look up in its catalog), CompositionError when the SQL is not one query.
    """
    query = [lexeme for lexeme in single_query(sql) if not lexeme.is_blank]
    if _word(query[0]) != "with":
        return ()
    tables = tuple(_tables(_Reader(query), sql))
    seen: set[str] = set()
    for table in tables:
        if table.name in seen:
            raise StoredTablesError(f"the CTE `{table.name}` is defined twice", table.position)
        seen.add(table.name)
    return tables


class _Reader:
    """The lexemes of a query, one after the other."""

    def __init__(self, lexemes: Sequence[Lexeme]) -> None:
        self._lexemes = lexemes
        self._index = 1  # after WITH

    def peek(self) -> Lexeme:
        if self._index == len(self._lexemes):
            raise StoredTablesError("the query ends inside its WITH list", self._lexemes[-1].end)
        return self._lexemes[self._index]

    def take(self) -> Lexeme:
        lexeme = self.peek()
        self._index += 1
        return lexeme

    def take_word(self, word: str) -> bool:
        """Step over the key word; return whether it was there."""
        if _word(self.peek()) != word:
            return False
        self._index += 1
        return True

    def expect(self, text: str) -> Lexeme:
        lexeme = self.take()
        if lexeme.text.lower() != text:
            raise StoredTablesError(f"`{text.upper()}` is expected in the WITH list", lexeme.start)
        return lexeme

    def skip_to_closing(self) -> Lexeme:
        """Step after the bracket that closes the one just taken and return it; `single_query` has paired them."""
        depth = 1
        while True:
            lexeme = self.take()
            if lexeme.kind is Kind.PUNCTUATION:
                depth += (lexeme.text in _OPENING) - (lexeme.text in _CLOSING)
            if depth == 0:
                return lexeme


def _tables(reader: _Reader, sql: str) -> Iterator[StoredTable]:
    if _word(reader.peek()) == "recursive":
        raise StoredTablesError("WITH RECURSIVE cannot be used in a query with sandboxing", reader.peek().start)
    while True:
        yield _table(reader, sql)
        if reader.peek().text != ",":
            return
        reader.take()


def _table(reader: _Reader, sql: str) -> StoredTable:
    first = reader.take()
    name = _table_name(first)
    columns = tuple(_column_list(reader)) if reader.peek().text == "(" else ()
    reader.expect("as")
    if reader.take_word("not") or _word(reader.peek()) == "materialized":
        reader.expect("materialized")
    opening = reader.expect("(")
    beginning = reader.peek()
    if beginning.text.lower() not in _QUERY_BEGINNINGS:
        raise StoredTablesError(f"the CTE `{name}` must be a SELECT to be a sandbox table", beginning.start)
    closing = reader.skip_to_closing()
    return StoredTable(name, columns, sql[opening.end : closing.start], first.start)


def _column_list(reader: _Reader) -> Iterator[str]:
    reader.take()
    while True:
        yield _name(reader.take())
        separator = reader.take()
        if separator.text == ")":
            return
        if separator.text != ",":
            raise StoredTablesError("a list of column names is expected", separator.start)


def may_be_of_catalog(name: str) -> bool:
    """Tell whether PostgreSQL may have a relation of this name: all begin with `pg_`, and none ends with `_logs`."""
    return name.startswith("pg_") and not name.endswith("_logs")


def _table_name(lexeme: Lexeme) -> str:
    name = _name(lexeme)
    if may_be_of_catalog(name):
        # Without the view such a name would mean a relation of PostgreSQL's.
        reason = "a sandbox table's name may not begin with `pg_`, unless it ends with `_logs`"
        raise StoredTablesError(f"{reason}: `{name}`", lexeme.start)
    return name


def _name(lexeme: Lexeme) -> str:
    """Return the identifier as PostgreSQL stores it: only ASCII letters are folded."""
    if lexeme.kind is Kind.WORD:
        # not str.lower(): PostgreSQL leaves İ and É as they are.
        name = "".join(character.lower() if character.isascii() else character for character in lexeme.text)
    elif lexeme.kind is Kind.QUOTED_IDENTIFIER:
        name = lexeme.text[1:-1].replace('""', '"')
    else:
        raise StoredTablesError("a plain or quoted name is expected in the WITH list", lexeme.start)
    if len(name.encode()) > MAX_NAME_BYTES:
        raise StoredTablesError(f"the name is longer than {MAX_NAME_BYTES} bytes", lexeme.start)
    return name


def _word(lexeme: Lexeme) -> str:
    return lexeme.text.lower() if lexeme.kind is Kind.WORD else ""
