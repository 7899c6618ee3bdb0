"""Endpoints and their parameters, as operators define them.

An `Endpoint` row holds one whole version: its SQL, its settings and, frozen into `declared_parameters`,
`result_columns` and `sandbox_tables`, what was checked against the log database. A call reads that one row, so it can
never mix the SQL of one version with the parameters of another. Save through `defining.saving.save_endpoint`: it
checks, freezes and numbers.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q
from simple_history.models import HistoricalRecords

from endpoints.definition import (
    MAX_ROWS_LIMIT,
    MAX_STATEMENT_TIMEOUT_SECONDS,
    SETTINGS,
    Definition,
    PublishedTable,
    Version,
    values_of,
)
from endpoints.dialects import DIALECTS
from endpoints.sql.composition import PlannerSettingsError, parse_planner_settings
from endpoints.sql.page_orders import PageOrderError, parse_page_order
from endpoints.sql.parameters import DeclaredParameter, ParameterType

PARAMETER_TYPES = [(parameter_type.value, parameter_type.value) for parameter_type in ParameterType]

validate_endpoint_name = RegexValidator(
    r"\A[A-Za-z][A-Za-z0-9_.-]{0,99}\Z",
    "A name must start with a letter and may have at most 100 letters, digits, dots, dashes and underscores.",
)
validate_parameter_name = RegexValidator(
    r"\A[A-Za-z_][A-Za-z0-9_]{0,47}\Z",
    "A parameter name must start with a letter or underscore and may have at most 48 letters, digits and underscores.",
)


def validate_no_uuid(name: str) -> None:
    """A name that reads as a UUID could shadow another endpoint's address."""
    try:
        uuid.UUID(name)
    except ValueError:
        return
    raise ValidationError("A name must not look like a UUID.")


def validate_planner_settings(text: str) -> None:
    try:
        parse_planner_settings(text)
    except PlannerSettingsError as error:
        raise ValidationError(str(error)) from error


def validate_page_order(text: str) -> None:
    try:
        parse_page_order(text)
    except PageOrderError as error:
        raise ValidationError(str(error)) from error


def _declared(name: str) -> dict[str, Any]:
    """Return what a setting declares for its column: names, help, default, range and choices."""
    setting = SETTINGS[name]
    options: dict[str, Any] = {"verbose_name": setting.title, "help_text": setting.help}
    if setting.default != "":
        options["default"] = setting.default
    if setting.choices:
        options["choices"] = setting.choices
    if setting.type is int:
        bounds = ((MinValueValidator, setting.minimum), (MaxValueValidator, setting.maximum))
        options["validators"] = [validator(bound) for validator, bound in bounds if bound is not None]
    return options


class Endpoint(models.Model):
    """A stored query with its settings, addressed by UUID or by name; the row is its newest version."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(
        max_length=100, unique=True, validators=[validate_endpoint_name, validate_no_uuid], **_declared("name")
    )
    description = models.TextField(blank=True, **_declared("description"))
    sql = models.TextField(
        "SQL",
        help_text="One SELECT over the tables of schema logs; arguments are written @name and always bound.",
    )
    tenant_parameter = models.CharField(
        max_length=48, blank=True, validators=[validate_parameter_name], **_declared("tenant_parameter")
    )
    max_rows = models.PositiveIntegerField(**_declared("max_rows"))
    statement_timeout_seconds = models.PositiveIntegerField(**_declared("statement_timeout_seconds"))
    stream_rows = models.PositiveIntegerField(**_declared("stream_rows"))
    planner_settings = models.CharField(
        max_length=400, blank=True, validators=[validate_planner_settings], **_declared("planner_settings")
    )
    page_order = models.CharField(
        max_length=400, blank=True, validators=[validate_page_order], **_declared("page_order")
    )
    cache_seconds = models.PositiveIntegerField(**_declared("cache_seconds"))
    warm_every_seconds = models.PositiveIntegerField(**_declared("warm_every_seconds"))
    sandboxing = models.BooleanField(**_declared("sandboxing"))
    default_sandbox_table = models.CharField(max_length=63, blank=True, **_declared("default_sandbox_table"))
    sandbox_dialect = models.CharField(max_length=20, **_declared("sandbox_dialect"))
    lql_chart_column = models.CharField(max_length=20, **_declared("lql_chart_column"))
    timestamps_as = models.CharField(max_length=20, **_declared("timestamps_as"))
    redact_pii = models.BooleanField(**_declared("redact_pii"))
    record_argument_values = models.BooleanField(**_declared("record_argument_values"))
    version = models.PositiveIntegerField(default=0, editable=False)
    declared_parameters = models.JSONField(default=list, editable=False)
    result_columns = models.JSONField(default=list, editable=False)
    sandbox_tables = models.JSONField(default=list, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    history = HistoricalRecords(custom_model_name="EndpointVersion")

    class Meta:
        ordering = ["name"]
        permissions = [("run_draft", "Can run drafts of endpoints")]
        constraints = [
            models.CheckConstraint(
                condition=Q(max_rows__gte=1, max_rows__lte=MAX_ROWS_LIMIT), name="endpoint_max_rows_in_range"
            ),
            models.CheckConstraint(
                condition=Q(
                    statement_timeout_seconds__gte=1, statement_timeout_seconds__lte=MAX_STATEMENT_TIMEOUT_SECONDS
                ),
                name="endpoint_statement_timeout_in_range",
            ),
            models.CheckConstraint(
                condition=Q(warm_every_seconds=0) | Q(cache_seconds__gt=0), name="endpoint_warming_needs_caching"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean_fields(self, exclude: Collection[str] | None = None) -> None:
        super().clean_fields(exclude)
        dialect = DIALECTS.get(self.sandbox_dialect)
        if dialect is not None and not dialect.is_installed and "sandbox_dialect" not in (exclude or ()):
            missing = f"{dialect.label} is not installed here: install the packages of requirements.lock."
            raise ValidationError({"sandbox_dialect": missing})

    def clean(self) -> None:
        super().clean()
        if self.warm_every_seconds and not self.cache_seconds:
            raise ValidationError({"warm_every_seconds": "Warming fills the cache: switch caching on first."})
        if self.warm_every_seconds and self.warm_every_seconds >= self.cache_seconds:
            raise ValidationError(
                {"warm_every_seconds": "Warm more often than results expire, or the cache is empty in between."}
            )

    def take(self, definition: Definition) -> None:
        """Make the SQL and the settings those of a definition; parameters are rows of their own."""
        for name, value in values_of(definition).items():
            setattr(self, name, value)

    @property
    def parameters_of_version(self) -> tuple[DeclaredParameter, ...]:
        """The parameters frozen with this version, those that the SQL uses without a declaration included."""
        return tuple(map(DeclaredParameter.from_json, self.declared_parameters))

    def as_version(self) -> Version:
        """Return what calls need of this row, as a value that nobody can write to."""
        return Version(
            **values_of(self),
            parameters=self.parameters_of_version,
            pk=self.pk,
            version=self.version,
            sandbox_tables=tuple(map(PublishedTable.from_json, self.sandbox_tables)),
        )


class Parameter(models.Model):
    """The declaration of one @name of an endpoint, as the operator edits it."""

    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="parameters")
    position = models.PositiveSmallIntegerField(default=0)
    name = models.CharField(max_length=48, validators=[validate_parameter_name])
    type = models.CharField(max_length=20, choices=PARAMETER_TYPES, default=ParameterType.TEXT.value)
    required = models.BooleanField(default=False)
    default = models.TextField(blank=True, help_text="Used when the argument is absent or empty.")
    allowed_values = ArrayField(models.TextField(), default=list, blank=True, help_text="Separated by commas.")
    minimum = models.CharField(max_length=40, blank=True)
    maximum = models.CharField(max_length=40, blank=True)
    pattern = models.CharField(max_length=500, blank=True, help_text="A regular expression the whole value must match.")
    description = models.TextField(blank=True)

    class Meta:
        ordering = ["position", "id"]
        constraints = [models.UniqueConstraint(fields=["endpoint", "name"], name="parameter_name_once_per_endpoint")]

    def __str__(self) -> str:
        return f"@{self.name}"

    @classmethod
    def of(cls, declared: DeclaredParameter) -> Parameter:
        """Return a declaration as an unsaved row without endpoint. Raises ValidationError where it does not fit."""
        default = declared.default
        if isinstance(default, list | tuple):
            if len(default) > 1:
                message = f"@{declared.name}: a default is one text, not a list of them"
                raise ValidationError({"parameters": message})
            default = default[0] if default else None
        row = cls(
            name=declared.name,
            type=declared.type.value,
            required=declared.required,
            default="" if default is None else str(default),
            allowed_values=list(declared.allowed_values),
            minimum=declared.minimum or "",
            maximum=declared.maximum or "",
            pattern=declared.pattern or "",
            description=declared.description,
        )
        row.clean_fields(exclude=["endpoint"])
        return row

    def declared(self) -> DeclaredParameter:
        """Return the frozen value that the SQL layer works with."""
        return DeclaredParameter(
            name=self.name,
            type=ParameterType(self.type),
            required=self.required,
            default=self.default or None,
            allowed_values=tuple(self.allowed_values),
            minimum=self.minimum or None,
            maximum=self.maximum or None,
            pattern=self.pattern or None,
            description=self.description,
        )
