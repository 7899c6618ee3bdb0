"""A place in the tokens: what is read is emitted at once, and what cannot be read is refused with its place.

Emitting while reading is what makes the checked text the text that runs: a token that no rule took is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from endpoints.errors import SandboxViolation
from endpoints.sql.functions import ALLOWED_FUNCTIONS, similar_functions
from endpoints.sql.sandbox.scopes import Columns, Reference, Scope
from endpoints.sql.sandbox.tokens import END, PARAMETER, QUOTED, STRING, SandboxLimits, Tokens
from endpoints.sql.sandbox.violations import A_STRING, THE_END, similar_names, violation
from endpoints.sql.sandbox.vocabulary import REASONS, RESERVED


class Cursor:
    """The state of one check, and the smallest steps of reading."""

    def __init__(
        self,
        sql: str,
        tokens: Tokens,
        *,
        tables: Mapping[str, Columns],
        parameter_types: Mapping[str, str],
        limits: SandboxLimits,
    ) -> None:
        self.sql = sql
        self.symbols = tokens.symbols
        self.values = tokens.values
        self.starts = tokens.starts
        self.closers = tokens.closers
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
        self.relations: set[str] = set()
        self.functions: set[str] = set()
        self.parameter_numbers: dict[str, int] = {}

    # ── reading

    def take(self, piece: str) -> None:
        """Emit `piece` for the current token and go on to the next."""
        index = self.index
        self.pieces.append(piece)
        self.origins.append(self.starts[index])
        self.index = index + 1
        self.symbol = self.symbols[index + 1]

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

    def accept_any(self, symbols: Iterable[str]) -> bool:
        """Take the current token if it is one of these words or signs."""
        if self.symbol not in symbols:
            return False
        self.take(self.symbol.upper())
        return True

    def expect(self, *symbols: str) -> None:
        """Take one of these words or signs, or refuse."""
        if self.symbol not in symbols:
            raise self.unexpected(wanted=symbols)
        self.take(self.symbol.upper())

    def following(self, steps: int = 1) -> str:
        """Return the symbol `steps` behind the current one."""
        index = self.index + steps
        return self.symbols[index] if index < len(self.symbols) else END

    # ── names

    def is_identifier(self, symbol: str) -> bool:
        """Whether a token with this symbol names something: quoted, or a word that is not reserved."""
        return symbol == QUOTED or (symbol[:1].isidentifier() and symbol not in RESERVED)

    def identifier(self) -> str:
        """Take a name and emit it quoted, as PostgreSQL would fold it."""
        if not self.is_identifier(self.symbol):
            raise self.unexpected(wanted=("a name",))
        name = self.values[self.index]
        self.take(f'"{name}"')
        return name

    def label(self) -> str:
        """Take a column label, behind AS or a dot, where any word is a name."""
        if self.symbol != QUOTED and not self.symbol[:1].isidentifier():
            raise self.unexpected(wanted=("a name",))
        name = self.values[self.index]
        self.take(f'"{name}"')
        return name

    def identifiers(self) -> list[str]:
        """Take ``( name, … )``."""
        self.expect("(")
        names = [self.identifier()]
        while self.accept(","):
            names.append(self.identifier())
        self.expect(")")
        return names

    # ── rules that names are judged by

    def require_allowed_function(self) -> str:
        """Return the name of the function called at the current token, if it is one of the allowed."""
        if self.symbol in REASONS:
            raise self.unexpected()
        name = self.values[self.index]
        if name not in ALLOWED_FUNCTIONS:
            raise self.refusal("is not an allowed function", construct=name, similar=similar_functions(name))
        return name

    def resolve_relation(self) -> tuple[str, Columns]:
        """Return the name at the current token, and its columns as a common table expression or a sandbox table."""
        name = self.values[self.index]
        columns = self.scope.common_table(name)
        if columns is not None:
            return name, columns
        # PostgreSQL looks into pg_catalog first, whose relations all begin like this.
        if name not in self.tables or name.startswith("pg_"):
            known = self.scope.common_table_names() | self.tables.keys()
            reason = "is not a table that this query may read"
            raise self.refusal(reason, construct=name, similar=similar_names(name, known))
        self.relations.add(name)
        return name, self.tables[name]

    def require_known_columns(self) -> None:
        """Refuse ``owner.attribute`` unless the attribute surely is a column, not a call in disguise."""
        for reference in self.references:
            candidates = reference.candidates()
            if not candidates:
                raise self.refusal("is not a FROM item here", construct=reference.owner, index=reference.token - 2)
            if not all(reference.attribute in columns for columns in candidates):
                similar = similar_names(reference.attribute, frozenset.intersection(*candidates))
                raise self.refusal(
                    "is not a known column; give the column a name with AS where it comes from",
                    construct=f"{reference.owner}.{reference.attribute}",
                    index=reference.token,
                    similar=similar,
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

    def unexpected(self, *, wanted: Sequence[str] = ()) -> SandboxViolation:
        """Return the refusal of a token that no rule reads."""
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
