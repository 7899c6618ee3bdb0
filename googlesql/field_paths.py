"""Which fields of stored records a translated text names: paths into a jsonb column of a sandbox table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

Step = str | int
MAX_USES_OF_COLUMN: Final = 16  # fields that a column was made of, which are kept


def json_path(steps: Iterable[Step], any_case: frozenset[str] = frozenset()) -> str:
    """Return PostgreSQL's jsonpath; a name whose folded form is in `any_case` also fits a key in other letters."""
    return "$" + "".join(_json_path_step(step, any_case) for step in steps)


def _json_path_step(step: Step, any_case: frozenset[str]) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if step.casefold() not in any_case:
        return f".{json.dumps(step)}"
    pattern = json.dumps(f"^{re.escape(step)}$")
    return f'.keyvalue() ? (@.key like_regex {pattern} flag "i").value'


@dataclass(frozen=True, slots=True)
class FieldPath:
    """The way from a column to a field of its records; without steps the column itself."""

    table: str
    column: str
    steps: tuple[Step, ...] = ()
    any_case: frozenset[str] = frozenset()

    def to(self, steps: Iterable[Step], any_case: frozenset[str]) -> FieldPath:
        """Return the path that goes on by these steps."""
        all_steps = (*self.steps, *steps)
        names = {step.casefold() for step in all_steps if isinstance(step, str)}
        return replace(self, steps=all_steps, any_case=any_case & names)

    @property
    def json_path(self) -> str:
        """The path from the column as PostgreSQL's jsonpath."""
        return json_path(self.steps, self.any_case)


@dataclass(frozen=True, slots=True)
class FieldUse:
    """A field as a text names it: one path, or several if it may belong to any of several records."""

    paths: tuple[FieldPath, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """Where a value comes from: the path that it is, if it is one, and every field that it was made of."""

    path: FieldPath | None = None
    uses: tuple[FieldUse, ...] = ()


UNTRACED: Final = Trace()
