"""What operators define: endpoints with their parameters, and the access tokens that may call them.

An `Endpoint` row holds one whole version: its SQL, its settings and, frozen into `declared_parameters`,
`result_columns` and `sandbox_tables`, what was checked against the log database. A call reads that one row, so it can
never mix the SQL of one version with the parameters of another. Save through `defining.saving.save_endpoint`: it
checks, freezes and numbers.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection
from datetime import datetime
from math import isfinite
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone
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
from logsources.partitions import MAX_SOURCE_NAME_LENGTH
from logsources.tables import MAX_KEY_CHARACTERS

PARAMETER_TYPES = [(parameter_type.value, parameter_type.value) for parameter_type in ParameterType]

validate_endpoint_name = RegexValidator(
    r"\A[A-Za-z][A-Za-z0-9_.-]{0,99}\Z",
    "A name must start with a letter and may have at most 100 letters, digits, dots, dashes and underscores.",
)
validate_parameter_name = RegexValidator(
    r"\A[A-Za-z_][A-Za-z0-9_]{0,47}\Z",
    "A parameter name must start with a letter or underscore and may have at most 48 letters, digits and underscores.",
)


validate_key_name = RegexValidator(
    r"\A[A-Za-z][A-Za-z0-9_.-]{0,99}\Z",
    "A name must start with a letter and may have at most 100 letters, digits, dots, dashes and underscores.",
)
# RFC 6454 section 6.2, as browsers send it: scheme and host in lower case, no default port, nothing behind.
_ORIGIN = re.compile(r"(https?)://([a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::([1-9][0-9]{0,4}))?", re.ASCII)
_DEFAULT_PORTS = {"http": "80", "https": "443"}


def validate_origin(origin: str) -> None:
    """Refuse what no browser sends as an Origin: it would never match, or match more than one site."""
    match = _ORIGIN.fullmatch(origin)
    if match is None or match[3] == _DEFAULT_PORTS[match[1]] or int(match[3] or 1) > 65_535:
        raise ValidationError(
            "An origin is scheme, host and any unusual port, in lower case and with nothing behind them, such as "
            f"https://app.example.org or http://127.0.0.1:8080; not {origin}."
        )


def _refuse_uuid(name: str) -> None:
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
        max_length=100, unique=True, validators=[validate_endpoint_name, _refuse_uuid], **_declared("name")
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
            packages = f"requirements-{dialect.extra}.lock"
            missing = f"{dialect.label} is not installed here: install the packages of {packages}."
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


class AccessToken(models.Model):
    """The secret a consumer sends as X-API-KEY: only its SHA-256 is stored; the prefix finds the row."""

    name = models.CharField(max_length=100, help_text="Who or what uses it; shown in logs instead of the secret.")
    prefix = models.CharField(max_length=16, unique=True, editable=False)
    secret_hash = models.CharField(max_length=64, editable=False)
    every_endpoint = models.BooleanField(
        default=True, help_text="May call every endpoint; otherwise only those chosen below."
    )
    endpoints = models.ManyToManyField(Endpoint, blank=True, related_name="access_tokens")
    bound_arguments = models.JSONField(
        default=dict,
        blank=True,
        help_text='Arguments this access token is bound to, such as {"project": "acme"}: a call with another value is '
        "refused, a call without a value gets this one.",
    )
    may_purge = models.BooleanField(
        "may purge caches",
        default=False,
        help_text="May remove the cached results of the endpoints it may call (DELETE /api/endpoints/cache/name).",
    )
    may_load = models.BooleanField(
        "may load rows", default=False, help_text="May add rows to log sources (POST /api/logs)."
    )
    load_sources = ArrayField(
        models.CharField(max_length=MAX_SOURCE_NAME_LENGTH),
        default=list,
        blank=True,
        help_text="The names of the only log sources that it may load rows into; empty: every log source.",
    )
    may_issue = models.BooleanField(
        "may issue browser tokens",
        default=False,
        help_text="May issue short-lived tokens for browsers, which never allow more than it does (POST /api/tokens).",
    )
    default_project = models.CharField(
        max_length=MAX_KEY_CHARACTERS,
        blank=True,
        default="",
        help_text="The project of the rows it loads that name none; blank = the one of the log source.",
    )
    calls_a_minute = models.PositiveIntegerField(
        null=True, blank=True, help_text="Calls of every kind, cached ones too."
    )
    calls_at_once = models.PositiveIntegerField(
        "calls at the same time", null=True, blank=True, help_text="Only calls that the cache cannot answer."
    )
    sandbox_queries_at_once = models.PositiveIntegerField(
        "sandbox queries at the same time", null=True, blank=True, help_text="Only calls with sql or lql."
    )
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    history = HistoricalRecords(excluded_fields=["secret_hash", "last_used_at"], m2m_fields=[endpoints])

    class Meta:
        ordering = ["name", "id"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    def clean(self) -> None:
        super().clean()
        bound = self.bound_arguments
        if not isinstance(bound, dict) or not all(isinstance(value, str) and value for value in bound.values()):
            raise ValidationError({"bound_arguments": 'Give an object of texts, such as {"project": "acme"}.'})
        for name in bound:
            validate_parameter_name(name)

    def is_valid_at(self, moment: datetime) -> bool:
        """Tell whether it is neither revoked nor expired at `moment`."""
        return self.revoked_at is None and (self.expires_at is None or moment < self.expires_at)

    @property
    def is_valid(self) -> bool:
        return self.is_valid_at(timezone.now())


class SigningAlgorithm(models.TextChoices):
    """How browser tokens are signed (RFC 7518 section 3.2, RFC 8037 section 3.1)."""

    HS256 = "HS256", "HS256: one secret signs and verifies"
    EDDSA = "EdDSA", "EdDSA (Ed25519): a secret signs, a public key verifies"


class SigningKey(models.Model):
    """A key that signs browser tokens and names the origins whose pages may use them.

    Of the keys of one name at most one is current, and signs. A retired one still verifies what it signed before; a
    revoked one verifies nothing. Make and change keys through `access.signing_keys`.
    """

    name = models.CharField(
        max_length=100,
        validators=[validate_key_name],
        help_text="What issuers call it; it stays when the key is rotated.",
    )
    kid = models.CharField("key id", max_length=16, unique=True, editable=False)
    algorithm = models.CharField(max_length=10, choices=SigningAlgorithm, default=SigningAlgorithm.EDDSA)
    sealed_secret = models.BinaryField(editable=False)
    public_key = models.TextField(blank=True, default="", editable=False)  # PEM; none of HS256
    allowed_origins = ArrayField(
        models.CharField(max_length=255, validators=[validate_origin]),
        default=list,
        blank=True,
        help_text="The origins whose pages may call with its tokens.",
    )
    created_at = models.DateTimeField(auto_now_add=True)
    retired_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    history = HistoricalRecords(excluded_fields=["sealed_secret"])

    class Meta:
        ordering = ["name", "-created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["name"],
                condition=Q(retired_at=None, revoked_at=None),
                name="signing_key_one_current_per_name",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.kid})"

    def clean(self) -> None:
        super().clean()
        current = SigningKey.objects.filter(name=self.name, retired_at=None, revoked_at=None)
        # The constraint says so too; a form, which leaves its other fields out, does not ask it.
        if self._state.adding and current.exists():
            raise ValidationError({"name": "There is a current key of this name: rotate or revoke that one."})


class AlertCondition(models.TextChoices):
    """What an alert looks at; the first three count calls of the audit log."""

    FAILED_SHARE = "failed_share", "Share of calls that failed (5xx), in per cent"
    FAILED_COUNT = "failed_count", "Number of calls that failed (5xx)"
    REFUSED_COUNT = "refused_count", "Number of calls that were refused (4xx)"
    VALUE = "value", "A value in the endpoint's result"


class Alert(models.Model):
    """A condition that is checked every minute, and the webhook that is told when it begins and ends to hold.

    `alerting.secrets` makes and reads the secret; `alerting.evaluation` keeps the state.
    """

    name = models.CharField(max_length=100, unique=True, help_text="What the messages call it.")
    enabled = models.BooleanField(default=True, help_text="Off: it is not checked, and sends nothing.")
    endpoint = models.ForeignKey(
        Endpoint, on_delete=models.CASCADE, null=True, blank=True, help_text="Blank = the calls of every endpoint."
    )
    condition = models.CharField(max_length=20, choices=AlertCondition, default=AlertCondition.FAILED_SHARE)
    threshold = models.FloatField(
        help_text="It fires when the value is above this; if “fires below” is on, when it is below."
    )
    fires_below = models.BooleanField(default=False, help_text="Only for a value in the result.")
    minutes = models.PositiveSmallIntegerField(
        "over the last (minutes)",
        default=5,
        validators=[MinValueValidator(1), MaxValueValidator(60)],
        help_text="Only for calls.",
    )
    minimum_calls = models.PositiveIntegerField(
        default=10, help_text="Only for a share: with fewer calls it does not fire."
    )
    column = models.CharField(
        max_length=63, blank=True, help_text="Only for a value: the column. Any row that crosses the threshold counts."
    )
    arguments = models.JSONField(
        default=dict,
        blank=True,
        help_text='Only for a value: the arguments that the endpoint runs with, such as {"project": "acme"}.',
    )
    webhook_url = models.CharField(
        "webhook address", max_length=500, help_text="Messages are sent there with POST, over https."
    )
    remind_minutes = models.PositiveIntegerField(
        "remind every (minutes)",
        default=60,
        validators=[MaxValueValidator(10_080)],
        help_text="While it fires; 0 = no reminders.",
    )
    sealed_secret = models.BinaryField(editable=False, default=bytes)
    is_firing = models.BooleanField(default=False, editable=False)
    told_firing = models.BooleanField(default=False, editable=False)  # the state of the last message
    changed_at = models.DateTimeField("in this state since", null=True, editable=False)
    evaluated_at = models.DateTimeField("last checked", null=True, editable=False)
    last_value = models.FloatField(null=True, editable=False)
    problem = models.CharField(max_length=300, blank=True, editable=False)  # why it could not be checked

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        super().clean()
        problems: dict[str, str] = {}
        if self.condition == AlertCondition.VALUE:
            if self.endpoint is None:
                problems["endpoint"] = "Choose the endpoint whose result has the value."
            else:
                problems |= self._problems_with_result(self.endpoint)
        elif self.fires_below:
            problems["fires_below"] = "Only a value in the result can fire below its threshold."
        if not isinstance(self.arguments, dict):
            problems["arguments"] = 'Give an object, such as {"project": "acme"}.'
        if self.threshold is not None and not isfinite(self.threshold):
            problems["threshold"] = "Give a finite number."
        if problems:
            raise ValidationError(problems)

    def _problems_with_result(self, endpoint: Endpoint) -> dict[str, str]:
        """Say what of the endpoint's newest version the column and the arguments do not fit."""
        problems: dict[str, str] = {}
        columns = [column["name"] for column in endpoint.result_columns]
        if self.column not in columns:
            problems["column"] = f"Name a column of the result: {', '.join(columns)}."
        declared = [parameter.name for parameter in endpoint.parameters_of_version]
        if isinstance(self.arguments, dict) and (unknown := sorted(set(self.arguments) - set(declared))):
            problems["arguments"] = f"The endpoint has no parameter {', '.join(unknown)}."
        return problems


class MessageKind(models.TextChoices):
    """Why an alert sends a message."""

    FIRING = "firing"
    RESOLVED = "resolved"
    REMINDER = "reminder"
    TEST = "test"


class AlertMessage(models.Model):
    """A message of an alert on its way to the webhook, or delivered, or given up."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="messages")
    kind = models.CharField(max_length=10, choices=MessageKind)
    body = models.TextField()
    created_at = models.DateTimeField()
    attempts = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField(null=True)  # of the next attempt; None: delivered or given up
    delivered_at = models.DateTimeField(null=True)
    problem = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["-created_at"]
        default_permissions = ()
        indexes = [models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="alert_message_due")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.created_at:%Y-%m-%d %H:%M:%S}"
