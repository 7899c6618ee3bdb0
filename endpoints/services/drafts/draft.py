"""An endpoint as typed and not saved, and what can be wrong with it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

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
            sql=endpoint.sql,
            parameters=tuple(parameters),
            endpoint_id=None if endpoint._state.adding else endpoint.pk,
            name=endpoint.name,
            tenant_parameter=endpoint.tenant_parameter,
            max_rows=endpoint.max_rows,
            statement_timeout_seconds=endpoint.statement_timeout_seconds,
            planner_settings=endpoint.planner_settings,
            sandboxing=endpoint.sandboxing,
            default_sandbox_table=endpoint.default_sandbox_table,
            sandbox_dialect=endpoint.sandbox_dialect,
            timestamps_as=endpoint.timestamps_as,
            redact_pii=endpoint.redact_pii,
        )

    def endpoint(self) -> Endpoint:
        """Return it as an unsaved endpoint with its parameters frozen. Raises LexicalError."""
        # None until the endpoint's own validation has refused it.
        numbers: dict[str, Any] = {
            "max_rows": self.max_rows,
            "statement_timeout_seconds": self.statement_timeout_seconds,
        }
        endpoint = Endpoint(
            id=self.endpoint_id or uuid.uuid4(),
            name=self.name,
            sql=self.sql,
            tenant_parameter=self.tenant_parameter,
            **numbers,
            planner_settings=self.planner_settings,
            sandboxing=self.sandboxing,
            default_sandbox_table=self.default_sandbox_table,
            sandbox_dialect=self.sandbox_dialect,
            timestamps_as=self.timestamps_as,
            redact_pii=self.redact_pii,
            declared_parameters=[parameter.to_json() for parameter in effective_parameters(self.parameters, self.sql)],
        )
        endpoint._state.adding = self.endpoint_id is None  # else its own name would count as taken
        return endpoint

    def without_unused_parameters(self) -> Draft:
        """Return the draft without declarations that its SQL does not use. Raises LexicalError."""
        used = find_parameters(self.sql)
        return replace(self, parameters=tuple(one for one in self.parameters if one.name in used))
