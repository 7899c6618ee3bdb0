"""The form of a new endpoint, filled in from what was looked at in the log explorer.

``add/?log_source=edge_logs&every_project=1&lql=m.level:error`` names what is wanted; the SQL is made here, so that no
link can put SQL of its own into somebody's form.
"""

from __future__ import annotations

from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from endpoints.defining.drafts import Draft
from endpoints.errors import InvalidLQL
from endpoints.exploring.explored_endpoints import explored_draft
from endpoints.exploring.exploring import InvalidExploration
from endpoints.sql.parameters import DeclaredParameter

SOURCE: Final = "log_source"
EVERY_PROJECT: Final = "every_project"
LQL: Final = "lql"
_FIELDS: Final = ("sql", "tenant_parameter", "sandboxing", "default_sandbox_table")


class PrefilledAdmin(ModelAdmin):  # type: ignore[misc]
    """The add form takes over what was explored, its declared parameters included."""

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        # Not Django's own, which takes the fields' values from the address: a link could bring SQL along.
        try:
            draft = _explored_draft(request)
        except (InvalidExploration, InvalidLQL) as error:
            messages.warning(request, f"The form is empty, as what was explored cannot be saved. {error}")
            return {}
        if draft is None:
            return {}
        description = f"Rows of {draft.default_sandbox_table}, newest first."
        lql = request.GET.get(LQL, "").strip()
        if lql:
            description += f" Explored with the LQL: {lql}"
        return {"description": description, **{field: getattr(draft, field) for field in _FIELDS}}

    def get_inline_instances(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        instances: list[Any] = super().get_inline_instances(request, obj)
        draft = _explored(request) if obj is None else None
        if draft is not None:
            for instance in instances:
                instance.extra = len(draft.parameters)
        return instances

    def get_formset_kwargs(self, request: HttpRequest, obj: Any, inline: Any, prefix: str) -> dict[str, Any]:
        arguments: dict[str, Any] = super().get_formset_kwargs(request, obj, inline, prefix)
        draft = _explored(request)
        if draft is not None:
            arguments["initial"] = [_row(parameter) for parameter in draft.parameters]
        return arguments


def _explored(request: HttpRequest) -> Draft | None:
    """Return what to fill in, None also where that is impossible."""
    try:
        return _explored_draft(request)
    except (InvalidExploration, InvalidLQL):
        return None


def _explored_draft(request: HttpRequest) -> Draft | None:
    """Return what to fill in. Not into what comes back: a row that equals its initial values would not be saved.

    Raises InvalidExploration and InvalidLQL.
    """
    match = request.resolver_match
    is_new = match is not None and match.url_name == "endpoints_endpoint_add"
    if request.method != "GET" or not is_new or SOURCE not in request.GET:
        return None
    every_project, lql = EVERY_PROJECT in request.GET, request.GET.get(LQL, "")
    return explored_draft(request.GET[SOURCE], every_project=every_project, lql=lql)


def _row(parameter: DeclaredParameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "type": parameter.type.value,
        "required": parameter.required,
        "description": parameter.description,
    }
