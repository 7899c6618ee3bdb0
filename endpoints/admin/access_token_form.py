"""The form of an access token: for what it is, what it may call, and until when."""

from __future__ import annotations

from typing import Any

from django import forms

from endpoints.admin.checkbox_lists import CheckboxList
from endpoints.admin.fields import AssignmentsField
from endpoints.models import AccessToken, Endpoint


class AccessTokenForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable at run time
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

    class Meta:
        model = AccessToken
        fields = ("name", "every_endpoint", "endpoints", "bound_arguments", "may_purge", "may_load", "expires_at")
        help_texts = {"expires_at": "UTC; blank = never."}

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean() or {}
        if cleaned.get("every_endpoint") and cleaned.get("endpoints"):
            self.add_error("every_endpoint", "Clear this to limit the access token to the endpoints chosen below.")
        return cleaned
