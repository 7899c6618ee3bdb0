"""SQL dialects of consumers besides PostgreSQL's own: each is translated to it, and comes with an extra of the package.

To add one, write a module with a function `check` like `googlesql.translating.check`, and name it in `DIALECTS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Final, Protocol, cast

from endpoints.errors import SandboxViolation
from endpoints.results.outcomes import Column, SandboxDialect, TimestampForm
from endpoints.sql.parameters import DeclaredParameter
from endpoints.sql.sandbox import SandboxLimits

if TYPE_CHECKING:
    from googlesql.translating import CheckedTranslation


class TranslationBug(SandboxViolation):
    """A text on which a translator itself fails: the call is refused; `cause` and `place` are for the log.

    Neither contains anything of the text: messages of exceptions would quote names and literals.
    """

    def __init__(self, refusal: SandboxViolation, error: Exception) -> None:
        super().__init__(refusal.message, details=refusal.details)
        frame = extract_tb(error.__traceback__)[-1]
        self.cause = type(error).__name__
        self.place = f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"


class Check(Protocol):
    """Translates and checks a text over sandbox tables, given by name with their columns.

    Raises SandboxViolation, with its place in the text; TranslationBug; and RequestTooLarge.
    """

    def __call__(
        self,
        text: str,
        *,
        tables: Sequence[tuple[str, Sequence[Column]]],
        parameters: Sequence[DeclaredParameter],
        timestamps_as: TimestampForm,
        limits: SandboxLimits,
    ) -> CheckedTranslation: ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """A dialect: its name for people, its module, the library that this imports, and the extra with that library."""

    label: str
    module: str
    library: str
    extra: str

    @property
    def is_installed(self) -> bool:
        return find_spec(self.library) is not None

    def load(self) -> Check:
        """Return the check of the dialect. Loaded at first use: BigQuery's takes a quarter of a second and 20 MB."""
        return cast(Check, import_module(self.module).check)


DIALECTS: Final[Mapping[str, Dialect]] = {
    SandboxDialect.BIGQUERY: Dialect("BigQuery", "googlesql.translating", library="sqlglot", extra="bigquery"),
}
