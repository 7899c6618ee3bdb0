"""An endpoint as typed and not saved, and what can be wrong with it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from endpoints.definition import Definition, Version, values_of
from endpoints.models import Endpoint
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(Definition):
    """A definition as typed: `endpoint_id` is that of the saved endpoint it would become a version of.

    `not_numbers` names the settings for which no whole number was typed; they have their defaults here.
    """

    endpoint_id: uuid.UUID | None = None
    not_numbers: frozenset[str] = frozenset()

    @classmethod
    def of_endpoint(cls, endpoint: Endpoint, parameters: Sequence[DeclaredParameter]) -> Draft:
        """Return an endpoint that is about to be saved as a draft of itself."""
        return replace(cls.of(endpoint, parameters), endpoint_id=None if endpoint._state.adding else endpoint.pk)

    def endpoint(self) -> Endpoint:
        """Return it as an unsaved row, for Django to validate."""
        endpoint = Endpoint(id=self.endpoint_id or uuid.uuid4(), **values_of(self))
        endpoint._state.adding = self.endpoint_id is None  # else its own name would count as taken
        return endpoint

    def as_version(self) -> Version:
        """Return it as calls would run it, were it saved. Raises LexicalError."""
        return Version(
            **values_of(self),
            parameters=effective_parameters(self.parameters, self.sql),
            pk=self.endpoint_id or uuid.uuid4(),
            version=0,
        )

    def without_unused_parameters(self) -> Draft:
        """Return the draft without declarations that its SQL does not use. Raises LexicalError."""
        used = find_parameters(self.sql)
        return replace(self, parameters=tuple(one for one in self.parameters if one.name in used))
