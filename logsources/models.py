"""The registry of log sources: which log tables exist and what is extracted from their metadata."""

from __future__ import annotations

from typing import ClassVar
from uuid import uuid4

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q

from logsources.partitions import MAX_RETENTION_DAYS, MAX_SOURCE_NAME_LENGTH
from logsources.tables import BASE_COLUMNS, MAX_KEY_CHARACTERS, ColumnType

# `\Z` for Python; in PostgreSQL `$` matches at the end of the text alone.
NAME_PATTERN = r"^[a-z][a-z0-9_]{0,47}"
PATH_PATTERN = r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*"
# A source `x_default` or `x_p20250602` would take the name of a partition of source `x`.
PARTITION_NAME_PATTERN = r"(_default|_p[0-9]{8})"
# What PostgreSQL keeps in every row ("System Columns"), next to our own.
RESERVED_COLUMN_NAMES = (*BASE_COLUMNS, "tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")

_validate_name = RegexValidator(
    NAME_PATTERN + r"\Z",
    "A lower-case letter, then lower-case letters, digits and underscores; "
    f"{MAX_SOURCE_NAME_LENGTH} characters at most.",
)
_validate_path = RegexValidator(
    PATH_PATTERN + r"\Z", "Keys joined by dots, such as request.url; a key may have letters, digits, _ and -."
)
_validate_partition_clash = RegexValidator(
    PARTITION_NAME_PATTERN + r"\Z",
    "A name that ends in _default or in _p and eight digits belongs to a partition.",
    inverse_match=True,
)

_validate_producer_name = RegexValidator(
    r"^[^\s,](?:[^,\n\r\t\x00]*[^\s,])?\Z", "A producer's name may not contain commas, or spaces at its ends."
)


class ProjectLocation(models.TextChoices):
    ROW_FIELD = "row field", "a field of the row"
    METADATA = "metadata", "a path into metadata"


class LogSource(models.Model):
    """One named log table of the log database."""

    name = models.CharField(
        max_length=MAX_SOURCE_NAME_LENGTH,
        unique=True,
        validators=[_validate_name, _validate_partition_clash],
        help_text="The table's name in schema logs, such as edge_logs. It cannot be changed later.",
    )
    uuid = models.UUIDField(
        "UUID",
        unique=True,
        default=uuid4,
        editable=False,
        help_text="What clients may send in place of the name: /api/logs?source=UUID.",
    )
    holds = models.CharField(
        "description", max_length=200, help_text="What the table contains, such as: gateway request logs."
    )
    project_location = models.CharField(
        max_length=16,
        choices=ProjectLocation.choices,
        default=ProjectLocation.ROW_FIELD,
        help_text="Where a row says which project it belongs to.",
    )
    project_path = models.CharField(
        max_length=200,
        blank=True,
        default="",
        validators=[_validate_path],
        help_text="The path of the project inside metadata, such as project_ref. Empty for a field of the row. "
        "Where and how the project is found cannot be changed once the table contains rows.",
    )
    retention_days = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_RETENTION_DAYS)],
        help_text="Days after which rows are dropped, a whole UTC day at a time. Empty keeps them for ever.",
    )

    default_project = models.CharField(
        max_length=MAX_KEY_CHARACTERS,
        blank=True,
        default="",
        help_text="The project of loaded rows that name none, unless the access token has one of its own. Empty "
        "refuses such rows.",
    )
    producer_names = ArrayField(
        models.CharField(max_length=200, validators=[_validate_producer_name]),
        default=list,
        blank=True,
        help_text="The names that producers use for this source, separated by commas, such as cloudflare.logs.prod. "
        "Rows sent to /api/logs?source_name=NAME are stored here.",
    )

    class Meta:
        ordering: ClassVar = ["name"]
        verbose_name = "log source"
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(name__regex=NAME_PATTERN + "$") & ~Q(name__regex=PARTITION_NAME_PATTERN + "$"),
                name="log_source_name_is_a_table_name",
                violation_error_message="This cannot be the name of a log table.",
            ),
            models.CheckConstraint(
                condition=Q(project_location=ProjectLocation.ROW_FIELD, project_path="")
                | Q(project_location=ProjectLocation.METADATA, project_path__regex=PATH_PATTERN + "$"),
                name="log_source_project_path_fits_location",
                violation_error_message="Give a project path for a project inside metadata, and none for a row field.",
            ),
            models.CheckConstraint(
                condition=Q(retention_days__isnull=True) | Q(retention_days__range=(1, MAX_RETENTION_DAYS)),
                name="log_source_retention_in_range",
                violation_error_message=f"Rows are kept for 1 to {MAX_RETENTION_DAYS} days, or for ever.",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        super().clean()
        if len(set(self.producer_names)) < len(self.producer_names):
            raise ValidationError({"producer_names": "A producer's name appears twice."})
        others = LogSource.objects.exclude(pk=self.pk).filter(producer_names__overlap=self.producer_names)
        for other in others:
            taken = ", ".join(sorted(set(self.producer_names) & set(other.producer_names)))
            raise ValidationError({"producer_names": f"{other.name} already has the producer name {taken}."})


class ExtractedColumn(models.Model):
    """A column of a log table that PostgreSQL fills from metadata when a row is loaded."""

    source = models.ForeignKey(LogSource, on_delete=models.CASCADE, related_name="extracted_columns")
    name = models.CharField(
        max_length=MAX_SOURCE_NAME_LENGTH,
        validators=[_validate_name],
        help_text="The column's name, such as request_url. Adding or changing a column rewrites the table.",
    )
    path = models.CharField(
        max_length=200,
        validators=[_validate_path],
        help_text="Where the value is inside metadata, such as request.url. Arrays on the way are looked into.",
    )
    type = models.CharField(
        max_length=16,
        choices=[(column_type.value, column_type.value) for column_type in ColumnType],
        default=ColumnType.TEXT.value,
        help_text="A value of another type is NULL. Timestamps are ISO 8601 texts, UTC if they name no zone.",
    )
    indexed = models.BooleanField(
        default=False, help_text="Useful for a column that is compared with = or a prefix; slows loading a little."
    )
    covered = models.BooleanField(
        default=False,
        help_text="Kept in the table's covering index, from which a query can count without reading the rows. "
        "Existing days get it with the next roll of partitions.",
    )

    class Meta:
        ordering: ClassVar = ["source", "name"]
        verbose_name = "extracted column"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["source", "name"],
                name="extracted_column_name_once_per_source",
                violation_error_message="This source already has a column of this name.",
            ),
            models.CheckConstraint(
                condition=Q(name__regex=NAME_PATTERN + "$") & ~Q(name__in=RESERVED_COLUMN_NAMES),
                name="extracted_column_name_is_free",
                violation_error_message="Every log table already has a column of this name, or it cannot be one.",
            ),
            models.CheckConstraint(
                condition=Q(path__regex=PATH_PATTERN + "$"),
                name="extracted_column_path_is_dotted",
                violation_error_message="Give keys joined by dots, such as request.url.",
            ),
            models.CheckConstraint(
                condition=Q(type__in=[column_type.value for column_type in ColumnType]),
                name="extracted_column_type_is_known",
                violation_error_message="This is not a type of an extracted column.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.source}.{self.name}"
