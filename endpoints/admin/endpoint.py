"""Define an endpoint: its SQL, settings and parameters; every save is a version that stays readable."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import admin
from django.contrib.admin.options import ModelAdmin
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from endpoints.admin.cached_results import purge_url, report_purge
from endpoints.admin.draft_views import FORMAT_URL_NAME, PERMISSION, draft_urls, format_url
from endpoints.admin.edit_conflicts import ConflictAdmin
from endpoints.admin.endpoint_form import EndpointForm, ParameterInline, PrefilledAdmin
from endpoints.admin.history import VersionedAdmin
from endpoints.admin.transfers import TransferAdmin
from endpoints.admin.usage import usage_url
from endpoints.defining.saving import save_endpoint
from endpoints.defining.upkeep import delete_endpoints
from endpoints.definition import BEFORE_QUERY, CACHE, CONSUMERS, LIMITS, SETTINGS, SETTINGS_IN_DRAFTS, rows_of_section
from endpoints.models import Endpoint

# --- Workbench --------------------------------------------------------------------------------------------------------
# The data that the endpoint's page needs beyond its form: the addresses of drafts, for people who may use them.
_ADDRESSES: Final = ("check", "run", "explain", "cancel", "catalogue")
LATEST: Final = "endpoints_endpoint_draft_latest"


def workbench_context(
    admin: ModelAdmin[Endpoint], request: HttpRequest, endpoint: Endpoint | None
) -> dict[str, Any] | None:
    """Return the start data of the page's scripts, or None for people who may only read the page."""
    saved = endpoint is not None and bool(endpoint.version)
    permitted = admin.has_change_permission(request, endpoint) if saved else admin.has_add_permission(request)
    if not permitted:
        return None
    may_try = request.user.has_perm(PERMISSION)
    addresses = {word: reverse(f"admin:endpoints_endpoint_draft_{word}") for word in _ADDRESSES} if may_try else {}
    return {
        "id": str(endpoint.pk) if saved and endpoint is not None else None,
        "version": endpoint.version if endpoint is not None else 0,
        "may_try": may_try,
        "settings": list(SETTINGS_IN_DRAFTS),
        "addresses": {**addresses, "format": reverse(f"admin:{FORMAT_URL_NAME}"), "latest": reverse(f"admin:{LATEST}")},
    }


# --- Endpoint ---------------------------------------------------------------------------------------------------------
SETTING_FIELDSETS: Final = tuple(
    (section, {"fields": rows_of_section(section)}) for section in (LIMITS, CACHE, CONSUMERS)
)


@admin.register(Endpoint)
class EndpointAdmin(ConflictAdmin, PrefilledAdmin, TransferAdmin, VersionedAdmin):
    form = EndpointForm
    inlines = (ParameterInline,)
    list_display = ("name", "version", "tenant", "caching", "warming", "sandboxing", "redact_pii", "updated_at")
    list_filter = ("sandboxing", "redact_pii")
    search_fields = ("name", "description", "sql")
    readonly_fields = (
        "id", "address", "version", "columns_of_result", "tables_of_sandbox", "updated_at", "sql_of_version",
        "parameters_of_this_version",
    )  # fmt: skip
    history_fields = {
        "sql": "SQL",
        "declared_parameters": "parameters",
        "result_columns": "result columns",
        **{name: setting.label for name, setting in SETTINGS.items()},
    }
    warn_unsaved_form = True
    actions = ("purge", "export_chosen")
    fieldsets = (
        (None, {"fields": rows_of_section(BEFORE_QUERY), "classes": ["before-query"]}),
        (None, {"fields": ("sql",), "classes": ["query"]}),
        *SETTING_FIELDSETS,
        ("Version", {"fields": ("address", "id", ("version", "updated_at"), "columns_of_result", "tables_of_sandbox")}),
    )
    version_fieldsets = (
        (None, {"fields": (("version", "updated_at"), "name", "description", "sql_of_version")}),
        ("Parameters and result", {"fields": ("parameters_of_this_version", "columns_of_result", "tables_of_sandbox")}),
        *SETTING_FIELDSETS,
    )

    @admin.display(description="tenant parameter", empty_value="every project", ordering="tenant_parameter")
    def tenant(self, endpoint: Endpoint) -> str | None:
        return f"@{endpoint.tenant_parameter}" if endpoint.tenant_parameter else None

    @admin.display(description="caching", ordering="cache_seconds")
    def caching(self, endpoint: Endpoint) -> str:
        return f"{endpoint.cache_seconds} s" if endpoint.cache_seconds else "disabled"

    @admin.display(description="warming", ordering="warm_every_seconds")
    def warming(self, endpoint: Endpoint) -> str:
        return f"every {endpoint.warm_every_seconds} s" if endpoint.warm_every_seconds else "off"

    @admin.display(description="address")
    def address(self, endpoint: Endpoint) -> SafeString | str:
        if not endpoint.version:
            return "known after the first save"
        return format_html("<code>{}</code>", reverse("query", args=[endpoint.name]))

    @admin.display(description="result columns")
    def columns_of_result(self, endpoint: Endpoint) -> SafeString | str:
        if not endpoint.result_columns:
            return "known after the first save"
        return _listed((column["name"], column["type"]) for column in endpoint.result_columns)

    @admin.display(description="sandbox tables", empty_value="none: sandboxing is off")
    def tables_of_sandbox(self, endpoint: Endpoint) -> SafeString | None:
        if not endpoint.sandbox_tables:
            return None
        return _listed(
            (table["name"], ", ".join(f"{column['name']} {column['type']}" for column in table["columns"]))
            for table in endpoint.sandbox_tables
        )

    @admin.action(description="Remove the cached results of the chosen endpoints", permissions=["change"])
    def purge(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> None:
        for endpoint in queryset:
            report_purge(request, endpoint, self.message_user)

    def get_urls(self) -> list[Any]:
        return [purge_url(self), usage_url(self), *draft_urls(self), format_url(self), *super().get_urls()]

    @admin.display(description="SQL")
    def sql_of_version(self, endpoint: Endpoint) -> SafeString:
        return format_html('<pre class="stored-sql font-mono overflow-x-auto">{}</pre>', endpoint.sql)

    @admin.display(description="parameters", empty_value="none")
    def parameters_of_this_version(self, endpoint: Endpoint) -> SafeString | None:
        parameters = endpoint.parameters_of_version
        if not parameters:
            return None
        return _listed(
            (f"@{one.name}", f"{one.type}, required" if one.required else one.type.value) for one in parameters
        )

    def get_fieldsets(self, request: HttpRequest, obj: Endpoint | None = None) -> Any:
        if self.shows_history(request):
            return self.version_fieldsets
        if obj is None:
            return self.fieldsets[:-1]
        if self.has_change_permission(request, obj):
            return self.fieldsets
        # A read-only page shows the SQL as it is written, not as a form's text.
        about, _, *others = self.fieldsets
        return [about, (None, {"fields": ("sql_of_version",), "classes": ["query"]}), *others]

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            response: HttpResponse = super().changeform_view(request, *args, **kwargs)
        except ValidationError:
            # Another endpoint has just taken the name, which was free at the first check: a second one reports it.
            response = super().changeform_view(request, *args, **kwargs)
        return response

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, obj: Endpoint | None = None, **kwargs: Any
    ) -> HttpResponse:
        if not self.shows_history(request):
            context["workbench"] = workbench_context(self, request, obj)
        response: HttpResponse = super().render_change_form(request, context, *args, obj=obj, **kwargs)
        return response

    def delete_model(self, request: HttpRequest, obj: Endpoint) -> None:
        delete_endpoints([obj])

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> None:
        delete_endpoints(queryset)

    def save_model(self, request: HttpRequest, obj: Endpoint, form: Any, change: bool) -> None:
        """Leave saving to `save_related`: a version is the endpoint with its parameters, in one piece."""

    def save_related(self, request: HttpRequest, form: Any, formsets: list[Any], change: bool) -> None:
        (parameters,) = formsets
        parameters.save(commit=False)  # fills in the changes for the admin's log
        save_endpoint(form.instance, parameters.declared_parameters(), columns=parameters.checked_columns)


def _listed(pairs: Any) -> SafeString:
    return format_html("<ul>{}</ul>", format_html_join("", "<li><code>{}</code> {}</li>", pairs))
