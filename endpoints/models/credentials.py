"""Access tokens, and the origins of the pages that may call with the browser tokens which they issue."""

from __future__ import annotations

import re
from datetime import datetime

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone
from simple_history.models import HistoricalRecords

from endpoints.models.endpoint import Endpoint, validate_parameter_name
from logsources.partitions import MAX_SOURCE_NAME_LENGTH
from logsources.tables import MAX_KEY_CHARACTERS

# RFC 6454 section 6.2, as browsers send it: scheme and host in lower case, no default port, nothing behind.
_ORIGIN = re.compile(r"(https?)://([a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::([1-9][0-9]{0,4}))?", re.ASCII)
MAX_ORIGIN_LENGTH = 255
_DEFAULT_PORTS = {"http": "80", "https": "443"}


def validate_origin(origin: str) -> None:
    """Refuse what no browser sends as an Origin: it would never match, or match more than one site."""
    match = _ORIGIN.fullmatch(origin)
    if match is None or match[3] == _DEFAULT_PORTS[match[1]] or int(match[3] or 1) > 65_535:
        raise ValidationError(
            "An origin is scheme, host and any unusual port, in lower case and with nothing behind them, such as "
            f"https://app.example.org or http://127.0.0.1:8080; not {origin}."
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
    allowed_origins = ArrayField(
        models.CharField(max_length=MAX_ORIGIN_LENGTH, validators=[validate_origin]),
        default=list,
        blank=True,
        help_text="The origins whose pages may call with the browser tokens that it issues.",
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
