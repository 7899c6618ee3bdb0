"""A choice of several things as a list of checkboxes that scrolls by itself; keys and screen readers know how."""

from __future__ import annotations

from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget


class CheckboxList(UnfoldAdminCheckboxSelectMultipleWidget):  # type: ignore[misc]
    """The widget; `columns` lets short entries stand beside each other where there is room."""

    template_name = "endpoints/checkbox_list.html"

    def __init__(self, *, columns: bool = False) -> None:
        super().__init__()
        self._columns = columns

    def get_context(self, name: str, value: object, attrs: dict[str, object] | None) -> dict[str, object]:
        context: dict[str, object] = super().get_context(name, value, attrs)
        return {**context, "columns": self._columns}

    class Media:
        css = {"all": ["endpoints/checkbox-list.css"]}
