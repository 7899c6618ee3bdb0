"""An endpoint as typed and not saved, and what can be wrong with it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from django.core.exceptions import ValidationError

from endpoints.definition import SETTINGS_IN_DRAFTS, Definition, Version, values_of
from endpoints.models import Endpoint, Parameter
from endpoints.sql.composition import CompositionError, compile_query
from endpoints.sql.lexemes import LexicalError, line_and_column
from endpoints.sql.parameter_uses import ParameterUse, parameter_uses
from endpoints.sql.parameters import (
    DeclaredParameter,
    ParameterType,
    check_declarations,
    effective_parameters,
    find_parameters,
)
from endpoints.sql.stored_queries import StoredTablesError, stored_tables


class Severity(StrEnum):
    """Whether a problem keeps the draft from being saved."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a text, counted from 1 in characters."""

    line: int
    column: int

    @classmethod
    def at(cls, text: str, offset: int) -> Position:
        """Return the place of an offset."""
        return cls(*line_and_column(text, offset))


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a field of the draft; `place` is in its SQL, `parameter` the name of a declared parameter."""

    field: str
    message: str
    severity: Severity = Severity.ERROR
    place: Position | None = None
    parameter: str | None = None

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR


class InvalidDraft(Exception):
    """A draft that cannot even be tried; `problems` are all the reasons."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problem.message for problem in self.problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(Definition):
    """A definition as typed: `endpoint_id` is the saved endpoint of which it would become a version.

    `not_numbers` names the settings without a whole number as their text; they have their defaults here.
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
        endpoint._state.adding = self.endpoint_id is None  # otherwise its own name would count as taken
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


# --- Reading ----------------------------------------------------------------------------------------------------------
# The problems of a draft that are found without the log database: its text, declarations and settings.
_NOT_A_NUMBER = "Enter a whole number."


def lexical_problems(draft: Draft) -> Iterator[Problem]:
    """Yield why the SQL cannot be taken apart, if it cannot."""
    try:
        parameter_uses(draft.sql)
    except LexicalError as error:
        yield Problem("sql", f"{error.message}.", place=Position.at(draft.sql, error.position))


def setting_problems(draft: Draft, *, with_name: bool) -> list[Problem]:
    """Return what is wrong with single settings; with `with_name` also a name that is taken."""
    endpoint = draft.endpoint()
    for name in draft.not_numbers:
        setattr(endpoint, name, None)  # refused in its place among the others
    unchecked = {field.name for field in Endpoint._meta.fields} - {"sql", *SETTINGS_IN_DRAFTS}
    exclude = unchecked | (set() if with_name else {"name"})
    messages: dict[str, list[str]] = {}
    try:
        endpoint.clean_fields(exclude=exclude)
    except ValidationError as error:
        messages |= error.message_dict
    if with_name and "name" not in messages:
        try:
            endpoint.validate_unique(exclude=unchecked)
        except ValidationError as error:
            messages |= error.message_dict
    messages |= {name: [_NOT_A_NUMBER] for name in draft.not_numbers}
    return [Problem(field, message) for field, of_field in messages.items() for message in of_field]


def declaration_problems(draft: Draft) -> list[Problem]:
    """Return what is wrong with the declared parameters, the tenant parameter included. Raises LexicalError."""
    places = {use.name: Position.at(draft.sql, use.offsets[0]) for use in parameter_uses(draft.sql)}
    problems = [
        Problem("parameters", f"@{name}: {reason}", place=places.get(name), parameter=name)
        for name, reason in check_declarations(draft.parameters, draft.sql)
    ]
    named = {problem.parameter for problem in problems}
    problems += [problem for one in draft.parameters if one.name not in named for problem in _row_problems(one)]
    return [*problems, *_tenant_problems(draft, effective_parameters(draft.parameters, draft.sql))]


def _row_problems(parameter: DeclaredParameter) -> Iterator[Problem]:
    """Yield why a declaration does not fit into its row, such as a pattern that is too long."""
    try:
        Parameter.of(parameter)
    except ValidationError as error:
        for field, messages in error.message_dict.items():
            for message in messages:
                text = message if field == "parameters" else f"@{parameter.name}: {field}: {message}"
                yield Problem("parameters", text, parameter=parameter.name)


def undeclared_parameters(draft: Draft, uses: Sequence[ParameterUse], severity: Severity) -> Iterator[Problem]:
    """Yield a problem for each ``@name`` without a declaration, at its first use.

    One that is used as text needs none: its problem is a warning, whatever the severity of the others.
    """
    declared = {parameter.name for parameter in draft.parameters}
    for use in uses:
        if use.name in declared:
            continue
        message, own = f"@{use.name}: is not declared, so it is optional text", Severity.WARNING
        if use.guessed_type not in (None, ParameterType.TEXT):
            own = severity
            message += f"; it is used as {use.guessed_type}"
            message += f": declare it as {use.guessed_type}" if own is Severity.ERROR else ""
        place = Position.at(draft.sql, use.offsets[0])
        yield Problem("parameters", message, severity=own, place=place, parameter=use.name)


def composition_problems(draft: Draft) -> Iterator[Problem]:
    """Yield why the SQL is not one query, if it is not. Raises LexicalError."""
    if not draft.sql:
        return  # its field says so
    try:
        compile_query(draft.sql, effective_parameters(draft.parameters, draft.sql), max_rows=1)
    except CompositionError as error:
        yield Problem("sql", f"{error.message}.", place=Position(error.line, error.column))


def default_table_problems(draft: Draft) -> Iterator[Problem]:
    """Yield why LQL would not find its default table. Raises CompositionError; unusable CTEs are reported elsewhere."""
    if not (draft.sandboxing and draft.default_sandbox_table):
        return  # what is chosen waits for sandboxing to be switched on again
    try:
        names = [table.name for table in stored_tables(draft.sql)]
    except StoredTablesError:
        return
    if draft.default_sandbox_table not in names:
        message = f"The query has no CTE of this name; its CTEs are {', '.join(names)}."
        yield Problem("default_sandbox_table", message)


def _tenant_problems(draft: Draft, parameters: Sequence[DeclaredParameter]) -> Iterator[Problem]:
    if not draft.tenant_parameter:
        return
    for parameter in parameters:
        if parameter.name == draft.tenant_parameter:
            if parameter.type is not ParameterType.TEXT or not parameter.required:
                yield Problem("tenant_parameter", "The tenant parameter must be declared as required text.")
            return
    yield Problem("tenant_parameter", f"The query has no parameter @{draft.tenant_parameter}.")
