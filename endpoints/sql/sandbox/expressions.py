"""Expressions: operands joined by operators. Precedence is left to PostgreSQL, as it changes no name's role."""

from __future__ import annotations

from typing import Final

from endpoints.sql.sandbox.calls import call
from endpoints.sql.sandbox.names import require_known_parameter, type_name, typed_literal, typed_literal_is_next
from endpoints.sql.sandbox.reader import Mark, Part, Reader, holds_query, is_identifier, list_or_query, subquery
from endpoints.sql.sandbox.scopes import EVERY_COLUMN, EXPRESSION_COLUMNS, Output, Reference, Star, Use
from endpoints.sql.sandbox.special_forms import becomes_column, bound_row, special_form
from endpoints.sql.sandbox.tokens import NUMBER, PARAMETER, QUOTED, STRING
from endpoints.sql.sandbox.vocabulary import (
    LITERALS,
    OPERATORS,
    PREFIX_OPERATORS,
    QUANTIFIERS,
    RESERVED_FUNCTIONS,
    TYPE_WORDS,
)
from endpoints.sql.sandbox.weights import COPYING, TWIN_WEIGHT, copies_of_left_side, fields_of_widest_row
from logsources.guards import GUARDED_CONCATENATION, MAX_APPENDED_ARGUMENTS, NESTED_OPERATORS


# --- Operands ---------------------------------------------------------------------------------------------------------
# Operands: literals, parameters, names, calls and bracketed expressions, with the casts and subscripts after them.
#
# Every function that returns an `Output` returns what a select list would get from what it read.
def operand(reader: Reader) -> Output:
    """Take signs and NOT, one primary, and the casts and subscripts after it."""
    prefixes = 0
    while reader.symbol in PREFIX_OPERATORS:
        prefixes += 1
        if prefixes > reader.limits.prefix_operators:
            raise reader.refusal(f"follows more than {reader.limits.prefix_operators} signs in a row")
        reader.take_symbol()
    of_literal = reader.symbol in LITERALS
    output = _primary(reader)
    while True:
        if reader.symbol == "::":
            behind = len(reader.pieces)
            reader.take("::")
            domain = type_name(reader)
            if domain is not None and not of_literal:
                reader.pieces[behind] = f":: {domain} ::"
            of_literal = False
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
    start, form = reader.mark(), len(reader.pieces)
    if holds_query(reader):
        subquery(reader)
    else:
        reader.expect("(")
        output = reader.expression()
        is_row = reader.accept(",")
        if is_row:
            reader.expressions()
            output = None
        reader.expect(")")
        if is_row:
            bound_row(reader, start[0], form)
    if reader.symbol != ".":
        return output
    star = _star_of_expression(reader)
    reader.operand_copied(start, fields_of_widest_row(reader))
    return star


def _star_of_expression(reader: Reader) -> Star:
    # (row).* only: (row).f would call f(row) when the row has no column f.
    if reader.following() != "*":
        reason = "cannot be read from an expression, because that can be a function call; use only `.*`"
        raise reader.refusal(reason, index=reader.index + 1)
    reader.read(".", "*")
    return EXPRESSION_COLUMNS


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
        reader.uses.append(Use(None, name, 1))
        if becomes_column(reader):
            reader.whole_rows.append((Reference(reader.scope, name, name, reader.index - 1), len(reader.pieces) - 1))
        return name
    reader.take(".")
    return _attribute(reader, name)


def _attribute(reader: Reader, owner: str) -> Output:
    if reader.accept("*"):
        reader.uses.append(Use(owner, EVERY_COLUMN, 1))
        return Star(owner)
    behind = reader.following()
    if behind == "(":
        raise reader.refusal("is a function with a schema; write functions without one")
    if behind == ".":
        raise reader.refusal("has a dot on both sides; write a column with at most one dot")
    token = reader.index
    name = reader.label()
    reader.uses.append(Use(owner, name, 1))
    reader.references.append(Reference(reader.scope, owner, name, token))
    return name


# --- Expressions ------------------------------------------------------------------------------------------------------
# These words are infix only before this one: SIMILAR without TO belongs to SUBSTRING, the others are names.
_INFIX_BEFORE: Final = {"similar": "to", "at": "time", "operator": "("}
# The function that PostgreSQL calls for an infix word.
_FUNCTIONS: Final = {
    "similar": "similar_to_escape", "escape": "like_escape", "overlaps": "overlaps", "at": "timezone"
}  # fmt: skip


def expression(reader: Reader) -> Output:
    """Take an expression."""
    start = reader.mark()  # of what surely contains the left side of the next infix word
    symmetric: Mark | None = None
    output = operand(reader)
    while True:
        symbol = reader.symbol
        if symbol not in OPERATORS and not (
            symbol in _INFIX and (symbol not in _INFIX_BEFORE or reader.following() == _INFIX_BEFORE[symbol])
        ):
            break
        if symmetric is not None and symbol in ("and", "or", "between"):
            reader.operand_copied(symmetric, 2)
            symmetric = None
        if symbol in COPYING or reader.symbols[reader.index + 1] in QUANTIFIERS:
            reader.operand_copied(start, copies_of_left_side(reader))
            if reader.symbols[reader.index + 1] == "symmetric":
                symmetric = reader.mark()
        if symbol in OPERATORS:
            _operator_sign(reader)
            _operand_or_quantified(reader)
        else:
            if symbol in _FUNCTIONS:
                reader.functions.add(_FUNCTIONS[symbol])
            reader.read(*_INFIX[symbol])
            if symbol == "and" or symbol == "or":
                start = reader.mark()
        output = None
    if symmetric is not None:  # its bounds, and at most what follows them
        reader.operand_copied(symmetric, 2)
    return output


def simple_expression(reader: Reader) -> None:
    """Take operands joined by operators only, where AND or IN belong to what is around (b_expr)."""
    operand(reader)
    while reader.symbol in OPERATORS:
        _operator_sign(reader)
        operand(reader)


def _operator_sign(reader: Reader) -> None:
    # `||` is the one operator whose twin is written out. With a literal after it nothing grows by more than the
    # text of the query; so it is with a few arguments. PostgreSQL computes '%' || @x || '%' while planning then.
    if reader.symbol == "||" and reader.following() != STRING:
        reader.appended_arguments += reader.following() == PARAMETER
        if reader.following() != PARAMETER or reader.appended_arguments > MAX_APPENDED_ARGUMENTS:
            reader.take(GUARDED_CONCATENATION)
            reader.add_weight(TWIN_WEIGHT, reader.index - 1)
            return
    if reader.symbol in NESTED_OPERATORS:
        reader.add_weight(TWIN_WEIGHT, reader.index)
    reader.take(reader.symbol)


def _operand_or_quantified(reader: Reader) -> None:
    # 1, any(array[1, 2]), all(select 1)
    if reader.accept_any(QUANTIFIERS):
        list_or_query(reader)
    else:
        operand(reader)


def _truth_test(reader: Reader) -> None:
    reader.accept("not")
    if reader.accept("distinct"):
        reader.read("from", operand)
    else:
        reader.expect("null", "true", "false", "unknown")


def _require_negatable(reader: Reader) -> None:
    # Takes nothing: the negated word is the next infix word.
    negatable = ("like", "ilike", "similar", "between", "in")
    if reader.symbol not in negatable:
        raise reader.unexpected(*negatable)


def _lower_bound(reader: Reader) -> None:
    reader.accept_any(("symmetric", "asymmetric"))
    simple_expression(reader)


def _refuse(reader: Reader) -> None:
    raise reader.unexpected()


_INFIX: Final[dict[str, tuple[Part, ...]]] = {
    "and": ("and", operand),
    "or": ("or", operand),
    "is": ("is", _truth_test),
    "isnull": ("isnull",),
    "notnull": ("notnull",),
    "not": ("not", _require_negatable),
    "like": ("like", _operand_or_quantified),
    "ilike": ("ilike", _operand_or_quantified),
    "similar": ("similar", "to", operand),
    "escape": ("escape", operand),
    "overlaps": ("overlaps", operand),
    "between": ("between", _lower_bound, "and", operand),
    "in": ("in", list_or_query),
    "at": ("at", "time", "zone", operand),
    "operator": (_refuse,),
}
