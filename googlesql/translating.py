"""BigQuery's SQL → PostgreSQL's, for clients that were written for another service and cannot be changed.

    text → tokens within bounds → sqlglot's tree → passes and rules → PostgreSQL's tree → text

The resulting text is nothing special: it goes through the checker of sandbox queries like a consumer's own, and uses
only functions of the allowlist. The stages, and where to look for a construct:

* `parsing` reads the text; `clauses` refuses what no rule reads; `passes`, `named_windows` and `spellings` rewrite
  whole SELECTs;
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

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate
from typing import Final

from endpoints.dialects import TranslationBug
from endpoints.errors import RequestTooLarge, SandboxViolation
from endpoints.results.outcomes import BoundValue, Column, Statement, TimestampForm
from endpoints.sql.lexemes import line_and_column
from endpoints.sql.parameters import DeclaredParameter
from endpoints.sql.sandbox import CheckedQuery, SandboxLimits, SandboxTable, check_sandbox_query
from endpoints.sql.sandbox.vocabulary import violation
from googlesql.clauses import refuse_unread_clauses
from googlesql.field_paths import UNTRACED, FieldPath, Trace, UsedFields
from googlesql.fields import written_with_capitals
from googlesql.kinds import Kind, kind_of_type
from googlesql.parsing import THE_QUERY, parse, tokens_of
from googlesql.printing import Printer
from googlesql.queries import translate_query
from googlesql.refusals import Refusal
from googlesql.results import as_results
from googlesql.scopes import Columns, Scope
from googlesql.tree import Output

__all__ = [
    "BigQueryColumn",
    "BigQueryTable",
    "CheckedTranslation",
    "Translation",
    "TranslationBug",
    "check",
    "check_bigquery",
    "forget_translations",
    "log_table",
    "translate",
]


@dataclass(frozen=True, slots=True)
class Translation:
    """PostgreSQL's text for a text in BigQuery's dialect."""

    sql: str
    _starts: tuple[int, ...] = field(repr=False)  # offsets of the pieces in `sql`
    _origins: tuple[int, ...] = field(repr=False)  # offsets of the pieces in the consumer's text
    fields: UsedFields

    @classmethod
    def from_pieces(cls, pieces: Sequence[str], origins: Sequence[int], fields: UsedFields) -> Translation:
        """Join the pieces, each with its offset in the consumer's text."""
        starts = accumulate((len(piece) + 1 for piece in pieces[:-1]), initial=0)
        return cls(" ".join(pieces), tuple(starts), tuple(origins), fields)

    def original_offset(self, offset: int) -> int:
        """Return the offset in the consumer's text for an offset in `sql`, as exactly as it is known."""
        piece = bisect_right(self._starts, offset) - 1
        return self._origins[max(piece, 0)]


@dataclass(frozen=True, slots=True)
class CheckedTranslation:
    """A checked query that came from another dialect; used like a `CheckedQuery`."""

    query: CheckedQuery
    translation: Translation

    @property
    def sql(self) -> str:
        """Return the final SQL without the limit of rows."""
        return self.query.sql

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Return the parameter name of each placeholder, "" for the service's own values."""
        return self.query.parameter_names

    @property
    def fields(self) -> UsedFields:
        """Return the fields of stored records that the text names."""
        return self.translation.fields

    def statement(self, arguments: Mapping[str, BoundValue], *, max_rows: int) -> Statement:
        """Return the final SQL for at most ``max_rows + 1`` rows. Raises KeyError if an argument is missing."""
        return self.query.statement(arguments, max_rows=max_rows)

    def original_offset(self, emitted_offset: int) -> int:
        """Return the place in the consumer's text for this 0-based offset of the statement."""
        return self.translation.original_offset(self.query.original_offset(emitted_offset))


def check_translation(
    text: str,
    translation: Translation,
    *,
    tables: Sequence[SandboxTable],
    parameters: Sequence[DeclaredParameter],
    limits: SandboxLimits,
) -> CheckedTranslation:
    """Return the checked query for the translation of a consumer's `text`.

    Raises SandboxViolation with its line and column in that text, and RequestTooLarge.
    """
    try:
        query = check_sandbox_query(translation.sql, tables=tables, parameters=parameters, limits=limits)
    except SandboxViolation as violation:
        raise _in_text(violation, text, translation) from violation
    return CheckedTranslation(query, translation)


def _in_text(violation: SandboxViolation, text: str, translation: Translation) -> SandboxViolation:
    """Return the violation with its place in the consumer's text instead of the one in PostgreSQL's."""
    detail = dict(violation.details[0]) if violation.details else {}
    line, column = detail.get("line"), detail.get("column")
    if not isinstance(line, int) or not isinstance(column, int):
        return violation
    offset = min(translation.original_offset(_offset(translation.sql, line, column)), len(text))
    detail["line"], detail["column"] = own_line, own_column = line_and_column(text, offset)
    message = violation.message.replace(f"Line {line}, column {column}: ", f"Line {own_line}, column {own_column}: ", 1)
    return SandboxViolation(message, details=[detail])


def _offset(sql: str, line: int, column: int) -> int:
    start = 0
    for _ in range(line - 1):
        # Line ends are counted as in line_and_column: \r\n is one.
        ends = [end for end in (sql.find("\n", start), sql.find("\r", start)) if end >= 0]
        end = min(ends, default=len(sql))
        start = end + (2 if sql.startswith("\r\n", end) else 1)
    return start + column - 1


# --- Tables ---------------------------------------------------------------------------------------------------------
# The sandbox tables as a translation knows them: their columns and PostgreSQL's types.
# Every row of every log table has these, so a sort by them needs no NULLS FIRST, which no index would serve.
NEVER_NULL: Final = frozenset({"id", "timestamp"})


@dataclass(frozen=True, slots=True)
class BigQueryColumn:
    """A column and its type in the form of PostgreSQL's format_type()."""

    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class BigQueryTable:
    """A table that a text may read."""

    name: str
    columns: tuple[BigQueryColumn, ...]


def log_table(name: str, columns: Sequence[Column]) -> BigQueryTable:
    """Return a published sandbox table in the form that the translation needs."""
    return BigQueryTable(
        name, tuple(BigQueryColumn(column.name, column.type, column.name not in NEVER_NULL) for column in columns)
    )


MAX_BYTES: Final = 16 * 1024  # of a text in UTF-8, as for any other sandbox query
# Dashboards send the same few texts again and again; only the times in them change. A long one takes 300 KiB.
TRANSLATIONS_KEPT: Final = 128


def translate(
    sql: str,
    *,
    tables: Sequence[BigQueryTable],
    parameters: Sequence[DeclaredParameter] = (),
    timestamps_as: TimestampForm = TimestampForm.ISO,
    max_bytes: int = MAX_BYTES,
) -> Translation:
    """Return the translation of a consumer's text in BigQuery's dialect; the last few hundred are remembered.

    Moments inside structs and arrays of its result are written as `timestamps_as` says.

    Raises SandboxViolation if there is no translation: its details say what, why and where (1-based line and column);
    TranslationBug, also one, if the translator itself has a fault.
    Raises RequestTooLarge for a text over the limit.
    """
    if len(sql) > max_bytes or len(sql.encode("utf-8", "surrogatepass")) > max_bytes:
        raise RequestTooLarge(f"A sandbox query may have at most {max_bytes} bytes.")
    types = tuple((parameter.name, parameter.type.postgresql_type) for parameter in parameters)
    return _translated(sql, tuple(tables), types, timestamps_as)


def check_bigquery(
    sql: str,
    *,
    tables: Sequence[BigQueryTable],
    parameters: Sequence[DeclaredParameter] = (),
    timestamps_as: TimestampForm = TimestampForm.ISO,
    limits: SandboxLimits | None = None,
) -> CheckedTranslation:
    """Return the query to run for a consumer's text in BigQuery's dialect: translated, then checked like any other.

    Raises SandboxViolation, with the place in the consumer's text, and RequestTooLarge.
    """
    limits = limits or SandboxLimits()
    return check_translation(
        sql,
        translate(
            sql,
            tables=tables,
            parameters=parameters,
            timestamps_as=timestamps_as,
            max_bytes=limits.bytes,
        ),
        tables=[SandboxTable(table.name, tuple(column.name for column in table.columns)) for table in tables],
        parameters=parameters,
        limits=limits,
    )


def check(
    text: str,
    *,
    tables: Sequence[tuple[str, Sequence[Column]]],
    parameters: Sequence[DeclaredParameter],
    timestamps_as: TimestampForm,
    limits: SandboxLimits,
) -> CheckedTranslation:
    """Return the query to run for a text over published tables, as `endpoints.dialects` asks for it."""
    # Each unnest is an item of FROM, and a query over several log tables has dozens of them.
    limits = replace(limits, from_items=64, from_items_per_select=24)
    log_tables = [log_table(name, columns) for name, columns in tables]
    return check_bigquery(
        text,
        tables=log_tables,
        parameters=parameters,
        timestamps_as=timestamps_as,
        limits=limits,
    )


@lru_cache(maxsize=TRANSLATIONS_KEPT)
def _translated(
    sql: str,
    tables: tuple[BigQueryTable, ...],
    parameters: tuple[tuple[str, str], ...],
    timestamps_as: TimestampForm,
) -> Translation:
    try:
        tree = refuse_unread_clauses(parse(sql, tokens_of(sql)))
        printer = Printer()
        types = {name: kind_of_type(type_) for name, type_ in parameters}
        known = Scope(tables=_known(tables), parameters=types, any_case=written_with_capitals(tree))
        if tree.args.get("kind") == "STRUCT":
            tree.set("kind", None)  # a result has the fields as columns
        query = translate_query(tree, Scope(parent=known))
        printer.query(as_results(query, timestamps_as))
    except Refusal as refusal:
        raise _violation(sql, refusal, tables) from refusal
    except RecursionError as error:
        too_deep = Refusal(THE_QUERY, "is nested too deeply to be translated", offset=0)
        raise _violation(sql, too_deep, tables) from error
    except MemoryError:
        raise
    except Exception as error:
        # Any such error is the text's fault for the caller and ours for the log; the answer always has a reason.
        unknown = Refusal(THE_QUERY, "cannot be translated; write it in a simpler way", offset=0)
        raise TranslationBug(_violation(sql, unknown, tables), error) from error
    fields = UsedFields(tuple(dict.fromkeys(known.uses)), tuple(column.trace.uses for column in query.outputs))
    return Translation.from_pieces(printer.pieces, printer.origins, fields)


def forget_translations() -> None:
    """Forget all translations, for measurements of their time."""
    _translated.cache_clear()


def _known(tables: Sequence[BigQueryTable]) -> dict[str, tuple[str, Columns]]:
    return {
        table.name.casefold(): (
            table.name,
            Columns.of(tuple(_stored(table, column) for column in table.columns)),
        )
        for table in tables
    }


def _stored(table: BigQueryTable, column: BigQueryColumn) -> Output:
    kind = kind_of_type(column.type)
    trace = Trace(FieldPath(table.name, column.name)) if kind is Kind.JSON else UNTRACED
    return Output(column.name, kind, column.nullable, trace=trace)


def _violation(sql: str, refusal: Refusal, tables: Sequence[BigQueryTable]) -> SandboxViolation:
    names = [table.name for table in tables]
    offset = min(max(refusal.offset or 0, 0), len(sql))
    return violation(
        sql, offset, construct=refusal.construct, reason=refusal.reason, tables=names, similar=refusal.similar
    )
