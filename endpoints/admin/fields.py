"""Form fields: lists and objects with one entry per line, so that nothing needs quoting, and limits."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from config.setting_values import NO_LIMIT as NO_LIMIT_WORD
from config.setting_values import parse_limit
from endpoints.access.secrets import NO_LIMIT


# --- Checkbox lists ---------------------------------------------------------------------------------------------------
# A choice of several things as a list of checkboxes that scrolls by itself; keyboards and screen readers can use it.
class CheckboxList(UnfoldAdminCheckboxSelectMultipleWidget):  # type: ignore[misc]
    """The widget; `columns` puts short entries side by side if there is room."""

    template_name = "endpoints/checkbox_list.html"

    def __init__(self, *, columns: bool = False) -> None:
        super().__init__()
        self._columns = columns

    def get_context(self, name: str, value: object, attrs: dict[str, object] | None) -> dict[str, object]:
        context: dict[str, object] = super().get_context(name, value, attrs)
        return {**context, "columns": self._columns}

    class Media:
        css = {"all": ["endpoints/checkbox-list.css"]}


# --- Fields -----------------------------------------------------------------------------------------------------------
class LinesField(forms.CharField):
    """A list of texts, one per line; blank lines are left out."""

    def __init__(self, *, rows: int = 3, **kwargs: Any) -> None:
        super().__init__(widget=UnfoldAdminTextareaWidget(attrs={"rows": rows}), required=False, **kwargs)

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(map(str, value)) if isinstance(value, list | tuple) else value

    def to_python(self, value: Any) -> Any:
        return [line.strip() for line in str(value or "").splitlines() if line.strip()]

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(list(initial or []) != self.to_python(data))


class AssignmentsField(LinesField):
    """An object of texts, one NAME=VALUE per line. Raises ValidationError that names the faulty line."""

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(f"{name}={text}" for name, text in value.items()) if isinstance(value, dict) else value

    def to_python(self, value: Any) -> Any:
        assignments: dict[str, str] = {}
        for line in super().to_python(value):
            name, equals, text = (part.strip() for part in line.partition("="))
            if not (name and equals and text):
                raise ValidationError(f"Write one NAME=VALUE per line, such as project=acme; not “{line}”.")
            if name in assignments:
                raise ValidationError(f"{name} is named twice.")
            assignments[name] = text
        return assignments

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return bool(dict(initial or {}) != self.to_python(data))
        except ValidationError:
            return True


class LimitField(forms.Field):
    """A limit of an access token: a number, "none", or blank for the installation's default."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(widget=UnfoldAdminTextInputWidget(), required=False, **kwargs)

    def show_default(self, default: object) -> None:
        """Show in the blank field which limit then applies."""
        self.widget.attrs["placeholder"] = f"default: {NO_LIMIT_WORD if default is None else default}"

    def prepare_value(self, value: Any) -> Any:
        return NO_LIMIT_WORD if value == NO_LIMIT and value is not None else value

    def to_python(self, value: Any) -> Any:
        text = str(value or "").strip()
        if not text:
            return None
        try:
            return parse_limit(text) or NO_LIMIT
        except ValueError as error:
            raise ValidationError(f"This {error} Blank is the default.") from error

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return bool(initial != self.to_python(data))
        except ValidationError:
            return True
