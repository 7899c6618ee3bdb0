"""A place in the tokens and the state of one check: each token is emitted as it is read, or refused with its place.

Emitting while reading is what makes the checked text the text that runs: a token that no rule took is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from endpoints.errors import SandboxViolation
from endpoints.sql.sandbox.scopes import Columns, Output, Reference, Scope, Source, Use
from endpoints.sql.sandbox.tokens import END, NUMBER, PARAMETER, QUOTED, STRING, SandboxLimits, Tokens
from endpoints.sql.sandbox.vocabulary import A_STRING, REASONS, RESERVED, SET_OPERATIONS, THE_END, violation

MAX_INTEGER_DIGITS = 9  # fits an int4
# Parts that PostgreSQL may build from a text: a second and 80 MiB.
HEAVIEST: Final = 120_000
# Of them, copies of operands: PostgreSQL copies a condition and what it sorts by once more for each partition.
MOST_COPIES: Final = 4_000
OFTEN: Final = float(HEAVIEST)  # uses of a column, whose number is not known

Item = TypeVar("Item")
Part = str | Callable[["Reader"], object]  # of a rule: a word or sign, or a function
Mark = tuple[int, float, int]  # a place: its token, what the text weighs more than one a token so far, uses of columns


@dataclass(frozen=True, slots=True)
class Grammar:
    """The rules that a module needs from further up: operands contain expressions and queries, and these operands."""

    expression: Callable[[Reader], Output]
    simple_expression: Callable[[Reader], None]
    query: Callable[[Reader], tuple[Source, Scope]]


class Reader:
    """The state of one check, and the smallest steps of reading."""

    def __init__(
        self,
        sql: str,
        tokens: Tokens,
        *,
        grammar: Grammar,
        tables: Mapping[str, Columns],
        parameter_types: Mapping[str, str],
        limits: SandboxLimits,
    ) -> None:
        self.sql = sql
        self.symbols = tokens.symbols
        self.values = tokens.values
        self.starts = tokens.starts
        self.closers = tokens.closers
        self.grammar = grammar
        self.tables = tables
        self.parameter_types = parameter_types
        self.limits = limits
        self.index = 0
        self.symbol = self.symbols[0]
        self.pieces: list[str] = []
        self.origins: list[int] = []
        self.depth = 0
        self.scope = Scope(None)
        self.from_item_count = 0
        self.appended_arguments = 0
        self.references: list[Reference] = []
        self.whole_rows: list[tuple[Reference, int]] = []  # names that may be one; see `names.bound_whole_rows`
        self.more_weight = 0.0
        self.copies = 0.0
        self.uses: list[Use] = []
        self.open_selects = 0
        self.relations: set[str] = set()
        self.functions: set[str] = set()
        self.parameter_numbers: dict[str, int] = {}

    # ── one token

    def take(self, piece: str) -> None:
        """Emit `piece` for the current token and go on to the next."""
        index = self.index
        self.pieces.append(piece)
        self.origins.append(self.starts[index])
        self.index = index + 1
        self.symbol = self.symbols[index + 1]

    def take_symbol(self) -> None:
        """Take the current word or sign as it is."""
        self.take(self.symbol.upper())

    def skip(self) -> None:
        """Go on to the next token and emit nothing for the current one."""
        self.index += 1
        self.symbol = self.symbols[self.index]

    def insert(self, piece: str) -> None:
        """Emit `piece` before the current token."""
        self.pieces.append(piece)
        self.origins.append(self.starts[self.index])

    def accept(self, symbol: str) -> bool:
        """Take the current token if it is this word or sign."""
        if self.symbol != symbol:
            return False
        self.take(symbol.upper())
        return True

    def accept_any(self, symbols: Container[str]) -> bool:
        """Take the current token if it is one of these words or signs."""
        if self.symbol not in symbols:
            return False
        self.take(self.symbol.upper())
        return True

    def expect(self, *symbols: str) -> None:
        """Take one of these words or signs, or refuse."""
        if self.symbol not in symbols:
            raise self.unexpected(*symbols)
        self.take(self.symbol.upper())

    def following(self, steps: int = 1) -> str:
        """Return the symbol `steps` after the current one."""
        index = self.index + steps
        return self.symbols[index] if index < len(self.symbols) else END

    def identifier(self) -> str:
        """Take a name and emit it quoted, as PostgreSQL would fold it."""
        if not is_identifier(self.symbol):
            raise self.unexpected("a name")
        name = self.values[self.index]
        self.take(f'"{name}"')
        return name

    def label(self) -> str:
        """Take a column label, after AS or a dot, where any word is a name."""
        if not is_word(self.symbol):
            raise self.unexpected("a name")
        name = self.values[self.index]
        self.take(f'"{name}"')
        return name

    def string(self) -> None:
        """Take a string."""
        if self.symbol != STRING:
            raise self.unexpected("a string")
        self.take(self.values[self.index])

    def small_integer(self) -> int:
        """Take an integer that fits an int4."""
        value = self.values[self.index]
        if self.symbol != NUMBER or not value.isdigit() or len(value) > MAX_INTEGER_DIGITS:
            raise self.unexpected("a whole number")
        self.take(value)
        return int(value)

    # ── several tokens

    def read(self, *parts: Part) -> None:
        """Take the parts in order, or refuse: a string is the word or sign expected here, a function reads on."""
        for part in parts:
            if not isinstance(part, str):
                part(self)
            elif not self.accept(part):
                raise self.unexpected(part)

    def list_of(self, rule: Callable[[Reader], Item]) -> list[Item]:
        """Take a list with commas, each item by `rule`, and return what the rule returned for each."""
        items = [rule(self)]
        while self.symbol == ",":
            self.take(",")
            items.append(rule(self))
        return items

    def identifiers(self) -> list[str]:
        """Take ``( name, … )``."""
        self.expect("(")
        names = self.list_of(Reader.identifier)
        self.expect(")")
        return names

    def expression(self) -> Output:
        """Take an expression; see `expressions`."""
        return self.grammar.expression(self)

    def expressions(self) -> None:
        """Take ``expression, …``."""
        self.list_of(self.grammar.expression)

    def simple_expression(self) -> None:
        """Take operands joined by operators only; see `expressions`."""
        self.grammar.simple_expression(self)

    # ── what PostgreSQL builds (see `weights`)

    def mark(self) -> Mark:
        """Return the current place, for `copied`."""
        return self.index, self.more_weight, len(self.uses)

    def copied(self, start: Mark, times: float, end: Mark | None = None) -> float:
        """Note that PostgreSQL holds so many times what was read between two places; return how much that adds."""
        token, more, first = start
        end_token, end_more, last = end or self.mark()
        for index in range(first, last):
            use = self.uses[index]
            self.uses[index] = Use(use.owner, use.name, use.times * times)
        added = (end_token - token + end_more - more) * (times - 1)
        self.add_weight(added, token)
        return added

    def operand_copied(self, start: Mark, times: float) -> None:
        """Note that PostgreSQL holds so many times the operand that begins there and ends here."""
        self.copies += self.copied(start, times)
        if self.copies > MOST_COPIES:
            raise self._too_heavy(MOST_COPIES, "copy their operands", start[0])

    def add_weight(self, weight: float, token: int) -> None:
        """Note that PostgreSQL builds so much more; refuse the token if that is too much for the text."""
        self.more_weight += weight
        if self.more_weight > HEAVIEST:
            raise self._too_heavy(HEAVIEST, "and columns that are expressions are copied with each use", token)

    def _too_heavy(self, most: int, why: str, token: int) -> SandboxViolation:
        return self.refusal(
            f"makes PostgreSQL build more than {most:,} parts, because BETWEEN and IN {why}; name the expression once"
            " in a subquery that ends with OFFSET 0, and use its column",
            index=token,
        )

    # ── refusing

    def refusal(
        self, reason: str, *, construct: str | None = None, index: int | None = None, similar: Sequence[str] = ()
    ) -> SandboxViolation:
        """Return the refusal of the token at `index`, by default the current one."""
        at = self.index if index is None else index
        named = self._shown(at) if construct is None else construct
        return violation(
            self.sql, self.starts[at], construct=named, reason=reason, tables=list(self.tables), similar=similar
        )

    def unexpected(self, *wanted: str) -> SandboxViolation:
        """Return the refusal of a token that no rule reads, where one of `wanted` was expected."""
        if self.symbol in REASONS:
            return self.refusal(REASONS[self.symbol])
        expected = " or ".join(word.upper() if word.isalpha() else word for word in wanted)
        return self.refusal(f"is not expected here; expected {expected}" if wanted else "is not expected here")

    def _shown(self, index: int) -> str:
        symbol = self.symbols[index]
        if symbol == END:
            return THE_END
        if symbol == STRING:
            return A_STRING
        return f"@{self.values[index]}" if symbol == PARAMETER else self.values[index]


def is_word(symbol: str) -> bool:
    """Whether a token with this symbol is a quoted name or a word, reserved or not."""
    return symbol == QUOTED or symbol[:1].isidentifier()


def is_identifier(symbol: str) -> bool:
    """Whether a token with this symbol names something: quoted, or a word that is not reserved."""
    return symbol == QUOTED or (symbol[:1].isidentifier() and symbol not in RESERVED)


# --- Brackets ---------------------------------------------------------------------------------------------------------
_QUERY_BEGINNINGS: Final = frozenset({"select", "with"})
_BEHIND_QUERY: Final = SET_OPERATIONS | {")", "order", "limit", "offset", "fetch"}


def holds_query(reader: Reader) -> bool:
    """Whether the bracket at the current token contains a query, not an expression or a join."""
    # (select …), ((select …) union …), but not ((select …) + 1), not ((select …) q join …)
    index = reader.index
    while reader.symbols[index] == "(":
        if index > reader.index and reader.symbols[reader.closers[index] + 1] not in _BEHIND_QUERY:
            return False
        index += 1
    return reader.symbols[index] in _QUERY_BEGINNINGS and index > reader.index


def subquery(reader: Reader) -> Source:
    """Take ``( query )``."""
    reader.expect("(")
    source, _ = reader.grammar.query(reader)
    source.closer = len(reader.pieces)
    reader.expect(")")
    return source


def table_query(reader: Reader) -> Source:
    """Take ``( query )`` whose columns a query around may use often, and with them those of queries further out."""
    first = len(reader.uses)
    source = subquery(reader)
    reader.uses[first:] = [Use(owner, name, OFTEN) for owner, name, _ in reader.uses[first:]]
    return source


def list_or_query(reader: Reader) -> None:
    """Take ``( query )`` or ``( expression, … )``."""
    if holds_query(reader):
        subquery(reader)
    else:
        reader.read("(", Reader.expressions, ")")
