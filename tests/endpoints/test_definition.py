"""Settings are declared once: what goes through all of them misses none, and nobody writes to a shared version."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from uuid import uuid4

import pytest

from endpoints.definition import (
    BEFORE_QUERY,
    CACHE,
    CONSUMERS,
    LIMITS,
    SETTINGS,
    Definition,
    Version,
    rows_of_section,
    values_of,
)
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter


def test_every_column_that_operators_edit_is_a_setting() -> None:
    kept_by_the_service = {"created_at", "updated_at"}
    edited = [field.name for field in Endpoint._meta.fields if field.editable and field.name not in kept_by_the_service]
    assert sorted(edited) == sorted(["sql", *SETTINGS])


def test_a_new_row_and_an_empty_definition_have_the_same_settings() -> None:
    assert values_of(Endpoint()) == values_of(Definition())


def test_every_setting_stands_in_a_section_of_the_page() -> None:
    rows = [row for section in (BEFORE_QUERY, LIMITS, CACHE, CONSUMERS) for row in rows_of_section(section)]
    assert sorted(name for row in rows for name in row) == sorted(SETTINGS)
    assert ("max_rows", "statement_timeout_seconds") in rows_of_section(LIMITS)


def test_a_row_takes_over_a_definition_and_gives_it_back() -> None:
    definition = Definition(
        name="test.taken", sql="SELECT @a AS a", max_rows=5, sandboxing=True, parameters=(DeclaredParameter("a"),)
    )
    row = Endpoint()
    row.take(definition)
    assert Definition.of(row, definition.parameters) == definition


@pytest.mark.parametrize(
    ("name", "number", "is_in_range"),
    [
        ("max_rows", 0, False),
        ("max_rows", 1, True),
        ("max_rows", 100_000, True),
        ("max_rows", 100_001, False),
        ("cache_seconds", 0, True),
        ("cache_seconds", 86_401, False),
    ],
)
def test_a_number_has_a_range(name: str, number: int, is_in_range: bool) -> None:
    assert SETTINGS[name].has_in_range(number) is is_in_range


def test_a_version_cannot_be_written_to() -> None:
    version = Version(name="test.shared", sql="SELECT 1", pk=uuid4(), version=1)
    for name in ("sql", "max_rows", "sandbox_tables"):
        with pytest.raises(FrozenInstanceError):
            setattr(version, name, None)
