"""FROM clauses: sandbox tables, common table expressions, subqueries, set-returning functions, and their joins.

Each item is entered in the current scope with its sure columns.
"""

from __future__ import annotations

from endpoints.sql.sandbox.calls import call
from endpoints.sql.sandbox.expressions import expression
from endpoints.sql.sandbox.names import require_allowed_function, resolve_relation, type_name
from endpoints.sql.sandbox.reader import Reader, holds_query, is_identifier, table_query
from endpoints.sql.sandbox.scopes import NO_COLUMNS, Columns, Source
from endpoints.sql.sandbox.vocabulary import JOIN_BEGINNINGS
from endpoints.sql.sandbox.weights import ITEM_WEIGHT
from logsources.allowed_functions import RECORD_RETURNING, SET_RETURNING


def from_clause(reader: Reader) -> None:
    """Take FROM and its items."""
    reader.expect("from")
    scope = reader.scope
    scope.reading_from = True
    reader.list_of(_joined_items)
    scope.reading_from = False


def _joined_items(reader: Reader) -> None:
    _from_item(reader)
    while reader.symbol in JOIN_BEGINNINGS:
        _join(reader)


def _join(reader: Reader) -> None:
    if reader.accept("cross"):
        reader.expect("join")
        _from_item(reader)
        return
    natural = reader.accept("natural")
    if not reader.accept("inner") and reader.accept_any(("left", "right", "full")):
        reader.scope.has_outer_join = True
        reader.accept("outer")
    reader.expect("join")
    if natural:
        _from_item(reader)
        return
    # a join b join c on … on …: what follows before our ON belongs to the right side.
    _joined_items(reader)
    if reader.accept("on"):
        expression(reader)
    elif reader.accept("using"):
        reader.identifiers()
    else:
        raise reader.unexpected("on", "using")


def _from_item(reader: Reader) -> None:
    _count_item(reader)
    lateral = reader.accept("lateral")
    if reader.symbol == "(":
        if holds_query(reader):
            source = table_query(reader)
            _alias(reader, None, source.columns, source=source)
        elif lateral:
            raise reader.unexpected("a query")
        else:
            _bracketed_join(reader)
    elif reader.following() == "(":
        _function(reader)
    elif lateral:
        raise reader.unexpected("a query", "a function")
    else:
        _relation(reader)


def _count_item(reader: Reader) -> None:
    reader.from_item_count += 1
    if reader.from_item_count > reader.limits.from_items:
        raise reader.refusal(f"is one FROM item too many; a query may have at most {reader.limits.from_items}")
    reader.scope.item_count += 1
    if reader.scope.item_count > reader.limits.from_items_per_select:
        most = reader.limits.from_items_per_select
        raise reader.refusal(f"is one FROM item too many; a SELECT may have at most {most}")
    reader.more_weight += ITEM_WEIGHT


def _bracketed_join(reader: Reader) -> None:
    reader.expect("(")
    _joined_items(reader)
    reader.expect(")")
    if reader.symbol == "as" or is_identifier(reader.symbol):
        # It would hide the names of the joined items.
        raise reader.refusal("is an alias of a join, which is not part of sandbox queries")


def _relation(reader: Reader) -> None:
    if not is_identifier(reader.symbol):
        raise reader.unexpected("a table")
    if reader.following() == ".":
        raise reader.refusal("is a schema; write tables without one")
    name, source = resolve_relation(reader)
    reader.take(f'"{name}"')
    _alias(reader, name, source.columns, source=source)


def _function(reader: Reader) -> None:
    if not is_identifier(reader.symbol):
        raise reader.unexpected("a table")
    name = reader.values[reader.index]
    if name not in SET_RETURNING:
        require_allowed_function(reader)
        raise reader.refusal("is not a function that returns rows", construct=name)
    if name == "unnest":
        _unnest(reader)
    else:
        call(reader)
    if name in RECORD_RETURNING:
        _column_definitions(reader)
        return
    ordinality = reader.accept("with")
    if ordinality:
        reader.expect("ordinality")
    _alias(reader, name, SET_RETURNING[name], ordinality=ordinality)


def _unnest(reader: Reader) -> None:
    # unnest(a, b)  ->  ROWS FROM ( unnest(a), unnest(b) ): the same, and the only form that can be pinned
    reader.functions.add("unnest")
    form = len(reader.pieces)
    reader.take('pg_catalog."unnest"')
    reader.expect("(")
    expression(reader)
    if reader.symbol != ",":
        reader.expect(")")
        return
    reader.pieces[form] = 'ROWS FROM ( pg_catalog."unnest"'
    while reader.symbol == ",":
        reader.take(') , pg_catalog."unnest" (')
        expression(reader)
    if reader.symbol != ")":
        raise reader.unexpected()
    reader.take(") )")


def _alias(
    reader: Reader,
    name: str | None,
    columns: Columns | None,
    *,
    source: Source | None = None,
    ordinality: bool = False,
) -> None:
    """Take ``[AS] alias [( column, … )]`` and enter the item; `columns` None means one called like the item."""
    alias = _alias_name(reader)
    item = alias or name
    if source is not None and (source.weights or source.branches > 1):
        reader.scope.sources.append((item, source))
    if item is None:
        return
    if alias is not None and reader.symbol == "(":
        columns = frozenset(reader.identifiers())
        if source is not None:
            source.is_renamed = True
    else:
        columns = frozenset({item}) if columns is None else columns
        columns |= {"ordinality"} if ordinality else NO_COLUMNS
    reader.scope.add_item(item, columns)


def _alias_name(reader: Reader) -> str | None:
    if reader.accept("as"):
        return reader.identifier()
    if is_identifier(reader.symbol):
        reader.insert("AS")
        return reader.identifier()
    return None


def _column_definitions(reader: Reader) -> None:
    """Take ``[AS] alias ( column type, … )``, which a function returning `record` must have, and enter the item."""
    alias = _alias_name(reader)
    if alias is None or not reader.accept("("):
        raise reader.refusal("is not expected here; expected AS name(column type, …)")
    columns = reader.list_of(_column_definition)
    reader.expect(")")
    reader.scope.add_item(alias, frozenset(columns))


def _column_definition(reader: Reader) -> str:
    name = reader.identifier()
    type_name(reader)
    return name
