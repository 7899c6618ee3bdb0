"""The first wall of the sandbox: a consumer's SQL is one SELECT over the sandbox tables, or it is refused.

    text → tokens (forms checked) → a recursive descent that derives a subset of PostgreSQL's SELECT → new text

It fails closed: what the subset does not derive is refused, every name has a role (relation, function, type, column,
label), and relations, functions, types and operators are allowlists. What runs is not the consumer's text but what was
emitted while reading, so no difference between this reader and PostgreSQL's can matter:

* `tokens` checks each lexeme's form, `vocabulary` has the words, `logsources.allowed_functions` the functions;
* `reader` is the state of one check: it takes and emits one token at a time, and refuses with the place;
* `names` has the rules for names, `scopes` knows which FROM item a name may mean and its sure columns;
* the grammar is functions of the reader, one module for each topic: `type_names`, `brackets`, `calls`,
  `special_forms`, `operands`, `expressions`, `from_items`, `selects`. A module imports the rules it uses, so imports
  go one way; the reader brings the three rules that recursion needs from further up (`Grammar`);
* `checked_query` is the result, `violations` writes the refusals.

The second wall is PostgreSQL's own: what the reader's role may see. Each wall must protect without the other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from endpoints.results.outcomes import BoundValue, Statement
from endpoints.sql.composition import limit_rows
from endpoints.sql.parameters import DeclaredParameter
from endpoints.sql.sandbox.expressions import expression, simple_expression
from endpoints.sql.sandbox.reader import Grammar, Reader
from endpoints.sql.sandbox.selects import query, statement
from endpoints.sql.sandbox.tokens import SandboxLimits, TokenReader
from endpoints.sql.sandbox.vocabulary import THE_QUERY
from logsources.guards import NESTED_OPERATORS

# --- Checked query ----------------------------------------------------------------------------------------------------
# What came through the check: the text that runs, what it reads, and the way back to the consumer's text.
# "SELECT * FROM (\n": how many characters the statement has before the query.
_OFFSET_IN_STATEMENT: Final = limit_rows("?", max_rows=0).index("?")


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """A sandbox query that may run in a schema of exactly the sandbox tables it was checked against.

    `sql` is written from the checked tokens: no comments, every name quoted, functions and types pinned to
    pg_catalog, ``@name`` as ``($n::type)``. `relations` are the sandbox tables it reads, `functions` what it calls.
    """

    sql: str
    parameter_names: tuple[str, ...]
    relations: frozenset[str]
    functions: frozenset[str]
    _starts: tuple[int, ...] = field(repr=False)  # of each token in `sql`
    _origins: tuple[int, ...] = field(repr=False)  # of each token in the consumer's text

    @classmethod
    def from_pieces(
        cls,
        pieces: Sequence[str],
        origins: Sequence[int],
        *,
        parameter_names: Sequence[str],
        relations: frozenset[str],
        functions: frozenset[str],
    ) -> CheckedQuery:
        """Join the emitted tokens, each with its offset in the consumer's text."""
        starts = accumulate((len(piece) + 1 for piece in pieces[:-1]), initial=0)
        return cls(
            sql=" ".join(pieces),
            parameter_names=tuple(parameter_names),
            relations=relations,
            functions=functions,
            _starts=tuple(starts),
            _origins=tuple(origins),
        )

    def statement(self, arguments: Mapping[str, BoundValue], *, max_rows: int) -> Statement:
        """Return what runs: at most ``max_rows + 1`` rows. Raises KeyError if an argument is missing."""
        sql = limit_rows(self.sql, max_rows=max_rows)
        return Statement(sql, tuple(arguments[name] for name in self.parameter_names))

    def original_offset(self, emitted_offset: int) -> int:
        """Return the place in the consumer's text of the token at this 0-based offset of the statement.

        PostgreSQL's error positions are 1-based: subtract one. An offset before or after the query gives its first
        or its last token.
        """
        token = bisect_right(self._starts, emitted_offset - _OFFSET_IN_STATEMENT) - 1
        return self._origins[max(token, 0)]


# --- Sandbox ----------------------------------------------------------------------------------------------------------
__all__ = ["CheckedQuery", "SandboxLimits", "SandboxTable", "check_sandbox_query"]

DEFAULT_LIMITS = SandboxLimits()
GRAMMAR = Grammar(expression=expression, simple_expression=simple_expression, query=query)


@dataclass(frozen=True, slots=True)
class SandboxTable:
    """A table that a sandbox query may read, and the columns it really has."""

    name: str
    columns: tuple[str, ...]


def check_sandbox_query(
    sql: str,
    *,
    tables: Sequence[SandboxTable],
    parameters: Sequence[DeclaredParameter] = (),
    limits: SandboxLimits = DEFAULT_LIMITS,
    translated: Sequence[tuple[str, int]] = (),
) -> CheckedQuery:
    """Return the query to run for a consumer's `sql`, which may use ``@name`` of the given parameters.

    Of a text in another dialect it reads the pieces `translated` instead, each with its place in the text.

    Raises SandboxViolation for the first thing that is not allowed, its details saying what, why, where (1-based
    line and column) and which tables there are; RequestTooLarge if the text is over the length limit.
    """
    names = [table.name for table in tables]
    reader = Reader(
        sql,
        TokenReader(sql, limits, tables=names, translated=translated).read(),
        grammar=GRAMMAR,
        tables={table.name: frozenset(table.columns) for table in tables},
        parameter_types={parameter.name: parameter.type.postgresql_type for parameter in parameters},
        limits=limits,
    )
    statement(reader)
    if sum(map(reader.pieces.count, NESTED_OPERATORS)) > limits.nested_operators:
        most = f"{limits.nested_operators} of the operators *, /, %, ^ and ||"
        raise reader.refusal(f"has more than {most}", construct=THE_QUERY, index=0)
    return CheckedQuery.from_pieces(
        reader.pieces,
        reader.origins,
        parameter_names=tuple(reader.parameter_numbers),
        relations=frozenset(reader.relations),
        functions=frozenset(reader.functions),
    )
