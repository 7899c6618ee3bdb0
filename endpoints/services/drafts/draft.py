"""An endpoint as typed and not saved, and what can be wrong with it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Final

from endpoints.models import Endpoint
from endpoints.outcomes import SandboxDialect, TimestampForm
from endpoints.sql.lexemes import line_and_column
from endpoints.sql.parameters import DeclaredParameter, effective_parameters, find_parameters


class Severity(StrEnum):
    """Whether a problem keeps the draft from being saved."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a text, counted from 1 in characters."""

    line: int
    column: int

    @classmethod
    def at(cls, text: str, offset: int) -> Place:
        """Return the place of an offset."""
        return cls(*line_and_column(text, offset))


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a field of the draft; `place` is in its SQL, `parameter` the name of a declared parameter."""

    field: str
    message: str
    severity: Severity = Severity.ERROR
    place: Place | None = None
    parameter: str | None = None

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR


class InvalidDraft(Exception):
    """A draft that cannot even be tried; `problems` are all that keep it from it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problem.message for problem in self.problems))


@dataclass(frozen=True, slots=True)
class Draft:
    """An endpoint as typed: `endpoint_id` is that of the saved one it would become a version of.

    `max_rows` and `statement_timeout_seconds` are None where what was typed is no whole number.
    """

    sql: str
    parameters: tuple[DeclaredParameter, ...] = ()
    endpoint_id: uuid.UUID | None = None
    name: str = ""
    tenant_parameter: str = ""
    max_rows: int | None = 1000
    statement_timeout_seconds: int | None = 15
    planner_settings: str = ""
    sandboxing: bool = False
    default_sandbox_table: str = ""
    sandbox_dialect: str = SandboxDialect.POSTGRESQL.value
    timestamps_as: str = TimestampForm.ISO.value
    redact_pii: bool = False

    @classmethod
    def of(cls, endpoint: Endpoint, parameters: Sequence[DeclaredParameter]) -> Draft:
        """Return an endpoint that is about to be saved as a draft of itself."""
        return cls(
            parameters=tuple(parameters),
            endpoint_id=None if endpoint._state.adding else endpoint.pk,
            **{name: getattr(endpoint, name) for name in _FIELDS_OF_ENDPOINT},
        )

    def endpoint(self) -> Endpoint:
        """Return it as an unsaved endpoint with its parameters frozen. Raises LexicalError."""
        # Numbers may be None, until the endpoint's own validation has refused them.
        endpoint = Endpoint(
            id=self.endpoint_id or uuid.uuid4(),
            declared_parameters=[parameter.to_json() for parameter in effective_parameters(self.parameters, self.sql)],
            **{name: getattr(self, name) for name in _FIELDS_OF_ENDPOINT},
        )
        endpoint._state.adding = self.endpoint_id is None  # else its own name would count as taken
        return endpoint

    def without_unused_parameters(self) -> Draft:
        """Return the draft without declarations that its SQL does not use. Raises LexicalError."""
        used = find_parameters(self.sql)
        return replace(self, parameters=tuple(one for one in self.parameters if one.name in used))


# What a draft and an endpoint call by the same name.
_FIELDS_OF_ENDPOINT: Final = tuple(one.name for one in fields(Draft) if one.name not in ("parameters", "endpoint_id"))
