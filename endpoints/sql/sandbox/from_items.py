"""FROM clauses: sandbox tables, common table expressions, subqueries, set-returning functions, and their joins."""

from __future__ import annotations

from endpoints.sql.functions import RECORD_RETURNING, SET_RETURNING
from endpoints.sql.sandbox.scopes import NO_COLUMNS, Columns
from endpoints.sql.sandbox.special_forms import SpecialForms
from endpoints.sql.sandbox.vocabulary import JOIN_BEGINNINGS


class FromItems(SpecialForms):
    """Reading of FROM clauses; every item is entered in the current scope with its sure columns."""

    def from_clause(self) -> None:
        """Take FROM and its items."""
        self.expect("from")
        scope = self.scope
        scope.reading_from = True
        self._joined_items()
        while self.accept(","):
            self._joined_items()
        scope.reading_from = False

    def _joined_items(self) -> None:
        self._from_item()
        while self.symbol in JOIN_BEGINNINGS:
            self._join()

    def _join(self) -> None:
        if self.accept("cross"):
            self.expect("join")
            self._from_item()
            return
        natural = self.accept("natural")
        if not self.accept("inner") and self.accept_any(("left", "right", "full")):
            self.accept("outer")
        self.expect("join")
        if natural:
            self._from_item()
            return
        # a join b join c on … on …: what follows before our ON belongs to the right side.
        self._joined_items()
        if self.accept("on"):
            self.expression()
        elif self.accept("using"):
            self.identifiers()
        else:
            raise self.unexpected(wanted=("on", "using"))

    def _from_item(self) -> None:
        self._count_item()
        lateral = self.accept("lateral")
        if self.symbol == "(":
            if self.holds_query():
                columns = self.subquery()
                self._alias(None, columns)
            elif lateral:
                raise self.unexpected(wanted=("a query",))
            else:
                self._bracketed_join()
        elif self.following() == "(":
            self._function()
        elif lateral:
            raise self.unexpected(wanted=("a query", "a function"))
        else:
            self._relation()

    def _count_item(self) -> None:
        self.from_item_count += 1
        if self.from_item_count > self.limits.from_items:
            raise self.refusal(f"is one FROM item too many; a query has at most {self.limits.from_items}")
        self.scope.item_count += 1
        if self.scope.item_count > self.limits.from_items_per_select:
            raise self.refusal(f"is one FROM item too many; a SELECT has at most {self.limits.from_items_per_select}")

    def _bracketed_join(self) -> None:
        self.expect("(")
        self._joined_items()
        self.expect(")")
        if self.symbol == "as" or self.is_identifier(self.symbol):
            # It would hide the names of the joined items.
            raise self.refusal("is an alias of a join, which is not part of sandbox queries")

    def _relation(self) -> None:
        if not self.is_identifier(self.symbol):
            raise self.unexpected(wanted=("a table",))
        if self.following() == ".":
            raise self.refusal("is a schema; tables are named without one")
        name, columns = self.resolve_relation()
        self.take(f'"{name}"')
        self._alias(name, columns)

    def _function(self) -> None:
        name = self.values[self.index]
        if not self.is_identifier(self.symbol) or name not in SET_RETURNING:
            self.refuse_in_from(name)
        if name == "unnest":
            self._unnest()
        else:
            self.call()
        columns = SET_RETURNING[name]
        if self.symbol == "with" and name not in RECORD_RETURNING:
            self.expect("with")
            self.expect("ordinality")
            self._alias(name, columns, ordinality=True)
        else:
            self._alias(name, columns, defines_columns=name in RECORD_RETURNING)

    def _unnest(self) -> None:
        # unnest(a, b)  ->  ROWS FROM ( unnest(a), unnest(b) ): the same, and the only form that can be pinned
        self.functions.add("unnest")
        form = len(self.pieces)
        self.take('pg_catalog."unnest"')
        self.expect("(")
        self.expression()
        if self.symbol != ",":
            self.expect(")")
            return
        self.pieces[form] = 'ROWS FROM ( pg_catalog."unnest"'
        while self.symbol == ",":
            self.take(') , pg_catalog."unnest" (')
            self.expression()
        if self.symbol != ")":
            raise self.unexpected()
        self.take(") )")

    def refuse_in_from(self, name: str) -> None:
        """Refuse a function that a FROM clause may not have."""
        if not self.is_identifier(self.symbol):
            raise self.unexpected(wanted=("a table",))
        self.require_allowed_function()
        raise self.refusal("is not a function that returns rows", construct=name)

    def _alias(
        self, name: str | None, columns: Columns | None, *, defines_columns: bool = False, ordinality: bool = False
    ) -> None:
        """Take ``[AS] alias [( column, … )]`` and enter the item; `columns` None means one called like the item."""
        alias = name
        aliased = True
        if self.accept("as"):
            alias = self.identifier()
        elif self.is_identifier(self.symbol):
            self.insert("AS")
            alias = self.identifier()
        else:
            aliased = False
        if columns is None:
            columns = NO_COLUMNS if alias is None else frozenset({alias})
        if ordinality:
            columns |= {"ordinality"}
        if aliased and self.symbol == "(":
            columns = frozenset(self._column_definitions() if defines_columns else self.identifiers())
        elif defines_columns:
            raise self.refusal("is not expected here; expected AS name(column type, …)")
        if alias is not None:
            self.scope.add_item(alias, columns)

    def _column_definitions(self) -> list[str]:
        self.expect("(")
        names: list[str] = []
        while True:
            names.append(self.identifier())
            self.type_name()
            if not self.accept(","):
                break
        self.expect(")")
        return names
