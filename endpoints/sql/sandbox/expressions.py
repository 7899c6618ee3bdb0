"""Expressions: operands joined by operators. Precedence is left to PostgreSQL, since it changes no name's role."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from endpoints.sql.guards import GUARDED_CONCATENATION, MAX_APPENDED_ARGUMENTS
from endpoints.sql.sandbox.operands import Operands
from endpoints.sql.sandbox.scopes import Output
from endpoints.sql.sandbox.tokens import PARAMETER, STRING
from endpoints.sql.sandbox.vocabulary import OPERATORS, QUANTIFIERS

_BEHIND_NOT: Final = ("like", "ilike", "similar", "between", "in")


class Expressions(Operands):
    """Reading of expressions."""

    def expression(self) -> Output:
        """Take an expression."""
        output = self.operand()
        while True:
            symbol = self.symbol
            if symbol in OPERATORS:
                self._operator_sign()
                if self.symbol in QUANTIFIERS:
                    self.quantified()
                else:
                    self.operand()
            elif (infix := _INFIX.get(symbol)) is None or not infix(self):
                return output
            output = None

    def simple_expression(self) -> None:
        """Take operands joined by operators only, where AND or IN belong to what is around (b_expr)."""
        self.operand()
        while self.symbol in OPERATORS:
            self._operator_sign()
            self.operand()

    def _operator_sign(self) -> None:
        # `||` is the one operator whose twin is written out. With a literal behind it nothing grows by more than the
        # text of the query; so it is with a few arguments. PostgreSQL computes '%' || @x || '%' while planning then.
        if self.symbol == "||" and self.following() != STRING:
            self.appended_arguments += self.following() == PARAMETER
            if self.following() != PARAMETER or self.appended_arguments > MAX_APPENDED_ARGUMENTS:
                self.take(GUARDED_CONCATENATION)
                return
        self.take(self.symbol)

    def quantified(self) -> None:
        """Take ANY, ALL or SOME and its brackets."""
        self.expect(*QUANTIFIERS)
        self.list_or_query()

    # ── infix words; each returns whether it was one here

    def _logical(self) -> bool:
        self.expect("and", "or")
        self.operand()
        return True

    def _is(self) -> bool:
        self.expect("is")
        self.accept("not")
        if self.accept("distinct"):
            self.expect("from")
            self.operand()
        else:
            self.expect("null", "true", "false", "unknown")
        return True

    def _null_test(self) -> bool:
        self.expect("isnull", "notnull")
        return True

    def _not(self) -> bool:
        self.expect("not")
        if self.symbol not in _BEHIND_NOT:
            raise self.unexpected(wanted=_BEHIND_NOT)
        return _INFIX[self.symbol](self)

    def _like(self) -> bool:
        self.expect("like", "ilike")
        if self.symbol in QUANTIFIERS:
            self.quantified()
        else:
            self.operand()
        return True

    def _similar(self) -> bool:
        if self.following() != "to":
            return False  # SUBSTRING(… SIMILAR … ESCAPE …)
        self.functions.add("similar_to_escape")
        self.expect("similar")
        self.expect("to")
        self.operand()
        return True

    def _escape_or_overlaps(self) -> bool:
        self.functions.add("like_escape" if self.symbol == "escape" else "overlaps")
        self.expect("escape", "overlaps")
        self.operand()
        return True

    def _between(self) -> bool:
        self.expect("between")
        self.accept_any(("symmetric", "asymmetric"))
        self.simple_expression()
        self.expect("and")
        self.operand()
        return True

    def _in(self) -> bool:
        self.expect("in")
        self.list_or_query()
        return True

    def _at_time_zone(self) -> bool:
        if self.following() != "time":
            return False
        self.functions.add("timezone")
        self.expect("at")
        self.expect("time")
        self.expect("zone")
        self.operand()
        return True

    def _operator(self) -> bool:
        if self.following() != "(":
            return False
        raise self.unexpected()


_INFIX: Final[dict[str, Callable[[Expressions], bool]]] = {
    "and": Expressions._logical,
    "or": Expressions._logical,
    "is": Expressions._is,
    "isnull": Expressions._null_test,
    "notnull": Expressions._null_test,
    "not": Expressions._not,
    "like": Expressions._like,
    "ilike": Expressions._like,
    "similar": Expressions._similar,
    "escape": Expressions._escape_or_overlaps,
    "overlaps": Expressions._escape_or_overlaps,
    "between": Expressions._between,
    "in": Expressions._in,
    "at": Expressions._at_time_zone,
    "operator": Expressions._operator,
}
