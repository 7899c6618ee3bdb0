from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from logsources.models import ExtractedColumn, LogSource

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "Upper"},
        {"name": "x_default"},
        {"name": "x_p20250602"},
        {"project_location": "elsewhere"},
        {"project_path": "project_ref"},
        {"project_location": "metadata"},
        {"project_location": "metadata", "project_path": 'a"b'},
        {"retention_days": 0},
        {"retention_days": 40_000},
    ],
)
def test_database_refuses_impossible_sources(fields) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        LogSource.objects.create(**{"name": "possible", "holds": "test rows", **fields})


@pytest.mark.parametrize(
    "fields", [{"name": "id"}, {"name": "xmin"}, {"name": "X"}, {"path": ""}, {"path": "a b"}, {"type": "jsonb"}]
)
def test_database_refuses_impossible_columns(fields) -> None:
    source = LogSource.objects.create(name="possible", holds="test rows")
    ExtractedColumn.objects.create(source=source, name="first", path="a.b")
    with pytest.raises(IntegrityError), transaction.atomic():
        ExtractedColumn.objects.create(**{"source": source, "name": "second", "path": "a.b", **fields})


def test_names_itself() -> None:
    source = LogSource.objects.create(name="possible", holds="test rows")
    assert str(source) == "possible"
    assert str(ExtractedColumn(source=source, name="status", path="a")) == "possible.status"
