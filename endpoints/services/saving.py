"""Save an endpoint: check it against the log database, freeze what was checked, number the version."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import asdict

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from psycopg.errors import UniqueViolation

from endpoints.describing import describe_statement
from endpoints.errors import DatabaseUnavailable, EndpointError
from endpoints.execution import StatementFailed
from endpoints.generation import changing
from endpoints.models import Endpoint, Parameter
from endpoints.outcomes import Column
from endpoints.publishing import PublishingError, draft_sandbox, publish_sandbox
from endpoints.services.schedules import keep_warming_schedule
from endpoints.services.sessions import sandbox_session, stored_session
from endpoints.sql.composition import CompositionError, compile_query, original_offset
from endpoints.sql.lexemes import LexicalError, line_and_column
from endpoints.sql.parameters import DeclaredParameter, ParameterType, check_declarations, effective_parameters
from endpoints.sql.stored_tables import stored_tables


def check_endpoint(endpoint: Endpoint, parameters: Sequence[DeclaredParameter]) -> tuple[Column, ...]:
    """PREPARE the endpoint as drafted and return its result columns.

    Raises ValidationError whose dict names the faulty field: `sql`, `tenant_parameter`, `default_sandbox_table` or
    `parameters`.
    """
    try:
        problems = check_declarations(parameters, endpoint.sql)
        if problems:
            raise ValidationError({"parameters": [f"@{problem.name}: {problem.reason}" for problem in problems]})
        effective = effective_parameters(parameters, endpoint.sql)
        _check_tenant_parameter(endpoint, effective)
        compiled = compile_query(endpoint.sql, effective, max_rows=endpoint.max_rows)
    except LexicalError as error:
        raise _sql_error(error.message, endpoint.sql, error.position) from error
    except CompositionError as error:
        raise ValidationError({"sql": f"Line {error.line}, column {error.column}: {error.message}."}) from error
    nothing = {parameter.name: None for parameter in effective}
    try:
        columns = describe_statement(compiled.statement(nothing), stored_session(endpoint, nothing))
        if endpoint.sandboxing:
            _check_sandbox(endpoint, effective)
        _check_default_sandbox_table(endpoint)
        return columns
    except PublishingError as error:
        raise _publishing_error(error, endpoint) from error
    except StatementFailed as failure:
        position = None
        if failure.position is not None:
            position = original_offset(endpoint.sql, effective, failure.position - 1)
        hint = f" {failure.hint}" if failure.hint else ""
        raise _sql_error(f"PostgreSQL: {failure.primary_message}.{hint}", endpoint.sql, position) from failure
    except EndpointError as error:
        message = f"The log database could not check the query. {error.message} Nothing was saved."
        raise ValidationError({"sql": message}) from error


def save_endpoint(
    endpoint: Endpoint, parameters: Sequence[DeclaredParameter], *, columns: tuple[Column, ...] | None = None
) -> Endpoint:
    """Save the endpoint and its parameters as a new version. Raises ValidationError and then saves nothing.

    `columns` is what `check_endpoint` returned for this very draft, where the caller has just asked.
    """
    endpoint.full_clean()
    if columns is None:
        columns = check_endpoint(endpoint, parameters)
    rows = [_parameter_row(endpoint, position, parameter) for position, parameter in enumerate(parameters)]
    try:
        with changing(), transaction.atomic():
            _save_version(endpoint, rows, columns)
    except PublishingError as error:
        raise _publishing_error(error, endpoint) from error
    except DatabaseUnavailable as error:
        message = f"The log database could not publish the query. {error.message} Nothing was saved."
        raise ValidationError({"sql": message}) from error
    except IntegrityError as error:
        if not isinstance(error.__cause__, UniqueViolation):
            raise
        # The name was free a moment ago: somebody else saved an endpoint of this name in between.
        raise ValidationError({"name": "Another endpoint has just taken this name. Nothing was saved."}) from error
    return endpoint


def _save_version(endpoint: Endpoint, rows: Sequence[Parameter], columns: tuple[Column, ...]) -> None:
    # Two savers at once get two numbers: the row is locked while its version is read.
    newest = Endpoint.objects.select_for_update().filter(pk=endpoint.pk).values_list("version", flat=True).first()
    endpoint.version = (newest or 0) + 1
    endpoint.pk = endpoint.pk or uuid.uuid4()  # Django's formsets take the default of a new row away
    declared = [row.declared() for row in rows]
    endpoint.declared_parameters = [parameter.to_json() for parameter in effective_parameters(declared, endpoint.sql)]
    endpoint.result_columns = [asdict(column) for column in columns]
    # Before the row: no call may meet a version whose schema is not there. A schema without its row is dropped later.
    endpoint.sandbox_tables = [table.to_json() for table in publish_sandbox(endpoint)] if endpoint.sandboxing else []
    endpoint.save()
    endpoint.parameters.all().delete()
    Parameter.objects.bulk_create(rows)
    keep_warming_schedule(endpoint)


def _check_sandbox(endpoint: Endpoint, parameters: Sequence[DeclaredParameter]) -> None:
    """Publish the CTEs as a draft and have the sandbox's reader plan a query of each: what it may not use shows here.

    Raises PublishingError, and EndpointError when the log database does not answer.
    """
    nothing = {parameter.name: None for parameter in parameters}
    with draft_sandbox(endpoint, parameters) as (schema, tables):
        session = sandbox_session(endpoint, schema, nothing)
        for table, statement in tables.items():
            try:
                describe_statement(statement, session)
            except StatementFailed as failure:
                message = f"the CTE `{table}` cannot be read as a sandbox table: {failure.primary_message}"
                raise PublishingError(message) from failure


def _check_default_sandbox_table(endpoint: Endpoint) -> None:
    if not (endpoint.sandboxing and endpoint.default_sandbox_table):
        return  # what is chosen waits for sandboxing to be switched on again
    names = [table.name for table in stored_tables(endpoint.sql)]
    if endpoint.default_sandbox_table not in names:
        message = f"The query has no CTE of this name; its CTEs are {', '.join(names)}."
        raise ValidationError({"default_sandbox_table": message})


def _publishing_error(error: PublishingError, endpoint: Endpoint) -> ValidationError:
    return _sql_error(f"{error.message}.", endpoint.sql, error.position)


def _check_tenant_parameter(endpoint: Endpoint, parameters: Sequence[DeclaredParameter]) -> None:
    if not endpoint.tenant_parameter:
        return
    for parameter in parameters:
        if parameter.name == endpoint.tenant_parameter:
            if parameter.type is ParameterType.TEXT and parameter.required:
                return
            raise ValidationError({"tenant_parameter": "The tenant parameter must be declared as required text."})
    raise ValidationError({"tenant_parameter": f"The query has no parameter @{endpoint.tenant_parameter}."})


def _parameter_row(endpoint: Endpoint, position: int, parameter: DeclaredParameter) -> Parameter:
    row = Parameter(
        endpoint=endpoint,
        position=position,
        name=parameter.name,
        type=parameter.type.value,
        required=parameter.required,
        default=_default_text(parameter),
        allowed_values=list(parameter.allowed_values),
        minimum=parameter.minimum or "",
        maximum=parameter.maximum or "",
        pattern=parameter.pattern or "",
        description=parameter.description,
    )
    row.clean_fields(exclude=["endpoint"])
    return row


def _default_text(parameter: DeclaredParameter) -> str:
    default = parameter.default
    if isinstance(default, list | tuple):
        if len(default) > 1:
            raise ValidationError({"parameters": f"@{parameter.name}: a default is one text, not a list of them"})
        default = default[0] if default else None
    return "" if default is None else str(default)


def _sql_error(message: str, sql: str, position: int | None) -> ValidationError:
    if position is not None:
        line, column = line_and_column(sql, position)
        message = f"Line {line}, column {column}: {message}"
    return ValidationError({"sql": message})
