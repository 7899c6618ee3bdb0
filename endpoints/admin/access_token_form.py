"""The form of an access token: for what it is, what it may call, and until when."""

from __future__ import annotations

from typing import Any

from django import forms

from endpoints.access.secrets import OwnLimits
from endpoints.access.token_limits import limits_in_force
from endpoints.admin.checkbox_lists import CheckboxList
from endpoints.admin.fields import AssignmentsField, LimitField
from endpoints.models import AccessToken, Endpoint
from logsources.edit_conflicts import ConflictForm


class AccessTokenForm(ConflictForm):
    endpoints = forms.ModelMultipleChoiceField(
        queryset=Endpoint.objects.all(),
        required=False,
        widget=CheckboxList,
        help_text="The endpoints it may call, where it may not call every one.",
    )
    bound_arguments = AssignmentsField(
        help_text="One NAME=VALUE a line, such as project=acme: a call with another value is refused, a call without "
        "it gets this one, and endpoints without this parameter cannot be called.",
    )
    calls_a_minute = LimitField(help_text="Calls of every kind, cached ones too. A number, or none; blank = default.")
    calls_at_once = LimitField(
        label="Calls at the same time", help_text="Of those that the cache cannot answer. A number, or none."
    )
    sandbox_queries_at_once = LimitField(
        label="Sandbox queries at the same time", help_text="Of the calls with sql or lql. A number, or none."
    )

    class Meta:
        model = AccessToken
        fields = (
            "name", "every_endpoint", "endpoints", "bound_arguments", "may_purge", "may_load",
            "calls_a_minute", "calls_at_once", "sandbox_queries_at_once", "expires_at",
        )  # fmt: skip
        help_texts = {"expires_at": "UTC; blank = never."}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        default = limits_in_force(OwnLimits())
        shown = {
            "calls_a_minute": str(default.calls) if default.calls else None,
            "calls_at_once": default.calls_at_once,
            "sandbox_queries_at_once": default.sandbox_queries_at_once,
        }
        for name, value in shown.items():
            field = self.fields.get(name)
            if isinstance(field, LimitField):  # not on a page that only shows it
                field.show_default(value)

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean() or {}
        if cleaned.get("every_endpoint") and cleaned.get("endpoints"):
            self.add_error("every_endpoint", "Clear this to limit the access token to the endpoints chosen below.")
        return cleaned
