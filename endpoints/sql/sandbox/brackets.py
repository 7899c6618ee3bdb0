"""Brackets that may hold a query or expressions: telling which, and reading either."""

from __future__ import annotations

from typing import Final

from endpoints.sql.sandbox.reader import Reader
from endpoints.sql.sandbox.scopes import Columns
from endpoints.sql.sandbox.vocabulary import SET_OPERATIONS

_QUERY_BEGINNINGS: Final = frozenset({"select", "with"})
_BEHIND_QUERY: Final = SET_OPERATIONS | {")", "order", "limit", "offset", "fetch"}


def holds_query(reader: Reader) -> bool:
    """Whether the bracket at the current token holds a query, not an expression or a join."""
    # (select …), ((select …) union …), but not ((select …) + 1), not ((select …) q join …)
    index = reader.index
    while reader.symbols[index] == "(":
        if index > reader.index and reader.symbols[reader.closers[index] + 1] not in _BEHIND_QUERY:
            return False
        index += 1
    return reader.symbols[index] in _QUERY_BEGINNINGS and index > reader.index


def subquery(reader: Reader) -> Columns:
    """Take ``( query )``."""
    reader.expect("(")
    columns, _ = reader.grammar.query(reader)
    reader.expect(")")
    return columns


def list_or_query(reader: Reader) -> None:
    """Take ``( query )`` or ``( expression, … )``."""
    if holds_query(reader):
        subquery(reader)
    else:
        reader.read("(", Reader.expressions, ")")
