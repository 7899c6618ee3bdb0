from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError

from endpoints.admin.fields import AssignmentsField, LinesField


@pytest.mark.parametrize(
    ("text", "lines"),
    [("", []), (" \n\t\r\n", []), ("a", ["a"]), ("a\r\n b, c \n\nd", ["a", "b, c", "d"]), (None, [])],
)
def test_lines(text: str | None, lines: list[str]) -> None:
    assert LinesField().clean(text) == lines


@pytest.mark.parametrize(
    ("text", "assignments"),
    [("", {}), ("project=acme", {"project": "acme"}), ("a = b=c \n\nd=e", {"a": "b=c", "d": "e"})],
)
def test_assignments(text: str, assignments: dict[str, str]) -> None:
    assert AssignmentsField().clean(text) == assignments


@pytest.mark.parametrize(
    ("text", "message"),
    [("project", "“project”"), ("=acme", "“=acme”"), ("a=b\nc=", "“c=”"), ("a=b\na=c", "a is named twice.")],
)
def test_a_faulty_assignment_is_named(text: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        AssignmentsField().clean(text)


@pytest.mark.parametrize(
    ("field", "value"),
    [(LinesField(), ["a", "b, c"]), (AssignmentsField(), {"a": "b=c", "d": "e"})],
    ids=["list", "object"],
)
def test_what_is_shown_is_read_back(field: LinesField, value: Any) -> None:
    shown = field.prepare_value(value)
    assert field.clean(shown) == value
    assert not field.has_changed(value, shown)
    assert field.has_changed(value, shown + "\nx=y")
    assert field.prepare_value("as typed") == "as typed"


def test_a_faulty_text_counts_as_a_change() -> None:
    assert AssignmentsField().has_changed({}, "faulty")
