"""The problems of a draft that show without asking the log database: its text, declarations and settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.core.exceptions import ValidationError

from endpoints.defining.drafts.draft import Draft, Place, Problem, Severity
from endpoints.definition import SETTINGS_IN_DRAFTS
from endpoints.models import Endpoint, Parameter
from endpoints.sql.composition import CompositionError, compile_query
from endpoints.sql.lexemes import LexicalError
from endpoints.sql.parameter_uses import ParameterUse, parameter_uses
from endpoints.sql.parameters import DeclaredParameter, ParameterType, check_declarations, effective_parameters
from endpoints.sql.stored_tables import StoredTablesError, stored_tables

_NOT_A_NUMBER = "Enter a whole number."


def lexical_problems(draft: Draft) -> Iterator[Problem]:
    """Yield why the SQL cannot be taken apart, if it cannot."""
    try:
        parameter_uses(draft.sql)
    except LexicalError as error:
        yield Problem("sql", f"{error.message}.", place=Place.at(draft.sql, error.position))


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
    places = {use.name: Place.at(draft.sql, use.offsets[0]) for use in parameter_uses(draft.sql)}
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


def undeclared_parameters(draft: Draft, uses: Sequence[ParameterUse]) -> Iterator[Problem]:
    """Yield a warning for each ``@name`` without a declaration, at its first use."""
    declared = {parameter.name for parameter in draft.parameters}
    for use in uses:
        if use.name in declared:
            continue
        message = f"@{use.name}: is not declared, and so optional text"
        if use.guessed_type is not None:
            message += f"; it is used as {use.guessed_type}"
        place = Place.at(draft.sql, use.offsets[0])
        yield Problem("parameters", message, severity=Severity.WARNING, place=place, parameter=use.name)


def composition_problems(draft: Draft) -> Iterator[Problem]:
    """Yield why the SQL is not one query, if it is not. Raises LexicalError."""
    if not draft.sql:
        return  # its field says so
    try:
        compile_query(draft.sql, effective_parameters(draft.parameters, draft.sql), max_rows=1)
    except CompositionError as error:
        yield Problem("sql", f"{error.message}.", place=Place(error.line, error.column))


def default_table_problems(draft: Draft) -> Iterator[Problem]:
    """Yield why LQL would not find its default table. Raises CompositionError; what is no table is told elsewhere."""
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
