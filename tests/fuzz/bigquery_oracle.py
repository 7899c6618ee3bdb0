"""The BigQuery dialect beside GoogleSQL: the same text over the same rows must have the same answer in both engines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from zetasql.wasi._pb2.zetasql.public import type_pb2

from endpoints.errors import EndpointError
from endpoints.log_database.execution import StatementFailed
from tests.fuzz.googlesql import Answer, GoogleSQL, GoogleSQLError

Rows = list[dict[str, Any]]
_DIGITS: Final = 9  # that two floating-point results of different arithmetic share


@dataclass
class Comparison:
    """What came of the texts so far: how many have the same answer, and the others.

    A text is `invalid` if GoogleSQL refuses it or fails while it runs, and `failed` if PostgreSQL does.
    """

    same: int = 0
    invalid: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """Return all of it for a reader."""
        counts = [
            f"{self.same} same, {len(self.different)} different, {len(self.failed)} failed,"
            f" {self.refused.total()} refused, {self.invalid.total()} invalid"
        ]
        refused = [f"{count} refused: {reason}" for reason, count in self.refused.most_common()]
        invalid = [f"{count} invalid: {reason}" for reason, count in self.invalid.most_common()]
        return "\n".join(counts + self.different + self.failed + refused + invalid)


def compare(
    text: str, google: GoogleSQL, ours: Callable[[str], Rows], into: Comparison, *, in_order: bool = False
) -> None:
    """Answer a text in both engines; the rows of both have one order if `in_order`.

    `ours` raises EndpointError or StatementFailed for a text without an answer.
    """
    try:
        expected = google.answer(text)
    except GoogleSQLError as error:
        into.invalid[str(error)[:80]] += 1
        return
    try:
        rows = ours(text)
    except EndpointError as refusal:
        into.refused[refusal.message.partition(": ")[2]] += 1
        return
    except StatementFailed as failure:
        into.failed.append(f"{text}\n  {failure.sqlstate} {failure}")
        return
    wanted, given = comparable(expected), [comparable_row(row, expected) for row in rows]
    if wanted == given or (not in_order and _sorted(wanted) == _sorted(given)):
        into.same += 1
    else:
        into.different.append(_described(text, wanted, given))


def _sorted(rows: Iterable[Any]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def _described(text: str, wanted: Sequence[Any], given: Sequence[Any]) -> str:
    only_wanted = Counter(_sorted(wanted)) - Counter(_sorted(given))
    only_given = Counter(_sorted(given)) - Counter(_sorted(wanted))
    lines = [text, *(f"  GoogleSQL {row}" for row in only_wanted), *(f"  here      {row}" for row in only_given)]
    return "\n".join(line[:400] for line in lines[:7])


# --- Values -----------------------------------------------------------------------------------------------------------


def comparable(answer: Answer) -> list[dict[str, Any]]:
    """Return the rows of GoogleSQL with the names that columns have here."""
    names = column_names(answer)
    return [
        {name: _value(value, type_) for name, value, type_ in zip(names, row, answer.types, strict=True)}
        for row in answer.rows
    ]


def column_names(answer: Answer) -> list[str]:
    """Return the names of the columns; BigQuery calls those without one f0_, f1_ and so on."""
    unnamed = 0
    names: list[str] = []
    for name in answer.names:
        names.append(name or f"f{unnamed}_")
        unnamed += not name
    return names


def comparable_row(row: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    """Return a row of ours with its values in the form that their types in GoogleSQL have."""
    types = dict(zip(column_names(answer), answer.types, strict=True))
    return {name: _value(value, types[name]) if name in types else value for name, value in row.items()}


def _value(value: Any, type_: Any) -> Any:
    kind = type_.type_kind
    if kind == type_pb2.TYPE_ARRAY:
        # BigQuery returns an array that is NULL as an empty one.
        items = value if isinstance(value, list) else [] if value is None else value
        return [_value(item, type_.array_type.element_type) for item in items] if isinstance(items, list) else items
    if value is None:
        return None
    if kind == type_pb2.TYPE_STRUCT:
        fields = type_.struct_type.field
        if not isinstance(value, dict):
            return value
        names = [declared.field_name or f"f{number}_" for number, declared in enumerate(fields)]
        made = {
            name: _value(value.get(name), declared.field_type) for name, declared in zip(names, fields, strict=True)
        }
        return made | {name: extra for name, extra in value.items() if name not in made}
    if kind == type_pb2.TYPE_JSON and isinstance(value, str):
        return json.loads(value)
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") + 0.0  # a numeric has no zero below zero
    if kind in (type_pb2.TYPE_DOUBLE, type_pb2.TYPE_NUMERIC) and isinstance(value, int) and not isinstance(value, bool):
        return float(f"{value:.{_DIGITS}g}")
    return value
