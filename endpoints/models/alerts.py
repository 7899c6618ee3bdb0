"""Alerts, and the messages that they send."""

from __future__ import annotations

import uuid
from math import isfinite

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from endpoints.models.endpoint import Endpoint

# Types of columns whose values are numbers, or may be: json is known row by row.
_NUMBERS = frozenset(("smallint", "integer", "bigint", "numeric", "real", "double precision", "oid", "json", "jsonb"))


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
        elif self.threshold is not None and self.condition != AlertCondition.VALUE:
            if self.threshold < 0:
                problems["threshold"] = "Calls are never fewer than none: give 0 or more."
            elif self.condition == AlertCondition.FAILED_SHARE and self.threshold >= 100:
                problems["threshold"] = "No share is above 100 %: give less."
        if problems:
            raise ValidationError(problems)

    def _problems_with_result(self, endpoint: Endpoint) -> dict[str, str]:
        """Say what of the endpoint's newest version the column and the arguments do not fit."""
        problems: dict[str, str] = {}
        types = {column["name"]: str(column["type"]).partition("(")[0] for column in endpoint.result_columns}
        if self.column not in types:
            problems["column"] = f"Name a column of the result: {', '.join(types)}."
        elif types[self.column] not in _NUMBERS:
            problems["column"] = f"Name a column of numbers: this one is {types[self.column]}."
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
