"""Types in casts, typed literals and column definitions: only those of the allowlist, pinned to pg_catalog."""

from __future__ import annotations

from endpoints.sql.guards import LARGEST_WIDTH
from endpoints.sql.sandbox.cursor import Cursor
from endpoints.sql.sandbox.tokens import NUMBER, QUOTED, STRING
from endpoints.sql.sandbox.violations import similar_names
from endpoints.sql.sandbox.vocabulary import (
    INTERVAL_FIELDS,
    PADDED_TYPES,
    PINNED_TYPES,
    TYPE_WORDS,
    TYPES_WITH_MODIFIERS,
)

MAX_MODIFIER_DIGITS = 9  # fits an int4


class TypeNames(Cursor):
    """Reading of types."""

    def type_name(self) -> None:
        """Take a type, with its modifiers and array brackets."""
        self.element_type()
        while self.symbol == "[" and self.following() == "]":
            self.expect("[")
            self.expect("]")

    def element_type(self) -> None:
        """Take a type that is no array."""
        word = self.require_allowed_type()
        if word in PINNED_TYPES:
            self.take(PINNED_TYPES[word])
            self._modifiers(word)
        elif word == "double":
            if self.following() != "precision":
                raise self.refusal("has to be DOUBLE PRECISION")
            self.take("DOUBLE")
            self.expect("precision")
        elif word in ("char", "character") and self.following() == "varying":
            self.take('pg_catalog."varchar"')
            self.skip("varying")
            self._modifiers("varchar")
        else:
            self.take(word.upper())
            self._modifiers(word)
            if word in ("time", "timestamp"):
                self._time_zone()
            elif word == "interval":
                self.interval_fields()

    def require_allowed_type(self) -> str:
        """Return the type word at the current token, if it is one of the allowed."""
        if self.symbol not in TYPE_WORDS:
            name = self.values[self.index]
            if self.symbol != QUOTED and not self.symbol[:1].isidentifier():
                raise self.unexpected(wanted=("a type",))
            raise self.refusal("is not an allowed type", similar=similar_names(name, TYPE_WORDS))
        return self.symbol

    def interval_fields(self) -> None:
        """Take ``DAY``, ``DAY TO SECOND`` and the like, if there are any."""
        if self.accept_any(INTERVAL_FIELDS) and self.accept("to"):
            self.expect(*INTERVAL_FIELDS)

    def typed_literal_is_next(self) -> bool:
        """Whether a type with a string behind it begins here, as in ``date '2025-01-01'``; reads ahead, bounded."""
        word = self.symbol
        ahead = 1
        if word == "double" or (word in ("char", "character") and self.following() == "varying"):
            ahead = 2
        if self.following(ahead) == "(":
            ahead = self.closers[self.index + ahead] - self.index + 1
        if word in ("time", "timestamp") and self.following(ahead) in ("with", "without"):
            ahead += 3
        return self.following(ahead) == STRING

    def typed_literal(self) -> None:
        """Take a type and its string; interval fields may stand behind the string."""
        word = self.symbol
        self.element_type()
        self.string()
        if word == "interval":
            self.interval_fields()

    def string(self) -> None:
        """Take a string."""
        if self.symbol != STRING:
            raise self.unexpected(wanted=("a string",))
        self.take(self.values[self.index])

    def small_number(self) -> None:
        """Take an integer that fits an int4."""
        value = self.values[self.index]
        if self.symbol != NUMBER or not value.isdigit() or len(value) > MAX_MODIFIER_DIGITS:
            raise self.unexpected(wanted=("a whole number",))
        self.take(value)

    def _modifiers(self, word: str) -> None:
        if word not in TYPES_WITH_MODIFIERS or not self.accept("("):
            return
        width = self.index
        self.small_number()
        if word in PADDED_TYPES and int(self.values[width]) > LARGEST_WIDTH:
            reason = f"is more than {LARGEST_WIDTH:,}, to which {word} pads at most; use varchar or text"
            raise self.refusal(reason, index=width)
        if self.accept(","):
            self.small_number()
        self.expect(")")

    def _time_zone(self) -> None:
        if self.symbol in ("with", "without") and self.following() == "time":
            self.expect("with", "without")
            self.expect("time")
            self.expect("zone")

    def skip(self, word: str) -> None:
        """Go on behind this word and emit nothing for it."""
        assert self.symbol == word  # noqa: S101 - looked at by the caller
        self.index += 1
        self.symbol = self.symbols[self.index]
