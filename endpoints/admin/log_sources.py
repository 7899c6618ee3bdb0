"""The registry of log sources in the admin. Saving creates or alters the table, deleting drops it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Field
from django.forms import BaseInlineFormSet, BaseModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import TabularInline
from unfold.widgets import UnfoldAdminTextInputWidget

from endpoints.admin.edit_conflicts import ConflictAdmin, ConflictForm, RowsByName
from endpoints.admin.measured_sources import MeasuredAdmin
from endpoints.cache import CacheUnavailable
from endpoints.cache.usage import forget_load_ends
from logsources import services
from logsources.models import ExtractedColumn, LogSource
from logsources.services import SourceTableError
from logsources.tables import ColumnType, ExtractedColumnShape

_FIELDS = (
    "name",
    "holds",
    "project_location",
    "project_path",
    "default_project",
    "retention_days",
    "producer_names",
)
_TABLE_ERROR = "log_source_table_error"  # name of a request attribute


class LogSourceForm(ConflictForm):
    """The form of a source; `table_error` is the log database's error when this form was saved a moment ago."""

    table_error: str | None = None
    inline_rows = ("extracted_columns",)

    class Meta:
        model = LogSource
        fields = _FIELDS

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.table_error:
            self.add_error(None, self.table_error)
        return cleaned


class ExtractedColumnForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable at run time
    """A row of a table: the labels are only in its head, so each field gets a name for screen readers."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget.attrs["aria-label"] = str(field.label)


class ExtractedColumnInline(TabularInline):  # type: ignore[misc]
    model = ExtractedColumn
    form = ExtractedColumnForm
    formset = RowsByName
    fields = ("name", "path", "type", "indexed", "covered")
    extra = 0


@admin.register(LogSource)
class LogSourceAdmin(ConflictAdmin, MeasuredAdmin):
    form = LogSourceForm
    fields = _FIELDS
    inlines = (ExtractedColumnInline,)
    list_display = ("named", *MeasuredAdmin.measured_columns, "kept_for")
    list_per_page = 50  # each is measured
    search_fields = ("name", "uuid", "holds")

    @admin.display(description="log source", ordering="name")
    def named(self, source: LogSource) -> SafeString:
        return format_html('{} <span class="ls-ago ls-holds">{}</span>', source.name, source.holds)

    def formfield_for_dbfield(self, db_field: Field[Any, Any], request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "producer_names":
            # One line, and no hidden second field for a default that is new each time.
            kwargs |= {"widget": UnfoldAdminTextInputWidget(), "show_hidden_initial": False}
            return db_field.formfield(**kwargs)
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def get_readonly_fields(self, request: HttpRequest, obj: LogSource | None = None) -> tuple[str, ...]:
        return ("name", "uuid") if obj else ()

    def get_fields(self, request: HttpRequest, obj: LogSource | None = None) -> Any:
        """Show the UUID once there is one."""
        return ("name", "uuid", *self.fields[1:]) if obj else self.fields

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        # Tables with all their rows are dropped one at a time, each on a page that says so.
        actions: dict[str, Any] = super().get_actions(request)
        actions.pop("delete_selected", None)
        return actions

    def get_form(
        self, request: HttpRequest, obj: LogSource | None = None, change: bool = False, **kwargs: Any
    ) -> type[LogSourceForm]:
        form: type[LogSourceForm] = super().get_form(request, obj, change=change, **kwargs)
        form.table_error = getattr(request, _TABLE_ERROR, None)  # the class was made for this request
        return form

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """If the log database refuses the change, show the form again with the typed values and the reason."""
        try:
            return self._changeform(request, object_id, form_url, extra_context)
        except (SourceTableError, ValidationError) as error:
            reason = str(error) if isinstance(error, SourceTableError) else " ".join(error.messages)
            setattr(request, _TABLE_ERROR, reason)
            return self._changeform(request, object_id, form_url, extra_context)

    def _changeform(self, request: HttpRequest, *arguments: Any) -> HttpResponse:
        response: HttpResponse = super().changeform_view(request, *arguments)
        return response

    def save_model(self, request: HttpRequest, obj: LogSource, form: Any, change: bool) -> None:
        """Leave saving to `save_related`: a table is fitted to the source and its columns at once."""

    def save_related(
        self,
        request: HttpRequest,
        form: BaseModelForm[LogSource],
        formsets: list[BaseInlineFormSet[Any, Any, Any]],
        change: bool,
    ) -> None:
        (columns,) = formsets
        columns.save(commit=False)  # fills in the changes for the admin's history
        services.save_source(
            form.instance,
            [
                ExtractedColumnShape(
                    column["name"], column["path"], ColumnType(column["type"]), column["indexed"], column["covered"]
                )
                for column in (column_form.cleaned_data for column_form in columns.forms)
                if column and not column.get("DELETE")
            ],
        )

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        try:
            response: HttpResponse = super().delete_view(request, object_id, extra_context)
        except SourceTableError as error:
            self.message_user(request, str(error), messages.ERROR)
            return HttpResponseRedirect(reverse("admin:logsources_logsource_change", args=[object_id]))
        return response

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[str, int], set[str], list[str]]:
        """Name the tables next to the registry's own rows on the page that asks for confirmation."""
        to_delete, model_count, permissions_needed, protected = super().get_deleted_objects(objs, request)
        dropped = [f"Table logs.{source.name} in the log database, with every row in it" for source in objs]
        return [*to_delete, *dropped], model_count, permissions_needed, protected

    def delete_model(self, request: HttpRequest, obj: LogSource) -> None:
        services.drop_source(obj)
        with suppress(CacheUnavailable):  # otherwise a source of the same name seems to have been loaded
            forget_load_ends(obj.name)
