"""Queries: WITH, set operations, SELECT and its clauses, ORDER BY and LIMIT. The whole statement is one query."""

from __future__ import annotations

from typing import Final

from endpoints.sql.sandbox.from_items import FromItems
from endpoints.sql.sandbox.scopes import Columns, Output, Scope, Star
from endpoints.sql.sandbox.tokens import END
from endpoints.sql.sandbox.violations import THE_QUERY
from endpoints.sql.sandbox.vocabulary import SET_OPERATIONS

_ROWS: Final = ("row", "rows")


class Selects(FromItems):
    """Reading of queries."""

    def statement(self) -> None:
        """Take the whole text: one query, and one ``;`` at most behind it."""
        if self.symbol == END:
            raise self.refusal("is empty", construct=THE_QUERY)
        if self.symbol not in ("select", "with", "("):
            raise self.refusal("is not SELECT or WITH, with which a sandbox query begins")
        self.query()
        if self.symbol == ";" and self.following() == END:
            self.symbol = END
        if self.symbol != END:
            raise self.unexpected()
        self.require_known_columns()

    def query(self) -> tuple[Columns, Scope]:
        """Take a query; return its sure columns, and the scope in which a clause behind its brackets is read."""
        outer = self.scope
        scope = self.scope = Scope(outer)
        if self.symbol == "with":
            self._with()
        columns, operand_scope = self._operand_query()
        if self.symbol not in SET_OPERATIONS:
            # PostgreSQL reads "(select …) order by x" as one SELECT: x is looked up where the inner one looks.
            scope = operand_scope
        while self.accept_any(SET_OPERATIONS):
            self.accept_any(("all", "distinct"))
            self._operand_query()
        self.scope = scope
        self._order_and_limit()
        self.scope = outer
        return columns, scope

    def _with(self) -> None:
        self.expect("with")
        if self.symbol == "recursive":
            raise self.unexpected()
        scope = self.scope
        while True:
            if self.is_identifier(self.symbol) and self.values[self.index] in scope.common_tables:
                raise self.refusal("is given twice in one WITH")
            name = self.identifier()
            given = frozenset(self.identifiers()) if self.symbol == "(" else None
            self.expect("as")
            if self.accept("not"):
                self.expect("materialized")
            else:
                self.accept("materialized")
            columns = self.subquery()
            # Entered only now: without RECURSIVE a name means itself from here on.
            scope.common_tables[name] = columns if given is None else given
            if not self.accept(","):
                return

    def _operand_query(self) -> tuple[Columns, Scope]:
        if self.symbol != "(":
            return self._select()
        self.expect("(")
        result = self.query()
        self.expect(")")
        return result

    def _select(self) -> tuple[Columns, Scope]:
        self.expect("select")
        outer = self.scope
        scope = self.scope = Scope(outer)
        if self.accept("distinct"):
            if self.accept("on"):
                self.expect("(")
                self.expressions()
                self.expect(")")
        else:
            self.accept("all")
        outputs = [self._select_item()]
        while self.accept(","):
            outputs.append(self._select_item())
        if self.symbol == "from":
            self.from_clause()
        if self.accept("where"):
            self.expression()
        self._group_and_window()
        self.scope = outer
        return scope.output_columns(outputs), scope

    def _select_item(self) -> Output:
        if self.accept("*"):
            return Star(None)
        output = self.expression()
        label: str | None = None
        if self.accept("as"):
            label = self.label()
        elif self.is_identifier(self.symbol):
            self.insert("AS")
            label = self.identifier()
        # PostgreSQL ignores the label of "e.* AS label".
        return output if label is None or isinstance(output, Star) else label

    def _group_and_window(self) -> None:
        if self.accept("group"):
            self.expect("by")
            self.accept_any(("distinct", "all"))
            self._grouping_items()
        if self.accept("having"):
            self.expression()
        if self.accept("window"):
            while True:
                self.identifier()
                self.expect("as")
                self.window()
                if not self.accept(","):
                    return

    def _grouping_items(self) -> None:
        self._grouping_item()
        while self.accept(","):
            self._grouping_item()

    def _grouping_item(self) -> None:
        behind = self.following()
        if self.symbol == "grouping" and behind == "sets":
            self.expect("grouping")
            self.expect("sets")
            self.expect("(")
            self._grouping_items()
            self.expect(")")
        elif self.symbol in ("rollup", "cube") and behind == "(":
            self.expect("rollup", "cube")
            self.list_or_query()
        elif self.symbol == "(" and behind == ")":
            self.expect("(")
            self.expect(")")
        else:
            self.expression()

    def _order_and_limit(self) -> None:
        if self.symbol == "order":
            self.order_by()
        while True:
            if self.accept("limit"):
                if not self.accept("all"):
                    self.expression()
            elif self.accept("offset"):
                self.expression()
                self.accept_any(_ROWS)
            elif self.symbol == "fetch":
                self._fetch()
            else:
                return

    def _fetch(self) -> None:
        self.expect("fetch")
        self.expect("first", "next")
        if self.symbol not in _ROWS:
            self.operand()
        self.expect(*_ROWS)
        if self.accept("with"):
            self.expect("ties")
        else:
            self.expect("only")
