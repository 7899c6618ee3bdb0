"""Expressions: operands joined by operators. Precedence is left to PostgreSQL, since it changes no name's role."""

from __future__ import annotations

from typing import Final

from endpoints.sql.guards import GUARDED_CONCATENATION, MAX_APPENDED_ARGUMENTS
from endpoints.sql.sandbox.brackets import list_or_query
from endpoints.sql.sandbox.operands import operand
from endpoints.sql.sandbox.reader import Part, Reader
from endpoints.sql.sandbox.scopes import Output
from endpoints.sql.sandbox.tokens import PARAMETER, STRING
from endpoints.sql.sandbox.vocabulary import OPERATORS, QUANTIFIERS

# These words are infix only before this one: SIMILAR without TO belongs to SUBSTRING, the others are names.
_INFIX_BEFORE: Final = {"similar": "to", "at": "time", "operator": "("}
# The function that PostgreSQL calls for an infix word.
_FUNCTIONS: Final = {
    "similar": "similar_to_escape", "escape": "like_escape", "overlaps": "overlaps", "at": "timezone"
}  # fmt: skip


def expression(reader: Reader) -> Output:
    """Take an expression."""
    output = operand(reader)
    while True:
        symbol = reader.symbol
        if symbol in OPERATORS:
            _operator_sign(reader)
            _operand_or_quantified(reader)
        elif symbol in _INFIX and (symbol not in _INFIX_BEFORE or reader.following() == _INFIX_BEFORE[symbol]):
            if symbol in _FUNCTIONS:
                reader.functions.add(_FUNCTIONS[symbol])
            reader.read(*_INFIX[symbol])
        else:
            return output
        output = None


def simple_expression(reader: Reader) -> None:
    """Take operands joined by operators only, where AND or IN belong to what is around (b_expr)."""
    operand(reader)
    while reader.symbol in OPERATORS:
        _operator_sign(reader)
        operand(reader)


def _operator_sign(reader: Reader) -> None:
    # `||` is the one operator whose twin is written out. With a literal behind it nothing grows by more than the
    # text of the query; so it is with a few arguments. PostgreSQL computes '%' || @x || '%' while planning then.
    if reader.symbol == "||" and reader.following() != STRING:
        reader.appended_arguments += reader.following() == PARAMETER
        if reader.following() != PARAMETER or reader.appended_arguments > MAX_APPENDED_ARGUMENTS:
            reader.take(GUARDED_CONCATENATION)
            return
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
