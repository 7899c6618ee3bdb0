"""SQL dialects of consumers besides PostgreSQL's own: each is translated to it, and comes with an extra of the package.

To add one, write a package with a `translate` like that of `googlesql`, and name it in `DIALECTS`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from traceback import extract_tb
from typing import Final, NamedTuple

import structlog

import googlesql
from endpoints.errors import InternalError, RequestTooLarge, SandboxViolation
from endpoints.results.outcomes import Column, SandboxDialect, TimestampForm
from endpoints.sql.parameters import DeclaredParameter
from endpoints.sql.sandbox import DEFAULT_LIMITS, CheckedQuery, SandboxLimits, SandboxTable, check_sandbox_query
from endpoints.sql.sandbox.vocabulary import THE_QUERY, violation
from googlesql.field_paths import FieldUse
from logsources.allowed_functions import ALLOWED_FUNCTIONS

# Every row of every log table has these, so a sort by them needs no NULLS FIRST, which no index would serve.
_NEVER_NULL: Final = frozenset({"id", "timestamp"})
_MOMENTS: Final[Mapping[TimestampForm, googlesql.Moments]] = {
    TimestampForm.ISO: "iso",
    TimestampForm.UNIX_MICROSECONDS: "microseconds",
}

logger = structlog.get_logger(__name__)


class UsedFields(NamedTuple):
    """The fields of stored records that a text names anywhere, and those of each column of its result."""

    anywhere: tuple[FieldUse, ...]
    by_column: tuple[tuple[FieldUse, ...], ...]


@dataclass(frozen=True, slots=True)
class Dialect:
    """A dialect: its name for people, its translator, the library that it imports, and the extra with that library."""

    label: str
    translate: Callable[..., googlesql.Translation]
    library: str
    extra: str

    @property
    def is_installed(self) -> bool:
        return find_spec(self.library) is not None

    def check(
        self,
        text: str,
        *,
        tables: Mapping[str, Sequence[Column]],
        parameters: Sequence[DeclaredParameter] = (),
        timestamps_as: TimestampForm = TimestampForm.ISO,
        limits: SandboxLimits = DEFAULT_LIMITS,
    ) -> tuple[CheckedQuery, UsedFields]:
        """Return the query to run for a text over published tables, translated, then checked like any other.

        Raises SandboxViolation with its place in the text, RequestTooLarge, and InternalError if it is not installed.
        """
        if not self.is_installed:
            logger.error("dialect_not_installed", dialect=self.extra, extra=self.extra)
            raise InternalError
        if len(text) > limits.bytes or len(text.encode("utf-8", "surrogatepass")) > limits.bytes:
            raise RequestTooLarge(f"A sandbox query may have at most {limits.bytes} bytes.")
        try:
            translation = self.translate(
                text,
                {name: list(map(_translated, columns)) for name, columns in tables.items()},
                {parameter.name: parameter.type.postgresql_type for parameter in parameters},
                moments=_MOMENTS[timestamps_as],
                functions=ALLOWED_FUNCTIONS,
            )
        except googlesql.Refused as refused:
            raise _violation(text, refused, tables) from refused
        except MemoryError:
            raise
        except Exception as error:
            # Any such error is the text's fault for the caller and ours for the log; the answer always has a reason.
            _log(error, text)
            unknown = googlesql.Refused(THE_QUERY, "cannot be translated; write it in a simpler way")
            raise _violation(text, unknown, tables) from error
        query = check_sandbox_query(
            text,
            translated=translation.pieces,
            tables=[SandboxTable(name, tuple(column.name for column in columns)) for name, columns in tables.items()],
            parameters=parameters,
            # Each unnest is an item of FROM, and a query over several log tables has dozens of them.
            limits=replace(limits, from_items=64, from_items_per_select=24),
        )
        return query, UsedFields(translation.named, translation.fields)


def _translated(column: Column) -> googlesql.Column:
    return googlesql.Column(column.name, column.type, column.name not in _NEVER_NULL)


def _violation(text: str, refused: googlesql.Refused, tables: Iterable[str]) -> SandboxViolation:
    offset = min(max(refused.offset or 0, 0), len(text))
    construct, reason, similar = refused.construct, refused.reason, refused.similar
    return violation(text, offset, construct=construct, reason=reason, tables=list(tables), similar=similar)


def _log(error: Exception, text: str) -> None:
    """Log where a translator failed, and nothing of the text, which messages of exceptions would quote."""
    frame = extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
    # Shows whether two reports are about the same text.
    fingerprint = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    logger.error("bigquery_translation_failed", cause=type(error).__name__, place=place, fingerprint=fingerprint)


DIALECTS: Final[Mapping[str, Dialect]] = {
    SandboxDialect.BIGQUERY: Dialect("BigQuery", googlesql.translate, library="sqlglot", extra="bigquery"),
}
