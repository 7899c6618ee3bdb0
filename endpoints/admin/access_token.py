"""Issue, limit and revoke access tokens; a secret is shown once, on the page that answers its creation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from unfold.decorators import display

from endpoints.admin.fields import AssignmentsField
from endpoints.admin.history import ReadableHistoryAdmin
from endpoints.generation import changing
from endpoints.models import AccessToken, Endpoint
from endpoints.services import endpoints_out_of_reach, new_access_token_secret, revoke_access_tokens

_ISSUED = "new_access_token_issued"  # name of a request attribute


class AccessTokenForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable at run time
    bound_arguments = AssignmentsField(
        help_text="One NAME=VALUE a line, such as project=acme: a call with another value is refused, a call without "
        "it gets this one, and endpoints without this parameter cannot be called.",
    )

    class Meta:
        model = AccessToken
        fields = ("name", "every_endpoint", "endpoints", "bound_arguments", "may_purge", "expires_at")
        help_texts = {"expires_at": "UTC; blank = never."}

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean() or {}
        if cleaned.get("every_endpoint") and cleaned.get("endpoints"):
            self.add_error("every_endpoint", "Clear this to limit the access token to the endpoints chosen below.")
        return cleaned


@admin.register(AccessToken)
class AccessTokenAdmin(ReadableHistoryAdmin):
    form = AccessTokenForm
    list_display = ("name", "prefix", "state", "reach", "bonds", "expires_at", "last_used_at")
    search_fields = ("name", "prefix")
    readonly_fields = ("prefix", "created_at", "last_used_at", "revoked_at", "reach", "bonds")
    actions = ("revoke",)
    autocomplete_fields = ("endpoints",)
    history_fields = {
        "name": "name",
        "every_endpoint": "endpoints",
        "endpoints": "endpoints",
        "bound_arguments": "bound arguments",
        "may_purge": "purging",
        "expires_at": "expiry",
        "revoked_at": "revocation",
    }
    fieldsets = (
        (None, {"fields": ("name", "expires_at")}),
        ("What it may do", {"fields": ("every_endpoint", "endpoints", "bound_arguments", "may_purge")}),
        ("Use", {"fields": (("prefix", "created_at"), ("last_used_at", "revoked_at"))}),
    )
    history_fieldsets = (
        (None, {"fields": ("name", "prefix", "reach", "bonds", "may_purge", "expires_at", "revoked_at")}),
    )

    @display(description="state", label={"valid": "success", "expired": "warning", "revoked": "danger"})  # type: ignore[untyped-decorator]
    def state(self, token: AccessToken) -> str:
        if token.revoked_at:
            return "revoked"
        return "valid" if token.is_valid else "expired"

    @admin.display(description="may call")
    def reach(self, token: AccessToken) -> str:
        if token.every_endpoint:
            return "every endpoint"
        return ", ".join(endpoint.name for endpoint in self._endpoints(token)) or "nothing"

    @admin.display(description="bound arguments")
    def bonds(self, token: AccessToken) -> str:
        return ", ".join(f"{name}={value}" for name, value in token.bound_arguments.items())

    def _endpoints(self, token: AccessToken) -> Iterable[Endpoint]:
        earlier = getattr(token, "_history", None)  # set by simple_history on a state of the past
        if earlier is None:
            return token.endpoints.all()
        return Endpoint.objects.filter(pk__in=earlier.endpoints.values_list("endpoint_id"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[AccessToken]:
        queryset: QuerySet[AccessToken] = super().get_queryset(request).prefetch_related("endpoints")
        return queryset

    def get_fieldsets(self, request: HttpRequest, obj: AccessToken | None = None) -> Any:
        if self.shows_history(request):
            return self.history_fieldsets
        return self.fieldsets if obj else self.fieldsets[:-1]

    def save_model(self, request: HttpRequest, obj: AccessToken, form: Any, change: bool) -> None:
        if not change:
            # Neither in the session nor in a message: both are stored.
            setattr(request, _ISSUED, new_access_token_secret(obj))
        with changing():  # until the end of the admin's transaction, which has the chosen endpoints in it
            super().save_model(request, obj, form, change)

    def delete_model(self, request: HttpRequest, obj: AccessToken) -> None:
        with changing():
            super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[AccessToken]) -> None:
        with changing():
            super().delete_queryset(request, queryset)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        for endpoint, name in endpoints_out_of_reach(form.instance):
            self.message_user(
                request, f"{endpoint} has no parameter @{name}: this access token cannot call it.", messages.WARNING
            )

    def response_add(
        self, request: HttpRequest, obj: AccessToken, post_url_continue: str | None = None
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": f"Access token {obj.name}",
            "opts": self.opts,
            "access_token": obj,
            "secret": getattr(request, _ISSUED),
            "reach": self.reach(obj),
            "example_url": self._example_url(request, obj),
        }
        return TemplateResponse(request, "endpoints/access_token_secret.html", context)

    def _example_url(self, request: HttpRequest, token: AccessToken) -> str:
        chosen = Endpoint.objects.all() if token.every_endpoint else token.endpoints.all()
        endpoint = chosen.first()
        return request.build_absolute_uri(reverse("query", args=[endpoint.name])) if endpoint else ""

    @admin.action(description="Revoke the chosen access tokens", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[AccessToken]) -> None:
        revoked = revoke_access_tokens(queryset)
        self.message_user(request, f"{revoked} revoked; calls with them are refused from now on.", messages.SUCCESS)
