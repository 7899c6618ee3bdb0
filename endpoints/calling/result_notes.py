"""Notes beside a result: which fields of a text no row has, where the result looks as if one was misspelt.

A field that no row has is NULL in each of them, and no error. Only two signs are worth a sample: a column made of
fields that is NULL in every returned row, and a result without a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final
from urllib.parse import quote

from endpoints.calling.field_samples import absent_fields
from endpoints.dialects.field_paths import FieldPath, FieldUse, UsedFields
from endpoints.log_database.round_trips import null_columns
from endpoints.log_database.sessions import ReaderSession
from endpoints.results.outcomes import Rows

MAX_NOTES: Final = 5
MAX_PATH_CHARACTERS: Final = 120
_MOST_LOOKED_FOR: Final = 20  # fields of one text


def field_notes(fields: UsedFields, rows: Rows, session: ReaderSession) -> tuple[str, ...]:
    """Return a sentence for each doubtful field that no sampled row of the session has, in ASCII. Never raises."""
    doubtful = tuple(islice(dict.fromkeys(_doubtful(fields, rows)), _MOST_LOOKED_FOR))
    if not doubtful:
        return ()
    # The first path is that of the nearest record; a field inside an absent record needs no note of its own.
    paths = [use.paths[0] for use in absent_fields(doubtful, session)]
    written = dict.fromkeys(_written(path) for path in paths if not any(_is_inside(path, other) for other in paths))
    return tuple(f"{path}: no sampled row has this field" for path in islice(written, MAX_NOTES))


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
