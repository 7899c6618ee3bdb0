"""BigQuery's SQL (GoogleSQL) → PostgreSQL's, for clients that were written for another service and cannot be changed.

    text → tokens within bounds → sqlglot's tree → passes and rules → PostgreSQL's tree → text

Imports sqlglot and the standard library only, and sqlglot at the first translation: README.md shows how a host uses it.
The resulting text is nothing special: a host that takes texts from strangers checks it like any other. The stages, and
where to look for a construct:

* `translating` calls the stages; `parsing` reads the text; `clauses` refuses what no rule reads; `passes`,
  `named_windows` and `spellings` rewrite whole SELECTs;
* `from_clause` has the unnest joins, `scopes` the meaning of names, `fields` how a field is read, `queries` SELECT and
  its clauses, `qualifying` QUALIFY, `percentiles` percentiles with OVER, `unions` the columns of UNION, `shapes` what
  is inside the structs of a text;
* `rules` has one function per construct and one module per family; `coercions` turns a field into the type that its
  context needs, `fields` finds it, `text_forms` writes values as BigQuery does;
* `results` gives the moments of a whole text BigQuery's form; `patterns` rewrites regular expressions; `tree` defines
  the resulting tree, `printing` writes it.

Every struct and array of BigQuery is jsonb here. Stored records are arrays of one object at every level, as BigQuery
stores repeated records; paths go through them whether they were unnested or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Final, Literal, NamedTuple

from googlesql.field_paths import FieldUse

# The functions that translated texts call besides PostgreSQL's own and a host's (README.md). A host that has the schema
# log_functions runs the file, and allows what it defines.
FUNCTIONS: Final = files("googlesql") / "functions.sql"

Moments = Literal["iso", "microseconds"]  # how TIMESTAMPs inside structs and arrays of a result are written


class Column(NamedTuple):
    """A column and its type in the form of PostgreSQL's format_type(); sorts by one that is never NULL can be served
    by an index."""

    name: str
    type: str
    nullable: bool = True


class Translation(NamedTuple):
    """PostgreSQL's text in pieces, each with its offset in the translated text; joined by blanks they are the query.

    `fields` are the fields of stored records that each column of the result was made of, `named` those that the text
    names anywhere.
    """

    pieces: list[tuple[str, int]]
    fields: tuple[tuple[FieldUse, ...], ...]
    named: tuple[FieldUse, ...]


class Refused(Exception):
    """A construct that has no translation; `offset` is its place in the text, None if it is unknown.

    `similar` are names that the author may have meant.
    """

    def __init__(self, construct: str, reason: str, *, offset: int | None = None, similar: Sequence[str] = ()) -> None:
        super().__init__(f"{construct} {reason}")
        self.construct = construct
        self.reason = reason
        self.offset = offset
        self.similar = tuple(similar)


def translate(
    text: str,
    tables: Mapping[str, Sequence[Column]],
    parameters: Mapping[str, str],
    *,
    moments: Moments,
    functions: frozenset[str],
) -> Translation:
    """Return the translation of a text over these tables, with ``@name`` of these parameters and their types.

    `functions` are those of PostgreSQL that a text may call by their own names. Raises Refused, and ImportError if
    sqlglot is not installed. Any other error is a fault of this package; its message may quote the text.
    """
    # Takes a quarter of a second and 20 MB, which only a text in this dialect is worth.
    from googlesql.translating import translated

    return translated(text, tables, parameters, moments, functions)
