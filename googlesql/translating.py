"""The stages of a translation, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from googlesql import Column, Moments, Refused, Translation
from googlesql.clauses import refuse_unread_clauses
from googlesql.field_paths import UNTRACED, FieldPath, Trace
from googlesql.fields import written_with_capitals
from googlesql.kinds import Kind, kind_of_type
from googlesql.parsing import THE_QUERY, parse, tokens_of
from googlesql.printing import Printer
from googlesql.queries import translate_query
from googlesql.results import as_results
from googlesql.scopes import Columns, Scope
from googlesql.tree import Output


def translated(
    text: str,
    tables: Mapping[str, Sequence[Column]],
    parameters: Mapping[str, str],
    moments: Moments,
    functions: frozenset[str],
) -> Translation:
    """Return the translation of a text. Raises Refused."""
    try:
        tree = refuse_unread_clauses(parse(text, tokens_of(text)))
        known = Scope(
            tables={name.casefold(): (name, _stored(name, columns)) for name, columns in tables.items()},
            parameters={name: kind_of_type(type_) for name, type_ in parameters.items()},
            any_case=written_with_capitals(tree),
            functions=functions,
        )
        if tree.args.get("kind") == "STRUCT":
            tree.set("kind", None)  # a result has the fields as columns
        query = translate_query(tree, Scope(parent=known))
        printer = Printer()
        printer.query(as_results(query, moments))
    except RecursionError as error:
        raise Refused(THE_QUERY, "is nested too deeply to be translated", offset=0) from error
    pieces = list(zip(printer.pieces, printer.origins, strict=True))
    return Translation(pieces, tuple(column.trace.uses for column in query.outputs), tuple(dict.fromkeys(known.uses)))


def _stored(table: str, columns: Sequence[Column]) -> Columns:
    outputs = []
    for column in columns:
        kind = kind_of_type(column.type)
        trace = Trace(FieldPath(table, column.name)) if kind is Kind.JSON else UNTRACED
        outputs.append(Output(column.name, kind, column.nullable, trace=trace))
    return Columns.of(tuple(outputs))
