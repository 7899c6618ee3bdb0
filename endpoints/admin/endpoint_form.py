"""The form of an endpoint and its parameters, checked together on the log database before anything is saved."""

from __future__ import annotations

from typing import Any, Final

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django_ace import AceWidget
from unfold.admin import ModelAdmin, StackedInline
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from endpoints.admin.edit_conflicts import ConflictForm, RowsByName
from endpoints.admin.fields import LinesField
from endpoints.defining.drafts import Draft
from endpoints.defining.saving import check_endpoint
from endpoints.definition import BEFORE_QUERY, SETTINGS
from endpoints.errors import InvalidLQL
from endpoints.exploring.explored_endpoints import explored_draft
from endpoints.exploring.exploring import InvalidExploration
from endpoints.models import Endpoint, Parameter
from endpoints.results.outcomes import Column
from endpoints.sql.parameters import DeclaredParameter

_BEFORE_QUERY: Final = tuple(name for name, setting in SETTINGS.items() if setting.section == BEFORE_QUERY)


class SQLEditor(AceWidget):  # type: ignore[misc]
    """Ace, from the service's own static files, sized and coloured by style sheets alone."""

    def __init__(self) -> None:
        super().__init__(
            mode="pgsql",
            theme="tomorrow",
            width=None,
            height=None,
            tabsize=2,
            showprintmargin=False,
            toolbar=False,
            useworker=False,
            basicautocompletion=True,
            liveautocompletion=True,
            useStrictCSP=True,
            attrs={"aria-label": "SQL", "rows": 16, "spellcheck": "false"},
        )

    @property
    def media(self) -> forms.Media:
        dark = forms.Media(
            js=["django_ace/ace/theme-tomorrow_night.js"],
            css={"screen": ["django_ace/ace/css/theme/tomorrow_night.css"]},
        )
        media: forms.Media = super().media + dark
        return media


class EndpointForm(ConflictForm):
    """The endpoint as drafted. The formset of its parameters finds the form through the instance that both edit."""

    inline_rows = ("parameters",)

    class Meta:
        model = Endpoint
        fields = (*_BEFORE_QUERY, "sql", *(name for name in SETTINGS if name not in _BEFORE_QUERY))
        widgets = {"sql": SQLEditor(), "description": UnfoldAdminTextareaWidget(attrs={"rows": 2})}
        help_texts = {
            "name": "Its address: /api/endpoints/query/NAME. Letters, digits, dots, dashes, underscores.",
            "sandboxing": "Consumers may then send their own SELECT. It can read every row and column of every CTE, "
            "also what the final SELECT leaves out, and nothing else. The query must begin with WITH.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.instance.draft_form = self


class ParameterForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable at run time
    allowed_values = LinesField(help_text="One per line; blank = every value.")

    class Meta:
        model = Parameter
        fields = (
            "name", "type", "required", "default", "allowed_values", "minimum", "maximum", "pattern", "description",
        )  # fmt: skip
        widgets = {"default": UnfoldAdminTextInputWidget(), "description": UnfoldAdminTextInputWidget()}


class ParameterFormSet(RowsByName):
    """Checks SQL and declarations together: each is right only together with the other."""

    instance: Endpoint
    checked_columns: tuple[Column, ...] = ()

    def clean(self) -> None:
        super().clean()
        if any(self.errors) or self._endpoint_form.errors:
            return
        try:
            self.checked_columns = check_endpoint(self.instance, self.declared_parameters())
        except ValidationError as error:
            elsewhere = []
            for field, faults in error.message_dict.items():
                if field in self._endpoint_form.fields:
                    self._endpoint_form.add_error(field, faults)
                else:
                    elsewhere += faults
            if elsewhere:
                raise ValidationError(elsewhere) from error

    def is_valid(self) -> bool:
        """Return whether form and formset may be saved: an error found here may belong to a field of the form."""
        return super().is_valid() and not self._endpoint_form.errors

    def declared_parameters(self) -> list[DeclaredParameter]:
        """Return the declarations as typed, without the rows marked for deletion."""
        return [
            form.instance.declared()
            for form in self.forms
            if form.cleaned_data.get("name") and not form.cleaned_data.get("DELETE")
        ]

    @property
    def _endpoint_form(self) -> EndpointForm:
        form: EndpointForm = self.instance.draft_form  # type: ignore[attr-defined]
        return form


class ParameterInline(StackedInline):  # type: ignore[misc]
    model = Parameter
    form = ParameterForm
    formset = ParameterFormSet
    extra = 0
    verbose_name_plural = "parameters: a parameter that is not declared here is optional text"
    fields = (
        ("name", "type", "required", "default"),
        ("allowed_values", "pattern", "minimum", "maximum"),
        "description",
    )


# --- Prefilling -------------------------------------------------------------------------------------------------------
# The form of a new endpoint, filled in from the log explorer.
#
# ``add/?log_source=edge_logs&every_project=1&lql=m.level:error`` describes the exploration; the SQL is made here, so
# that no link can put SQL of its own into somebody's form.
SOURCE: Final = "log_source"
EVERY_PROJECT: Final = "every_project"
LQL: Final = "lql"
_FIELDS: Final = ("sql", "tenant_parameter", "sandboxing", "default_sandbox_table")


class PrefilledAdmin(ModelAdmin):  # type: ignore[misc]
    """Fills the add form from an exploration, with its declared parameters."""

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        # Not Django's own, which takes the fields' values from the address: a link could bring SQL along.
        try:
            draft = _explored_draft(request)
        except (InvalidExploration, InvalidLQL) as error:
            messages.warning(request, f"The form is empty, because the explored query cannot be saved. {error}")
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
    """Return what to fill in, None if there is nothing or that is impossible."""
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
