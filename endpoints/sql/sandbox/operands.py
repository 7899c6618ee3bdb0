"""Operands: literals, parameters, names, calls and bracketed expressions, with the casts and subscripts behind them.

Every method returns what a select list would get from what it read: see `Output`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from endpoints.sql.sandbox.scopes import Columns, Output, Reference, Scope, Star
from endpoints.sql.sandbox.tokens import NUMBER, PARAMETER, QUOTED, STRING
from endpoints.sql.sandbox.type_names import TypeNames
from endpoints.sql.sandbox.violations import similar_names
from endpoints.sql.sandbox.vocabulary import PREFIX_OPERATORS, RESERVED_FUNCTIONS, SET_OPERATIONS, TYPE_WORDS

_QUERY_BEGINNINGS: Final = frozenset({"select", "with"})
_BEHIND_QUERY: Final = SET_OPERATIONS | {")", "order", "limit", "offset", "fetch"}


class Operands(TypeNames, ABC):
    """Reading of operands; the forms with a syntax of their own are in `special_forms`, calls in `calls`."""

    @abstractmethod
    def query(self) -> tuple[Columns, Scope]:
        """Take a query; see `Selects`."""

    @abstractmethod
    def expression(self) -> Output:
        """Take an expression; see `Expressions`."""

    @abstractmethod
    def call(self) -> None:
        """Take a function call; see `Calls`."""

    @abstractmethod
    def special_form(self) -> Callable[[], None] | None:
        """Return what reads the current token, if it begins a syntax of its own; see `SpecialForms`."""

    def expressions(self) -> None:
        """Take ``expression, …``."""
        self.expression()
        while self.accept(","):
            self.expression()

    def operand(self) -> Output:
        """Take signs and NOT, one primary, and the casts and subscripts behind it."""
        prefixes = 0
        while self.symbol in PREFIX_OPERATORS:
            prefixes += 1
            if prefixes > self.limits.prefix_operators:
                raise self.refusal(f"follows more than {self.limits.prefix_operators} signs in a row")
            self.take(self.symbol.upper())
        output = self.primary()
        while True:
            if self.symbol == "::":
                self.take("::")
                self.type_name()
                if isinstance(output, Star):
                    output = None
            elif self.symbol == "[":
                self._subscript()
                output = None
            else:
                return None if prefixes else output

    def _subscript(self) -> None:
        # a[1], a[1:2], a[:2], a['key']
        self.expect("[")
        if self.symbol != ":":
            self.expression()
        if self.accept(":") and self.symbol != "]":
            self.expression()
        self.expect("]")

    def primary(self) -> Output:
        """Take a literal, a parameter, a name, a call, a bracketed expression or a special form."""
        symbol = self.symbol
        if symbol in (NUMBER, STRING):
            self.take(self.values[self.index])
            return None
        if symbol == QUOTED:
            return self._name_or_call()
        if symbol == "(":
            return self._bracketed()
        if symbol == PARAMETER:
            self._parameter()
            return None
        if symbol in TYPE_WORDS and self.typed_literal_is_next():
            self.typed_literal()
            return None
        if (special := self.special_form()) is not None:
            special()
            return None
        return self._name_or_call()

    def _parameter(self) -> None:
        name = self.values[self.index]
        if name not in self.parameter_types:
            similar = similar_names(name, self.parameter_types)
            raise self.refusal("is not a parameter of this endpoint", similar=similar)
        number = self.parameter_numbers.setdefault(name, len(self.parameter_numbers) + 1)
        # where a = @x  ->  where "a" = ($1::text)
        self.take(f"(${number}::{self.parameter_types[name]})")

    def _bracketed(self) -> Output:
        if self.holds_query():
            self.subquery()
            output: Output = None
            several = True
        else:
            self.expect("(")
            output = self.expression()
            several = self.symbol == ","
            while self.accept(","):
                self.expression()
            self.expect(")")
        if self.symbol == ".":
            return self._star_of_expression()
        return None if several else output

    def _star_of_expression(self) -> Star:
        # (row).* only: (row).f would call f(row) when the row has no column f.
        if self.following() != "*":
            reason = "cannot be taken of an expression, since that can be a function call; only `.*` can"
            raise self.refusal(reason, index=self.index + 1)
        self.take(".")
        self.take("*")
        return Star("")

    def _name_or_call(self) -> Output:
        symbol = self.symbol
        called = self.following() == "("
        if not self.is_identifier(symbol) and not (called and symbol in RESERVED_FUNCTIONS):
            raise self.unexpected()
        if called:
            name = self.values[self.index]
            self.call()
            return name
        name = self.identifier()
        if self.symbol != ".":
            return name
        self.take(".")
        return self._attribute(name)

    def _attribute(self, owner: str) -> Output:
        if self.symbol == "*":
            self.take("*")
            return Star(owner)
        behind = self.following()
        if behind == "(":
            raise self.refusal("is a function of a schema; functions are named without one")
        if behind == ".":
            raise self.refusal("has a dot on both sides; a column is named with one dot at most")
        token = self.index
        name = self.label()
        self.references.append(Reference(self.scope, not self.scope.reading_from, owner, name, token))
        return name

    def subquery(self) -> Columns:
        """Take ``( query )``."""
        self.expect("(")
        columns, _ = self.query()
        self.expect(")")
        return columns

    def list_or_query(self) -> None:
        """Take ``( query )`` or ``( expression, … )``."""
        if self.holds_query():
            self.subquery()
        else:
            self.expect("(")
            self.expressions()
            self.expect(")")

    def holds_query(self) -> bool:
        """Whether the bracket at the current token holds a query, not an expression or a join."""
        # (select …), ((select …) union …), but not ((select …) + 1), not ((select …) q join …)
        index = self.index
        while self.symbols[index] == "(":
            if index > self.index and self.symbols[self.closers[index] + 1] not in _BEHIND_QUERY:
                return False
            index += 1
        return self.symbols[index] in _QUERY_BEGINNINGS and index > self.index
