"""Queries: WITH, set operations, SELECT and its clauses, ORDER BY and LIMIT. The whole statement is one query."""

from __future__ import annotations

from typing import Final

from endpoints.sql.sandbox.calls import order_by, window
from endpoints.sql.sandbox.expressions import expression, operand
from endpoints.sql.sandbox.from_items import from_clause
from endpoints.sql.sandbox.names import bound_whole_rows, require_known_columns
from endpoints.sql.sandbox.reader import Reader, is_identifier, list_or_query, table_query
from endpoints.sql.sandbox.scopes import EVERY_COLUMN, Scope, Source, Star, Use
from endpoints.sql.sandbox.tokens import END
from endpoints.sql.sandbox.vocabulary import SET_OPERATIONS, THE_QUERY
from endpoints.sql.sandbox.weights import Listed, settle, source_of_branches, source_of_select, weight_of_planning

_ROWS: Final = ("row", "rows")


def statement(reader: Reader) -> None:
    """Take the whole text: one query, and at most one ``;`` after it."""
    if reader.symbol == END:
        raise reader.refusal("is empty", construct=THE_QUERY)
    if reader.symbol not in ("select", "with", "("):
        raise reader.refusal("cannot begin a sandbox query; begin with SELECT or WITH")
    query(reader)
    if reader.symbol == ";" and reader.following() == END:
        reader.symbol = END
    if reader.symbol != END:
        raise reader.unexpected()
    require_known_columns(reader)
    bound_whole_rows(reader)


def query(reader: Reader) -> tuple[Source, Scope]:
    """Take a query; return it, and the scope in which a clause after its brackets is read."""
    outer = reader.scope
    scope = reader.scope = Scope(outer)
    if reader.accept("with"):
        if reader.symbol == "recursive":
            raise reader.unexpected()
        reader.list_of(_common_table)
    source, operand_scope = _operand_query(reader)
    branches = [source]
    while reader.accept_any(SET_OPERATIONS):
        reader.accept_any(("all", "distinct"))
        branches.append(_operand_query(reader)[0])
    if len(branches) == 1:
        # PostgreSQL reads "(select …) order by x" as one SELECT: x is looked up where the inner one looks.
        scope = operand_scope
    else:
        source = source_of_branches(branches)
    reader.scope = scope
    start = reader.mark()
    source.is_barrier |= _order_and_limit(reader)
    settle(reader, scope, start)
    reader.scope = outer
    return source, scope


def _common_table(reader: Reader) -> None:
    common_tables = reader.scope.common_tables
    if is_identifier(reader.symbol) and reader.values[reader.index] in common_tables:
        raise reader.refusal("is defined twice in one WITH")
    name = reader.identifier()
    given = frozenset(reader.identifiers()) if reader.symbol == "(" else None
    reader.expect("as")
    is_materialized = reader.accept("materialized")
    if reader.symbol == "not":
        if reader.following() != "materialized":
            raise reader.unexpected("materialized")
        # Not passed on: PostgreSQL would copy a common table that is named twice. Named once it copies none.
        reader.skip()
        reader.skip()
    source = table_query(reader)
    source.is_barrier |= is_materialized
    if given is not None:
        source.columns = given
        source.is_renamed = True
    # Entered only now: without RECURSIVE a name means itself from here on.
    common_tables[name] = source


def _operand_query(reader: Reader) -> tuple[Source, Scope]:
    if reader.symbol != "(":
        return _select(reader)
    reader.expect("(")
    result = query(reader)
    reader.expect(")")
    return result


def _select(reader: Reader) -> tuple[Source, Scope]:
    beginning = reader.mark()
    reader.expect("select")
    outer = reader.scope
    scope = reader.scope = Scope(outer)
    reader.open_selects += 1
    if reader.accept("distinct"):
        if reader.accept("on"):
            reader.read("(", Reader.expressions, ")")
    else:
        reader.accept("all")
    listed = reader.list_of(_select_item)
    after_list = reader.mark()
    scope.gives_columns = False
    if reader.symbol == "from":
        from_clause(reader)
    after_from = reader.mark()
    if reader.accept("where"):
        expression(reader)
    _group_and_window(reader)
    reader.scope = outer
    reader.open_selects -= 1
    reader.add_weight(weight_of_planning(scope), beginning[0])
    return source_of_select(reader, scope, listed, beginning, after_list, after_from), scope


def _select_item(reader: Reader) -> Listed:
    start = reader.mark()
    if reader.accept("*"):
        reader.uses.append(Use(None, EVERY_COLUMN, 1))
        return Listed(EVERY_COLUMN, start, reader.mark())
    output = expression(reader)
    end = reader.mark()
    label: str | None = None
    if reader.accept("as"):
        label = reader.label()
    elif is_identifier(reader.symbol):
        reader.insert("AS")
        label = reader.identifier()
    # PostgreSQL ignores the label of "e.* AS label".
    return Listed(output if label is None or isinstance(output, Star) else label, start, end)


def _group_and_window(reader: Reader) -> None:
    if reader.accept("group"):
        reader.expect("by")
        reader.accept_any(("distinct", "all"))
        reader.scope.gives_columns = True
        _grouping_items(reader)
        reader.scope.gives_columns = False
    if reader.accept("having"):
        expression(reader)
    if reader.accept("window"):
        reader.list_of(_named_window)


def _grouping_items(reader: Reader) -> None:
    reader.list_of(_grouping_item)


def _grouping_item(reader: Reader) -> None:
    behind = reader.following()
    if reader.symbol == "grouping" and behind == "sets":
        reader.read("grouping", "sets", "(", _grouping_items, ")")
    elif reader.symbol in ("rollup", "cube") and behind == "(":
        reader.take_symbol()
        list_or_query(reader)
    elif reader.symbol == "(" and behind == ")":
        reader.read("(", ")")
    else:
        expression(reader)


def _named_window(reader: Reader) -> None:
    reader.read(Reader.identifier, "as", window)


def _order_and_limit(reader: Reader) -> bool:
    """Take ORDER BY and what limits the rows; return whether anything does."""
    if reader.symbol == "order":
        reader.scope.gives_columns = True
        order_by(reader)
        reader.scope.gives_columns = False
    start = reader.index
    while True:
        if reader.accept("limit"):
            if not reader.accept("all"):
                expression(reader)
        elif reader.accept("offset"):
            expression(reader)
            reader.accept_any(_ROWS)
        elif reader.accept("fetch"):
            _fetch(reader)
        else:
            return reader.index > start


def _fetch(reader: Reader) -> None:
    reader.expect("first", "next")
    if reader.symbol not in _ROWS:
        operand(reader)
    reader.expect(*_ROWS)
    if reader.accept("with"):
        reader.expect("ties")
    else:
        reader.expect("only")
