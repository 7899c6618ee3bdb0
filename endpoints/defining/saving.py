"""Save an endpoint: check it against the log database, freeze what was checked, number the version."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from psycopg.errors import UniqueViolation

from endpoints.access.change_marker import changing
from endpoints.defining.differences import Change, Fold, Line, Run, compare_lines, compare_words
from endpoints.defining.drafts import Draft, check_draft
from endpoints.defining.upkeep import keep_warming_schedule
from endpoints.definition import SETTINGS, Definition
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

    `columns` is what `check_endpoint` returned for this very draft, if the caller has just asked.
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
        # The name was free a moment ago: another person saved an endpoint of this name in between.
        raise ValidationError({"name": "Another endpoint has just taken this name. Nothing was saved."}) from error
    return endpoint


def _save_version(endpoint: Endpoint, rows: Sequence[Parameter], columns: tuple[Column, ...]) -> None:
    # Two savers at once get two numbers: the row is locked while its version is read.
    newest = Endpoint.objects.select_for_update().filter(pk=endpoint.pk).values_list("version", flat=True).first()
    endpoint.version = (newest or 0) + 1
    endpoint.pk = endpoint.pk or uuid.uuid4()  # Django's formsets remove the default of a new row
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
    """Return the unsaved row of one declared parameter. Raises ValidationError if a field does not fit."""
    row = Parameter.of(parameter)
    row.endpoint = endpoint
    row.position = position
    return row


def _sql_error(message: str, sql: str, position: int | None) -> ValidationError:
    if position is not None:
        line, column = line_and_column(sql, position)
        message = f"Line {line}, column {column}: {message}"
    return ValidationError({"sql": message})


# --- Versions ---------------------------------------------------------------------------------------------------------
# Earlier versions of an endpoint: what each changed, and how to restore one as a new version.
@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A setting that changed, or one parameter: its words before and after as runs."""

    label: str
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class VersionDifference:
    """What changed from one version to another."""

    sql: tuple[Line | Fold, ...]
    settings: tuple[SettingDifference, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.sql or self.settings)


def compare_versions(before: Any, after: Any) -> VersionDifference:
    """Return what changed from one record of an endpoint's history, or endpoint, to another."""
    pairs = [
        (setting.label, _shown(getattr(before, name)), _shown(getattr(after, name)))
        for name, setting in SETTINGS.items()
    ]
    old, new = _parameters(before), _parameters(after)
    pairs += [(f"parameter @{name}", old.get(name, ""), new.get(name, "")) for name in dict.fromkeys((*old, *new))]
    if set(old) == set(new):
        pairs.append(("order of parameters", ", ".join(old), ", ".join(new)))
    pairs.append(("result columns", _columns(before), _columns(after)))
    return VersionDifference(
        sql=compare_lines(before.sql, after.sql),
        settings=tuple(SettingDifference(label, compare_words(old, new)) for label, old, new in pairs if old != new),
    )


def lines_of(sql: str) -> tuple[Line, ...]:
    """Return the whole text in the form of a difference that changes nothing."""
    return tuple(
        Line(Change.EQUAL, number, number, (Run(Change.EQUAL, text),) if text else ())
        for number, text in enumerate(sql.splitlines(), start=1)
    )


def restore_version(endpoint: Endpoint, record: Any) -> Endpoint:
    """Save the SQL, settings and parameters of an earlier version as a new one; the endpoint keeps its name.

    Raises ValidationError, and then saves nothing, if they no longer pass the checks of a save.
    """
    if record.id != endpoint.pk:
        raise ValidationError("This version belongs to another endpoint.")
    if record.version == endpoint.version:
        raise ValidationError(f"Version {record.version} is the latest already.")
    parameters = _declared(record)
    # The name is the current address.
    endpoint.take(replace(Definition.of(record, parameters), name=endpoint.name))
    endpoint._change_reason = f"restored from version {record.version}"  # type: ignore[attr-defined]  # simple_history
    return save_endpoint(endpoint, parameters)


def _declared(version: Any) -> Sequence[DeclaredParameter]:
    return [DeclaredParameter.from_json(parameter) for parameter in version.declared_parameters]


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _columns(version: Any) -> str:
    return "\n".join(f"{column['name']} {column['type']}" for column in version.result_columns)


def _parameters(version: Any) -> dict[str, str]:
    return {parameter.name: _described(parameter) for parameter in _declared(version)}


def _described(parameter: DeclaredParameter) -> str:
    """Return ``integer, required, default 5, from 1, to 9``."""
    parts = [
        parameter.type.value,
        "required" if parameter.required else "",
        f"default {parameter.default}" if parameter.default is not None else "",
        f"one of {', '.join(parameter.allowed_values)}" if parameter.allowed_values else "",
        f"from {parameter.minimum}" if parameter.minimum is not None else "",
        f"to {parameter.maximum}" if parameter.maximum is not None else "",
        f"pattern {parameter.pattern}" if parameter.pattern is not None else "",
        parameter.description,
    ]
    return ", ".join(filter(None, parts))
