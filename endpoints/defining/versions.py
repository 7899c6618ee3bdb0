"""Earlier versions of an endpoint: what each changed, and one of them put back as a new version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.core.exceptions import ValidationError

from endpoints.defining.differences import Change, Fold, Line, Run, compare_lines, compare_words
from endpoints.defining.saving import save_endpoint
from endpoints.definition import SETTINGS, Definition
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter


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

    Raises ValidationError, and then saves nothing, when they do not pass the checks of a save any more.
    """
    if record.id != endpoint.pk:
        raise ValidationError("This version belongs to another endpoint.")
    if record.version == endpoint.version:
        raise ValidationError(f"Version {record.version} is the newest one already.")
    parameters = _declared(record)
    # The name is the address of today.
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
