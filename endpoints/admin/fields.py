"""Form fields for values that are lists or objects: one entry a line, so that nothing needs quoting."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from unfold.widgets import UnfoldAdminTextareaWidget


class LinesField(forms.CharField):
    """A list of texts, one a line; blank lines are left out."""

    def __init__(self, *, rows: int = 3, **kwargs: Any) -> None:
        super().__init__(widget=UnfoldAdminTextareaWidget(attrs={"rows": rows}), required=False, **kwargs)

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(map(str, value)) if isinstance(value, list | tuple) else value

    def to_python(self, value: Any) -> Any:
        return [line.strip() for line in str(value or "").splitlines() if line.strip()]

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(list(initial or []) != self.to_python(data))


class AssignmentsField(LinesField):
    """An object of texts, one NAME=VALUE a line. Raises ValidationError that names the faulty line."""

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(f"{name}={text}" for name, text in value.items()) if isinstance(value, dict) else value

    def to_python(self, value: Any) -> Any:
        assignments: dict[str, str] = {}
        for line in super().to_python(value):
            name, equals, text = (part.strip() for part in line.partition("="))
            if not (name and equals and text):
                raise ValidationError(f"Write one NAME=VALUE a line, such as project=acme; not “{line}”.")
            if name in assignments:
                raise ValidationError(f"{name} is named twice.")
            assignments[name] = text
        return assignments

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return bool(dict(initial or {}) != self.to_python(data))
        except ValidationError:
            return True
