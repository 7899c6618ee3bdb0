"""The form of an endpoint and its parameters, checked together on the log database before anything is saved."""

from __future__ import annotations

from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django_ace import AceWidget
from unfold.admin import StackedInline
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from endpoints.admin.fields import LinesField
from endpoints.defining.saving import check_endpoint
from endpoints.definition import BEFORE_QUERY, SETTINGS
from endpoints.models import Endpoint, Parameter
from endpoints.results.outcomes import Column
from endpoints.sql.parameters import DeclaredParameter
from logsources.edit_conflicts import ConflictForm, RowsByName

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
    """The endpoint as drafted. Its parameters' formset finds the form through the instance that both edit."""

    inline_rows = ("parameters",)

    class Meta:
        model = Endpoint
        fields = (*_BEFORE_QUERY, "sql", *(name for name in SETTINGS if name not in _BEFORE_QUERY))
        widgets = {"sql": SQLEditor(), "description": UnfoldAdminTextareaWidget(attrs={"rows": 2})}
        help_texts = {"name": "Its address: /api/endpoints/query/NAME. Letters, digits, dots, dashes, underscores."}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.instance.draft_form = self


class ParameterForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable at run time
    allowed_values = LinesField(help_text="One a line; blank = every value.")

    class Meta:
        model = Parameter
        fields = (
            "name", "type", "required", "default", "allowed_values", "minimum", "maximum", "pattern", "description",
        )  # fmt: skip
        widgets = {"default": UnfoldAdminTextInputWidget(), "description": UnfoldAdminTextInputWidget()}


class ParameterFormSet(RowsByName):
    """Checks SQL and declarations together: neither is right without the other."""

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
        """Tell whether form and formset may be saved: an error found here may belong to a field of the form."""
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
    verbose_name_plural = "parameters: what is not declared here is optional text"
    fields = (
        ("name", "type", "required", "default"),
        ("allowed_values", "pattern", "minimum", "maximum"),
        "description",
    )
