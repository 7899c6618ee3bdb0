"""Function calls with all that may stand in and behind their brackets, windows, and ORDER BY."""

from __future__ import annotations

from typing import Final

from endpoints.sql.functions import FUNCTION_SCHEMAS, LOG_FUNCTIONS_SCHEMA
from endpoints.sql.guards import BOUNDED_RESULTS, LARGEST_WIDTH, is_wide_template
from endpoints.sql.sandbox.expressions import Expressions
from endpoints.sql.sandbox.tokens import STRING

_FRAME_UNITS: Final = ("rows", "range", "groups")
_NOT_A_WINDOW: Final = ("partition", "order", *_FRAME_UNITS)


class Calls(Expressions):
    """Reading of calls."""

    def call(self) -> None:
        """Take a call of an allowed function, pinned to its schema, with its aggregate clauses and OVER."""
        name = self.require_allowed_function()
        self.functions.add(name)
        if name in BOUNDED_RESULTS:
            # format(…)  ->  log_functions.format(pg_catalog.format(…)): a column gets the same name from both
            self.insert(f'{LOG_FUNCTIONS_SCHEMA}."{name}" (')
        self.take(f'{FUNCTION_SCHEMAS.get(name, "pg_catalog")}."{name}"')
        self.expect("(")
        if not self.accept("*") and self.symbol != ")":
            if name == "format":
                self._template()
            else:
                self.accept_any(("distinct", "all"))
                self._arguments()
            if self.symbol == "order":
                self.order_by()
        self.expect(")")
        self._aggregate_clauses()
        if name in BOUNDED_RESULTS:
            self.insert(")")

    def _template(self) -> None:
        # The first argument of format() says how wide its result is.
        if self.symbol == STRING and self.following() in (",", ")"):
            if is_wide_template(self.values[self.index]):
                raise self.refusal(f"pads to more than {LARGEST_WIDTH:,} characters, or to a width that is an argument")
            self.string()
        else:
            self.insert("(")
            self.expression()
            self.insert(f')::{LOG_FUNCTIONS_SCHEMA}."format_template"')
        if self.accept(","):
            self._arguments()

    def _arguments(self) -> None:
        while True:
            self.accept("variadic")
            if self.following() == "=>":
                self.label()
                self.take("=>")
            self.expression()
            if not self.accept(","):
                return

    def _aggregate_clauses(self) -> None:
        # Told apart from column labels of the same names by what follows.
        if self.symbol == "within" and self.following() == "group":
            self.expect("within")
            self.expect("group")
            self.expect("(")
            self.order_by()
            self.expect(")")
        if self.symbol == "filter" and self.following() == "(":
            self.expect("filter")
            self.expect("(")
            self.expect("where")
            self.expression()
            self.expect(")")
        if self.symbol == "over" and (self.following() == "(" or self.is_identifier(self.following())):
            self.expect("over")
            if self.symbol == "(":
                self.window()
            else:
                self.identifier()

    def order_by(self) -> None:
        """Take ORDER BY and its list; USING an operator is not part of it."""
        self.expect("order")
        self.expect("by")
        while True:
            self.expression()
            self.accept_any(("asc", "desc"))
            if self.accept("nulls"):
                self.expect("first", "last")
            if not self.accept(","):
                return

    def window(self) -> None:
        """Take the definition of a window in its brackets."""
        self.expect("(")
        if self.is_identifier(self.symbol) and self.symbol not in _NOT_A_WINDOW:
            self.identifier()
        if self.accept("partition"):
            self.expect("by")
            self.expressions()
        if self.symbol == "order":
            self.order_by()
        if self.accept_any(_FRAME_UNITS):
            self._frame()
        self.expect(")")

    def _frame(self) -> None:
        if self.accept("between"):
            self._frame_bound()
            self.expect("and")
        self._frame_bound()
        if self.accept("exclude"):
            if self.accept("current"):
                self.expect("row")
            elif self.accept("no"):
                self.expect("others")
            else:
                self.expect("group", "ties")

    def _frame_bound(self) -> None:
        if self.accept("unbounded"):
            self.expect("preceding", "following")
        elif self.symbol == "current" and self.following() == "row":
            self.expect("current")
            self.expect("row")
        else:
            self.simple_expression()
            self.expect("preceding", "following")
