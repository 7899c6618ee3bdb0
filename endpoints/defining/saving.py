"""Save an endpoint: check it against the log database, freeze what was checked, number the version."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import asdict

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from psycopg.errors import UniqueViolation

from endpoints.access.change_marker import changing
from endpoints.defining.drafts import Draft, check_draft
from endpoints.defining.schedules import keep_warming_schedule
from endpoints.errors import DatabaseUnavailable, EndpointError
from endpoints.log_database.publishing import PublishingError, publish_sandbox
from endpoints.models import Endpoint, Parameter
from endpoints.results.outcomes import Column
from endpoints.sql.lexemes import line_and_column
from endpoints.sql.parameters import DeclaredParameter, effective_parameters


def check_endpoint(endpoint: Endpoint, parameters: Sequence[DeclaredParameter]) -> tuple[Column, ...]:
    """PREPARE the endpoint as drafted and return its result columns.

    Raises ValidationError whose dict has every error of `check_draft` under its field: `sql`, `parameters`,
    `tenant_parameter`, `default_sandbox_table` or another field of the endpoint.
    """
    try:
        report = check_draft(Draft.of_endpoint(endpoint, parameters))
    except EndpointError as error:
        message = f"The log database could not check the query. {error.message} Nothing was saved."
        raise ValidationError({"sql": message}) from error
    messages: dict[str, list[str]] = {}
    for problem in report.problems:
        if problem.is_error:
            place = problem.place if problem.field == "sql" else None
            where = f"Line {place.line}, column {place.column}: " if place else ""
            messages.setdefault(problem.field, []).append(where + problem.message)
    if messages:
        raise ValidationError(messages)
    return report.columns or ()


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
    published = publish_sandbox(endpoint.as_version()) if endpoint.sandboxing else ()
    endpoint.sandbox_tables = [table.to_json() for table in published]
    endpoint.save()
    endpoint.parameters.all().delete()
    Parameter.objects.bulk_create(rows)
    keep_warming_schedule(endpoint)


def _publishing_error(error: PublishingError, endpoint: Endpoint) -> ValidationError:
    return _sql_error(f"{error.message}.", endpoint.sql, error.position)


def _parameter_row(endpoint: Endpoint, position: int, parameter: DeclaredParameter) -> Parameter:
    """Return the unsaved row of one declared parameter. Raises ValidationError where a field does not fit."""
    row = Parameter.of(parameter)
    row.endpoint = endpoint
    row.position = position
    return row


def _sql_error(message: str, sql: str, position: int | None) -> ValidationError:
    if position is not None:
        line, column = line_and_column(sql, position)
        message = f"Line {line}, column {column}: {message}"
    return ValidationError({"sql": message})
