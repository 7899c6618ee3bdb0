"""The first wall of the sandbox: a consumer's SQL is one SELECT over the sandbox tables, or it is refused.

    text → tokens (forms checked) → a recursive descent that derives a subset of PostgreSQL's SELECT → text anew

It fails closed: what the subset does not derive is refused, every name has a role (relation, function, type, column,
label), and relations, functions, types and operators are allowlists. What runs is not the consumer's text but what was
emitted while reading, so no difference between this reader and PostgreSQL's can matter:

* `tokens` checks each lexeme's form, `vocabulary` has the words, `endpoints.sql.functions` the functions;
* `reader` is the state of one check: it takes and emits one token at a time, and refuses with the place;
* `names` has the rules for names, `scopes` knows which FROM item a name may mean and its sure columns;
* the grammar is functions of the reader, one module for each topic: `type_names`, `brackets`, `calls`,
  `special_forms`, `operands`, `expressions`, `from_items`, `selects`. A module imports the rules it uses, so imports
  go one way; the reader brings the three rules that recursion needs from further up (`Grammar`);
* `checked_query` is the result, `violations` writes the refusals.

The second wall is PostgreSQL's own: what the reader's role may see. Each wall has to stand without the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from endpoints.sql.parameters import DeclaredParameter
from endpoints.sql.sandbox.checked_query import CheckedQuery
from endpoints.sql.sandbox.expressions import expression, simple_expression
from endpoints.sql.sandbox.reader import Grammar, Reader
from endpoints.sql.sandbox.selects import query, statement
from endpoints.sql.sandbox.tokens import SandboxLimits, TokenReader

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
) -> CheckedQuery:
    """Return the query to run for a consumer's `sql`, which may use ``@name`` of the given parameters.

    Raises SandboxViolation for the first thing that is not allowed, its details saying what, why, where (1-based
    line and column) and which tables there are; RequestTooLarge when the text is over the length limit.
    """
    names = [table.name for table in tables]
    reader = Reader(
        sql,
        TokenReader(sql, limits, tables=names).read(),
        grammar=GRAMMAR,
        tables={table.name: frozenset(table.columns) for table in tables},
        parameter_types={parameter.name: parameter.type.postgresql_type for parameter in parameters},
        limits=limits,
    )
    statement(reader)
    return CheckedQuery.from_pieces(
        reader.pieces,
        reader.origins,
        parameter_names=tuple(reader.parameter_numbers),
        relations=frozenset(reader.relations),
        functions=frozenset(reader.functions),
    )
