"""The admin of models with a history: every earlier state can be read, none can be changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import formats, timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from simple_history.admin import SimpleHistoryAdmin
from unfold.admin import ModelAdmin

_KINDS: Mapping[str, str] = {"+": "created", "~": "changed", "-": "deleted"}


class ReadableHistoryAdmin(SimpleHistoryAdmin, ModelAdmin):  # type: ignore[misc]
    """Lists earlier states and shows one as text. Putting one back is a new save, checked like any other."""

    object_history_template = "endpoints/history.html"
    object_history_form_template = "endpoints/history_entry.html"
    # Fields whose change is named in the list, by the name that people know them by.
    history_fields: Mapping[str, str] = {}

    def history_title(self, record: Any) -> str:
        """Return what an entry is called in the list."""
        return str(record.history_object)

    def render_history_view(
        self, request: HttpRequest, template: str, context: dict[str, Any], **kwargs: Any
    ) -> HttpResponse:
        if "page_obj" in context:
            rows = [self._history_row(record) for record in context["page_obj"]]
            context["table"] = {"headers": ["Entry", "What", "When", "By", "Changed"], "rows": rows}
        else:
            context["recorded_at"] = context["original"]._history.history_date
        response: HttpResponse = super().render_history_view(request, template, context, **kwargs)
        return response

    def _history_row(self, record: Any) -> list[str | SafeString]:
        options = self.model._meta
        # Not the key of `history_object`: of a deleted row it would be gone.
        key = getattr(record, options.pk.attname)
        address = reverse(f"admin:{options.app_label}_{options.model_name}_simple_history", args=[key, record.pk])
        return [
            format_html(
                '<a class="text-primary-600 underline dark:text-primary-500" href="{}">{}</a>',
                address,
                self.history_title(record),
            ),
            ", ".join(filter(None, (_KINDS[record.history_type], record.history_change_reason))),
            formats.date_format(timezone.localtime(record.history_date), "Y-m-d H:i:s"),
            str(record.history_user or "—"),
            self._changes(record),
        ]

    def _changes(self, record: Any) -> str:
        previous = record.prev_record
        if previous is None:
            return ""
        changed = set(record.diff_against(previous).changed_fields)
        # Fields that no form edits are left out there: result columns, for example.
        own = {field.name for field in record._meta.concrete_fields}.intersection(self.history_fields)
        changed |= {name for name in own if getattr(record, name) != getattr(previous, name)}
        labels = (label for name, label in self.history_fields.items() if name in changed)
        return ", ".join(dict.fromkeys(labels))

    def revert_disabled(self, request: HttpRequest, obj: Any = None) -> bool:
        return True

    def history_form_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method == "POST":
            raise PermissionDenied
        response: HttpResponse = super().history_form_view(request, *args, **kwargs)
        return response

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        if not self.shows_history(request):
            return tuple(self.readonly_fields)
        return (*self.readonly_fields, *self.form.Meta.fields)

    def shows_history(self, request: HttpRequest) -> bool:
        """Tell whether the page shows an earlier state."""
        match = request.resolver_match
        return bool(match and match.url_name and match.url_name.endswith("_simple_history"))
