"""Expressions with a syntax of their own: CASE, CAST, EXTRACT, ARRAY, EXISTS and the like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from endpoints.sql.functions import LOG_FUNCTIONS_SCHEMA
from endpoints.sql.sandbox.calls import Calls
from endpoints.sql.sandbox.tokens import STRING
from endpoints.sql.sandbox.vocabulary import EXTRACT_FIELDS


class SpecialForms(Calls):
    """Reading of special forms. What each calls in PostgreSQL is listed in `functions.SYNTAX_FUNCTIONS`."""

    def special_form(self) -> Callable[[], None] | None:
        """Return what reads the current token, if it begins a syntax of its own."""
        form = _WORD_FORMS.get(self.symbol)
        if form is None and self.following() == "(":
            form = _BRACKET_FORMS.get(self.symbol)
        return None if form is None else form.__get__(self)

    def _constant(self) -> None:
        self.take(self.symbol.upper())

    def _clock(self) -> None:
        self.take(self.symbol.upper())
        if self.accept("("):
            self.small_number()
            self.expect(")")

    def _case(self) -> None:
        self.expect("case")
        self.depth += 1
        if self.depth > self.limits.depth:
            raise self.refusal(f"is in CASE nested deeper than {self.limits.depth} levels")
        if self.symbol != "when":
            self.expression()
        if self.symbol != "when":
            raise self.unexpected(wanted=("when",))
        while self.accept("when"):
            self.expression()
            self.expect("then")
            self.expression()
        if self.accept("else"):
            self.expression()
        self.expect("end")
        self.depth -= 1

    def _cast(self) -> None:
        self.expect("cast")
        self.expect("(")
        self.expression()
        self.expect("as")
        self.type_name()
        self.expect(")")

    def _listed(self) -> None:
        # COALESCE, NULLIF, GREATEST, LEAST, GROUPING
        self.take(self.symbol.upper())
        self.expect("(")
        self.expressions()
        self.expect(")")

    def _row(self) -> None:
        self.expect("row")
        self.expect("(")
        if self.symbol != ")":
            self.expressions()
        self.expect(")")

    def _exists(self) -> None:
        self.expect("exists")
        self.subquery()

    def _array(self) -> None:
        self.expect("array")
        if self.symbol == "(":
            self.subquery()
        else:
            self._elements()

    def _elements(self) -> None:
        self.expect("[")
        while self.symbol != "]":
            if self.symbol == "[":
                self._elements()
            else:
                self.expression()
            if not self.accept(","):
                break
        self.expect("]")

    def _extract(self) -> None:
        self.functions.add("extract")
        self.expect("extract")
        self.expect("(")
        field = self.values[self.index].strip("'").lower() if self.symbol == STRING else self.symbol
        if field not in EXTRACT_FIELDS:
            raise self.refusal("is not a field of EXTRACT", construct=field)
        self.take(f"'{field}'")
        self.expect("from")
        self.expression()
        self.expect(")")

    def _substring(self) -> None:
        self.functions.add("substring")
        form = len(self.pieces)
        self.expect("substring")
        self.expect("(")
        self.expression()
        if self.symbol == "," or self.symbol == ")":
            # With commas it is an ordinary call, which has to be pinned like the others.
            self.pieces[form] = 'pg_catalog."substring"'
            while self.accept(","):
                self.expression()
        elif self.accept("similar"):
            self.simple_expression()
            self.expect("escape")
            self.expression()
        else:
            self._from_and_for()
        self.expect(")")

    def _from_and_for(self) -> None:
        if self.symbol not in ("from", "for"):
            raise self.unexpected(wanted=("from", "for"))
        first = self.symbol
        self.expect(first)
        self.expression()
        if self.accept("for" if first == "from" else "from"):
            self.expression()

    def _overlay(self) -> None:
        self.functions.add("overlay")
        self.expect("overlay")
        self.expect("(")
        self.expression()
        self.expect("placing")
        self.expression()
        self.expect("from")
        self.expression()
        if self.accept("for"):
            self.expression()
        self.expect(")")

    def _position(self) -> None:
        self.functions.add("position")
        # position(a in b)  ->  log_functions.position(b, a), as PostgreSQL itself calls its own
        self.take(f'{LOG_FUNCTIONS_SCHEMA}."position"')
        self.expect("(")
        needle = len(self.pieces)
        self.simple_expression()
        self._expect_as_comma("in")
        haystack = len(self.pieces)
        self.simple_expression()
        self._exchange(needle, haystack)
        self.expect(")")

    def _trim(self) -> None:
        # trim(leading a from b)  ->  log_functions.ltrim(b, a)
        form = len(self.pieces)
        self.take("trim")
        self.expect("(")
        function = {"leading": "ltrim", "trailing": "rtrim"}.get(self.symbol, "btrim")
        self.functions.add(function)
        self.pieces[form] = f'{LOG_FUNCTIONS_SCHEMA}."{function}"'
        if self.symbol in ("both", "leading", "trailing"):
            self.skip(self.symbol)
        if self.symbol == "from":
            self.skip("from")
            self.expressions()
        else:
            characters = len(self.pieces)
            self.expression()
            if self.symbol == "from":
                self._expect_as_comma("from")
                trimmed = len(self.pieces)
                self.expression()
                self._exchange(characters, trimmed)
            elif self.accept(","):
                self.expression()
        self.expect(")")

    def _expect_as_comma(self, word: str) -> None:
        if self.symbol != word:
            raise self.unexpected(wanted=(word,))
        self.take(",")

    def _exchange(self, first: int, second: int) -> None:
        """Put what was emitted from `second` on before what was emitted from `first` on; a comma ends the first."""
        comma = second - 1
        pieces, origins = self.pieces, self.origins
        pieces[first:] = [*pieces[second:], pieces[comma], *pieces[first:comma]]
        origins[first:] = [*origins[second:], origins[comma], *origins[first:comma]]


# Reserved words, which are these forms wherever they stand.
_WORD_FORMS: Final[dict[str, Callable[[SpecialForms], None]]] = {
    **dict.fromkeys(("true", "false", "null", "current_date"), SpecialForms._constant),
    **dict.fromkeys(("current_timestamp", "current_time", "localtime", "localtimestamp"), SpecialForms._clock),
    "case": SpecialForms._case,
    "cast": SpecialForms._cast,
    "array": SpecialForms._array,
}
# Words that are names unless a bracket follows.
_BRACKET_FORMS: Final[dict[str, Callable[[SpecialForms], None]]] = {
    **dict.fromkeys(("coalesce", "nullif", "greatest", "least", "grouping"), SpecialForms._listed),
    "row": SpecialForms._row,
    "exists": SpecialForms._exists,
    "extract": SpecialForms._extract,
    "substring": SpecialForms._substring,
    "overlay": SpecialForms._overlay,
    "position": SpecialForms._position,
    "trim": SpecialForms._trim,
}
