"""Operands: literals, parameters, names, calls and bracketed expressions, with the casts and subscripts behind them.

Every function that returns an `Output` returns what a select list would get from what it read.
"""

from __future__ import annotations

from endpoints.sql.sandbox.brackets import holds_query, subquery
from endpoints.sql.sandbox.calls import call
from endpoints.sql.sandbox.names import require_known_parameter
from endpoints.sql.sandbox.reader import Reader, is_identifier
from endpoints.sql.sandbox.scopes import Output, Reference, Star
from endpoints.sql.sandbox.special_forms import special_form
from endpoints.sql.sandbox.tokens import NUMBER, PARAMETER, QUOTED, STRING
from endpoints.sql.sandbox.type_names import type_name, typed_literal, typed_literal_is_next
from endpoints.sql.sandbox.vocabulary import PREFIX_OPERATORS, RESERVED_FUNCTIONS, TYPE_WORDS


def operand(reader: Reader) -> Output:
    """Take signs and NOT, one primary, and the casts and subscripts behind it."""
    prefixes = 0
    while reader.symbol in PREFIX_OPERATORS:
        prefixes += 1
        if prefixes > reader.limits.prefix_operators:
            raise reader.refusal(f"follows more than {reader.limits.prefix_operators} signs in a row")
        reader.take_symbol()
    output = _primary(reader)
    while True:
        if reader.symbol == "::":
            reader.take("::")
            type_name(reader)
            if isinstance(output, Star):
                output = None
        elif reader.symbol == "[":
            _subscript(reader)
            output = None
        else:
            return None if prefixes else output


def _subscript(reader: Reader) -> None:
    # a[1], a[1:2], a[:2], a['key']
    reader.expect("[")
    if reader.symbol != ":":
        reader.expression()
    if reader.accept(":") and reader.symbol != "]":
        reader.expression()
    reader.expect("]")


def _primary(reader: Reader) -> Output:
    symbol = reader.symbol
    if symbol in (NUMBER, STRING):
        reader.take(reader.values[reader.index])
        return None
    if symbol == QUOTED:
        return _name_or_call(reader)
    if symbol == "(":
        return _bracketed(reader)
    if symbol == PARAMETER:
        _parameter(reader)
        return None
    if symbol in TYPE_WORDS and typed_literal_is_next(reader):
        typed_literal(reader)
        return None
    if (special := special_form(reader)) is not None:
        special(reader)
        return None
    return _name_or_call(reader)


def _parameter(reader: Reader) -> None:
    name = require_known_parameter(reader)
    number = reader.parameter_numbers.setdefault(name, len(reader.parameter_numbers) + 1)
    # where a = @x  ->  where "a" = ($1::text)
    reader.take(f"(${number}::{reader.parameter_types[name]})")


def _bracketed(reader: Reader) -> Output:
    output: Output = None
    if holds_query(reader):
        subquery(reader)
    else:
        reader.expect("(")
        output = reader.expression()
        if reader.accept(","):
            reader.expressions()
            output = None
        reader.expect(")")
    return _star_of_expression(reader) if reader.symbol == "." else output


def _star_of_expression(reader: Reader) -> Star:
    # (row).* only: (row).f would call f(row) when the row has no column f.
    if reader.following() != "*":
        reason = "cannot be taken of an expression, since that can be a function call; only `.*` can"
        raise reader.refusal(reason, index=reader.index + 1)
    reader.read(".", "*")
    return Star("")


def _name_or_call(reader: Reader) -> Output:
    symbol = reader.symbol
    called = reader.following() == "("
    if not is_identifier(symbol) and not (called and symbol in RESERVED_FUNCTIONS):
        raise reader.unexpected()
    if called:
        name = reader.values[reader.index]
        call(reader)
        return name
    name = reader.identifier()
    if reader.symbol != ".":
        return name
    reader.take(".")
    return _attribute(reader, name)


def _attribute(reader: Reader, owner: str) -> Output:
    if reader.accept("*"):
        return Star(owner)
    behind = reader.following()
    if behind == "(":
        raise reader.refusal("is a function of a schema; functions are named without one")
    if behind == ".":
        raise reader.refusal("has a dot on both sides; a column is named with one dot at most")
    token = reader.index
    name = reader.label()
    reader.references.append(Reference(reader.scope, not reader.scope.reading_from, owner, name, token))
    return name
