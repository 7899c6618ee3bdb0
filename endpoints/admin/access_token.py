"""Issue, limit and revoke access tokens; a secret is shown once, right after it was made."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from unfold.admin import ModelAdmin

from endpoints.models import AccessToken
from endpoints.services import new_access_token_secret


class AccessTokenForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = AccessToken
        fields = ("name", "every_endpoint", "endpoints", "bound_arguments", "expires_at")


@admin.register(AccessToken)
class AccessTokenAdmin(ModelAdmin):  # type: ignore[misc]
    form = AccessTokenForm
    list_display = ("name", "prefix", "state", "reach", "bound_arguments", "expires_at", "last_used_at")
    search_fields = ("name", "prefix")
    filter_horizontal = ("endpoints",)
    readonly_fields = ("prefix", "created_at", "last_used_at", "revoked_at")
    actions = ("revoke",)
    fieldsets = (
        (None, {"fields": ("name", "expires_at")}),
        ("What it may do", {"fields": ("every_endpoint", "endpoints", "bound_arguments")}),
        ("Use", {"fields": ("prefix", "created_at", "last_used_at", "revoked_at")}),
    )

    @admin.display(description="state")
    def state(self, token: AccessToken) -> str:
        if token.revoked_at:
            return "revoked"
        return "valid" if token.is_valid else "expired"

    @admin.display(description="may call")
    def reach(self, token: AccessToken) -> str:
        if token.every_endpoint:
            return "every endpoint"
        return ", ".join(endpoint.name for endpoint in token.endpoints.all()) or "nothing"

    def get_queryset(self, request: HttpRequest) -> QuerySet[AccessToken]:
        queryset: QuerySet[AccessToken] = super().get_queryset(request).prefetch_related("endpoints")
        return queryset

    def save_model(self, request: HttpRequest, obj: AccessToken, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        secret = new_access_token_secret(obj)
        super().save_model(request, obj, form, change)
        self.message_user(
            request,
            format_html("The secret of {}, shown this once: <code>{}</code>", obj.name, secret),
            messages.WARNING,
        )

    @admin.action(description="Revoke the chosen access tokens", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[AccessToken]) -> None:
        revoked = 0
        for token in queryset.filter(revoked_at=None):
            token.revoked_at = timezone.now()
            token.save(update_fields=["revoked_at"])
            revoked += 1
        self.message_user(request, f"{revoked} revoked; calls with them are refused from now on.", messages.SUCCESS)
