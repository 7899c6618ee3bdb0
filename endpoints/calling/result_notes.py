"""Notes beside a result: which fields of a text no row has, where the result looks as if one was misspelt.

A field that no row has is NULL in each of them, and no error. Only two signs are worth a sample: a column made of
fields that is NULL in every returned row, and a result without a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final
from urllib.parse import quote

from endpoints.calling.catalogue import known_paths, likely_paths
from endpoints.calling.field_samples import absent_fields, present_fields
from endpoints.dialects import UsedFields
from endpoints.log_database.round_trips import null_columns
from endpoints.log_database.sessions import ReaderSession
from endpoints.lql.fields import Field
from endpoints.lql.lowering import LQLTable, outputs
from endpoints.lql.mistakes import filter_notes, word_notes
from endpoints.lql.rules import TIMESTAMP, FilterRule, RangeRule, Rules, path_of
from endpoints.lql.schema import resolve, table_schema
from endpoints.results.outcomes import Rows
from googlesql.field_paths import FieldPath, FieldUse

MAX_NOTES: Final = 5
MAX_PATH_CHARACTERS: Final = 120
_MOST_LOOKED_FOR: Final = 20  # fields of one text
_MOST_SUGGESTED: Final = 8  # paths that are looked for in rows, for one absent field
_IN_A_HEADER: Final = "".join(map(chr, range(0x20, 0x7F)))


def lql_notes(rules: Rules, table: LQLTable, rows: Rows, session: ReaderSession) -> tuple[str, ...]:
    """Return a sentence for each part of an LQL query that probably means something else, in ASCII. Never raises."""
    schema = table_schema(table.columns)

    def uses(fields: Iterable[Field]) -> tuple[FieldUse, ...]:
        return tuple(FieldUse((FieldPath(table.name, one.name, one.inside),)) for one in fields if one.inside)

    filters = [
        resolve(rule.path, schema, position=0) for rule in rules.filters if isinstance(rule, FilterRule | RangeRule)
    ]
    if rules.chart is None:
        columns = [field for _, field in outputs(rules.selects, schema, table.columns)]
    else:
        columns = [schema[TIMESTAMP], resolve(rules.chart.path, schema, position=0)]
    fields = UsedFields(uses([*columns, *filters]), tuple(uses([column]) for column in columns))
    of_text = (*word_notes(rules), *(filter_notes(rules) if not len(rows.rows) else ()))
    notes = (*(note.removesuffix(".") for note in of_text), *field_notes(fields, rows, session, suggests=True))
    return tuple(quote(note, safe=_IN_A_HEADER) for note in notes[:MAX_NOTES])


def _similar(absent: FieldPath, session: ReaderSession) -> str:
    """Return the question for the likeliest path that a sampled row has."""
    likely = likely_paths(".".join(map(str, absent.steps)), known_paths())[:_MOST_SUGGESTED]
    uses = [FieldUse((replace(absent, steps=tuple(path.split("."))),)) for path in likely]
    found = present_fields(uses, session)
    return f", did you mean {path_of(['m', *map(str, found[0].paths[0].steps)])}?" if found else ""


def field_notes(fields: UsedFields, rows: Rows, session: ReaderSession, *, suggests: bool = False) -> tuple[str, ...]:
    """Return a sentence for each doubtful field that no sampled row of the session has, in ASCII. Never raises."""
    doubtful = tuple(islice(dict.fromkeys(_doubtful(fields, rows)), _MOST_LOOKED_FOR))
    if not doubtful:
        return ()
    # The first path is that of the nearest record; a field inside an absent record needs no note of its own.
    paths = [use.paths[0] for use in absent_fields(doubtful, session)]
    written = {_written(path): path for path in paths if not any(_is_inside(path, other) for other in paths)}
    return tuple(
        f"{text}: no sampled row has this field{_similar(path, session) if suggests else ''}"
        for text, path in islice(written.items(), MAX_NOTES)
    )


def _doubtful(fields: UsedFields, rows: Rows) -> Iterable[FieldUse]:
    if not len(rows.rows):
        return fields.anywhere
    columns = [index for index, uses in enumerate(fields.by_column) if uses]
    return (use for index in null_columns(rows.rows, columns) for use in fields.by_column[index])


def _is_inside(path: FieldPath, other: FieldPath) -> bool:
    is_longer = len(path.steps) > len(other.steps)
    same_column = (path.table, path.column) == (other.table, other.column)
    return is_longer and same_column and path.steps[: len(other.steps)] == other.steps


def _written(path: FieldPath) -> str:
    """Return the path for a header: names may contain any character."""
    # metadata.request.it's  ->  metadata.request.it%27s
    text = "".join(_pieces(path))
    return text if len(text) <= MAX_PATH_CHARACTERS else f"{text[:MAX_PATH_CHARACTERS]}..."


def _pieces(path: FieldPath) -> Iterator[str]:
    yield quote(path.column, safe="")
    for step in path.steps:
        yield f"[{step}]" if isinstance(step, int) else f".{quote(step[:MAX_PATH_CHARACTERS], safe='')}"
