"""Define an endpoint: its SQL, settings and parameters, checked on the log database before anything is saved."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.forms.models import BaseInlineFormSet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django_ace import AceWidget
from simple_history.admin import SimpleHistoryAdmin
from unfold.admin import ModelAdmin, StackedInline
from unfold.contrib.forms.widgets import ArrayWidget

from endpoints.models import Endpoint, Parameter
from endpoints.outcomes import Column
from endpoints.services import check_endpoint, save_endpoint
from endpoints.sql.parameters import DeclaredParameter


class EndpointForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Endpoint
        fields = (
            "name", "description", "sql", "tenant_parameter", "max_rows", "statement_timeout_seconds",
            "cache_seconds", "warm_every_seconds", "sandboxing", "redact_pii",
        )  # fmt: skip
        widgets = {
            "sql": AceWidget(mode="sql", width="100%", height="480px", wordwrap=False, showprintmargin=False)
        }


class ParameterFormSet(BaseInlineFormSet):  # type: ignore[type-arg]
    """Checks the endpoint as drafted, SQL and declarations together: neither is right without the other."""

    instance: Endpoint
    checked_columns: tuple[Column, ...] = ()

    def clean(self) -> None:
        super().clean()
        if any(self.errors) or not self.instance.sql:
            return
        try:
            self.checked_columns = check_endpoint(self.instance, self.declared_parameters())
        except ValidationError as error:
            raise ValidationError(error.messages) from error

    def declared_parameters(self) -> list[DeclaredParameter]:
        """Return the declarations as typed, without the rows marked for deletion."""
        forms_kept = [
            form for form in self.forms if form.cleaned_data.get("name") and not form.cleaned_data.get("DELETE")
        ]
        return [form.instance.declared() for form in forms_kept]


class ParameterInline(StackedInline):  # type: ignore[misc]
    model = Parameter
    formset = ParameterFormSet
    extra = 0
    fields = (
        ("name", "type", "required"),
        ("default", "pattern"),
        ("minimum", "maximum"),
        "allowed_values",
        "description",
    )

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "allowed_values":
            kwargs["widget"] = ArrayWidget
        if db_field.name in ("default", "description"):
            kwargs["widget"] = admin.widgets.AdminTextInputWidget
        return super().formfield_for_dbfield(db_field, request, **kwargs)


@admin.register(Endpoint)
class EndpointAdmin(SimpleHistoryAdmin, ModelAdmin):  # type: ignore[misc]
    form = EndpointForm
    inlines = (ParameterInline,)
    list_display = (
        "name",
        "version",
        "tenant_parameter",
        "caching",
        "warming",
        "sandboxing",
        "redact_pii",
        "updated_at",
    )
    list_filter = ("sandboxing", "redact_pii")
    search_fields = ("name", "description", "sql")
    readonly_fields = ("id", "version", "columns_of_result", "updated_at")
    history_list_display = ("version",)
    fieldsets = (
        (None, {"fields": ("name", "description", "sql")}),
        ("Rows and limits", {"fields": ("tenant_parameter", ("max_rows", "statement_timeout_seconds"))}),
        ("Cache", {"fields": (("cache_seconds", "warm_every_seconds"),)}),
        ("What consumers may do", {"fields": ("sandboxing", "redact_pii")}),
        ("Version", {"fields": ("id", "version", "columns_of_result", "updated_at")}),
    )

    @admin.display(description="caching", ordering="cache_seconds")
    def caching(self, endpoint: Endpoint) -> str:
        return f"{endpoint.cache_seconds} s" if endpoint.cache_seconds else "disabled"

    @admin.display(description="warming", ordering="warm_every_seconds")
    def warming(self, endpoint: Endpoint) -> str:
        return f"every {endpoint.warm_every_seconds} s" if endpoint.warm_every_seconds else "off"

    @admin.display(description="result columns")
    def columns_of_result(self, endpoint: Endpoint) -> SafeString | str:
        if not endpoint.result_columns:
            return "known after the first save"
        rows = ((column["name"], column["type"]) for column in endpoint.result_columns)
        return format_html("<ul>{}</ul>", format_html_join("", "<li>{} <em>{}</em></li>", rows))

    def save_model(self, request: HttpRequest, obj: Endpoint, form: Any, change: bool) -> None:
        """Saved in `save_related`, in one piece with its parameters."""

    def save_related(self, request: HttpRequest, form: Any, formsets: list[Any], change: bool) -> None:
        (parameters,) = formsets
        save_endpoint(form.instance, parameters.declared_parameters(), columns=parameters.checked_columns)
