"""Revoking access tokens in the admin: from the list or from a token's page, after a page that asks."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from unfold.admin import ModelAdmin
from unfold.decorators import action
from unfold.enums import ActionVariant

from endpoints.access.access_tokens import revoke_access_tokens
from endpoints.models import AccessToken

_CONFIRMED = "confirmed"


class RevokingAdmin(ModelAdmin):  # type: ignore[misc]
    """Revokes with permission to change access tokens; what is revoked stays so."""

    actions = ("revoke",)
    actions_detail = ("revoke_this",)

    @admin.action(description="Revoke the chosen access tokens", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[AccessToken]) -> HttpResponse | None:
        if _CONFIRMED not in request.POST:
            return self._ask(request, queryset, back=reverse("admin:endpoints_accesstoken_changelist"))
        self._revoke(request, queryset)
        return None

    @action(  # type: ignore[untyped-decorator]
        description="Revoke", url_path="revoke", permissions=["change"], icon="block", variant=ActionVariant.DANGER
    )
    def revoke_this(self, request: HttpRequest, object_id: str) -> HttpResponse:
        token = self.get_object(request, object_id)
        if token is None:
            raise Http404("There is no such access token.")
        page = reverse("admin:endpoints_accesstoken_change", args=[token.pk])
        chosen = AccessToken.objects.filter(pk=token.pk)
        if request.method != "POST":
            return self._ask(request, chosen, back=page)
        self._revoke(request, chosen)
        return HttpResponseRedirect(page)

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """Leave the button away where there is nothing to revoke."""
        buttons: list[Any] = super().get_actions_detail(request, object_id)
        token = self.get_object(request, str(object_id))
        return buttons if token is not None and token.revoked_at is None else []

    def _ask(self, request: HttpRequest, queryset: QuerySet[AccessToken], *, back: str) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": "Revoke access tokens",
            "opts": self.opts,
            "tokens": queryset.filter(revoked_at=None),
            "checkbox_name": ACTION_CHECKBOX_NAME,
            "confirmed_name": _CONFIRMED,
            "back": back,
        }
        return TemplateResponse(request, "endpoints/revoke_access_tokens.html", context)

    def _revoke(self, request: HttpRequest, queryset: QuerySet[AccessToken]) -> None:
        revoked = revoke_access_tokens(queryset)
        self.message_user(request, f"{revoked} revoked; calls with them are refused from now on.", messages.SUCCESS)
