"""Issue, limit and revoke access tokens; a secret is shown once, on the page that follows its creation."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from unfold.admin import ModelAdmin
from unfold.decorators import action, display
from unfold.enums import ActionVariant

from endpoints.access.access_tokens import (
    endpoints_out_of_reach,
    new_access_token_secret,
    revoke_access_tokens,
)
from endpoints.access.change_marker import changing
from endpoints.access.secrets import OwnLimits
from endpoints.access.token_states import (
    TokenState,
    state_of,
    words_of_bonds,
    words_of_endpoints,
    words_of_further_rights,
    words_of_reach,
)
from endpoints.admin.access_token_fields import StateFilter, words_of_own_limits, words_of_state, words_of_use
from endpoints.admin.access_token_form import AccessTokenForm
from endpoints.admin.call_examples import example_arguments
from endpoints.admin.edit_conflicts import ConflictAdmin
from endpoints.admin.history import ReadableHistoryAdmin
from endpoints.admin.shown_once import SecretPageAdmin
from endpoints.calling.installation import ago
from endpoints.models import AccessToken, Endpoint

# --- Revoking ---------------------------------------------------------------------------------------------------------
_CONFIRMED = "confirmed"


class RevokingAdmin(ModelAdmin):  # type: ignore[misc]
    """Revokes with permission to change access tokens; a revoked token stays revoked."""

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
        """Leave the button out if there is nothing to revoke."""
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


# --- Access token -----------------------------------------------------------------------------------------------------
_ISSUED = "new_access_token_issued"  # name of a request attribute
_COLOURS = {
    TokenState.VALID.value: "success",
    TokenState.EXPIRES_SOON.value: "warning",
    TokenState.EXPIRED.value: "danger",
    TokenState.REVOKED.value: "danger",
}


@admin.register(AccessToken)
class AccessTokenAdmin(ConflictAdmin, RevokingAdmin, SecretPageAdmin, ReadableHistoryAdmin):
    form = AccessTokenForm
    shown_once_template = "endpoints/access_token_secret.html"
    list_display = ("name", "prefix", "state", "reach", "bonds", "may_load", "expiry", "last_use")
    list_filter = (StateFilter,)
    search_fields = ("name", "prefix")
    readonly_fields = (
        "prefix", "created_at", "last_used_at", "revoked_at", "state_in_words", "reach", "bonds", "origins", "expiry",
        "last_use", "own_limits", "use_of_limits",
    )  # fmt: skip
    # The bound arguments may name customers: shown only to those who may change them.
    seen_by_viewers = ("name", "state", "expiry", "last_use")
    history_fields = {
        "name": "name",
        "every_endpoint": "endpoints",
        "endpoints": "endpoints",
        "bound_arguments": "bound arguments",
        "may_purge": "purging",
        "may_load": "loading",
        "load_sources": "log sources",
        "default_project": "default project",
        "may_issue": "issuing",
        "allowed_origins": "allowed origins",
        "calls_a_minute": "calls a minute",
        "calls_at_once": "calls at the same time",
        "sandbox_queries_at_once": "sandbox queries at the same time",
        "expires_at": "expiry",
        "revoked_at": "revocation",
    }
    fieldsets = (
        (None, {"fields": ("name", "expires", "expires_at", "state_in_words")}),
        ("What it may do", {"fields": ("every_endpoint", "endpoints", "bound_arguments", "may_purge")}),
        ("Browser tokens", {"fields": ("may_issue", "allowed_origins")}),
        ("Loading", {"fields": ("may_load", "load_sources", "default_project")}),
        ("Limits", {"fields": ("calls_a_minute", ("calls_at_once", "sandbox_queries_at_once"), "use_of_limits")}),
        ("Use", {"fields": (("prefix", "created_at"), ("last_use", "revoked_at"))}),
    )
    fieldsets_of_new = (
        (None, {"fields": ("name", "expires", "expires_at")}),
        *fieldsets[1:4],
        ("Limits", {"fields": ("calls_a_minute", ("calls_at_once", "sandbox_queries_at_once"))}),
    )
    history_fieldsets = (
        (None, {"fields": (
            "name", "prefix", "reach", "bonds", "may_purge", "may_issue", "origins", "may_load", "load_sources",
            "default_project", "own_limits", "expires_at", "revoked_at",
        )}),
    )  # fmt: skip

    @display(description="state", label=_COLOURS)  # type: ignore[untyped-decorator]
    def state(self, token: AccessToken) -> tuple[str, str]:
        now = timezone.now()
        return state_of(token, now=now).value, words_of_state(token, now=now)

    @admin.display(description="state")
    def state_in_words(self, token: AccessToken) -> str:
        return words_of_state(token, now=timezone.now())

    @admin.display(description="expires", ordering="expires_at", empty_value="never")
    def expiry(self, token: AccessToken) -> datetime | None:
        return token.expires_at

    @admin.display(description="last used", ordering="last_used_at")
    def last_use(self, token: AccessToken) -> str:
        if token.last_used_at is None:
            return "never"
        return f"{ago((timezone.now() - token.last_used_at).total_seconds())} ago"

    @admin.display(description="may call")
    def reach(self, token: AccessToken) -> str:
        earlier = getattr(token, "_history", None)  # set by simple_history on a state of the past
        if earlier is None or token.every_endpoint:
            return words_of_reach(token)
        return words_of_endpoints(Endpoint.objects.filter(pk__in=earlier.endpoints.values_list("endpoint_id")))

    @admin.display(description="own limits", empty_value="none but the defaults")
    def own_limits(self, token: AccessToken) -> str | None:
        return words_of_own_limits(OwnLimits.of(token)) or None

    @admin.display(description="in use now")
    def use_of_limits(self, token: AccessToken) -> str:
        return words_of_use(token)

    @admin.display(description="allowed origins", empty_value="none")
    def origins(self, token: AccessToken) -> str | None:
        return ", ".join(token.allowed_origins) or None

    @admin.display(description="bound arguments")
    def bonds(self, token: AccessToken) -> str:
        return words_of_bonds(token)

    def get_queryset(self, request: HttpRequest) -> QuerySet[AccessToken]:
        queryset: QuerySet[AccessToken] = super().get_queryset(request).prefetch_related("endpoints")
        return queryset

    def get_list_display(self, request: HttpRequest) -> Any:
        return self.list_display if self.has_change_permission(request) else self.seen_by_viewers

    def get_fieldsets(self, request: HttpRequest, obj: AccessToken | None = None) -> Any:
        if not self.has_change_permission(request, obj) and not (obj is None and self.has_add_permission(request)):
            return ((None, {"fields": ("name", "state_in_words", "expiry", "last_use")}),)
        if self.shows_history(request):
            return self.history_fieldsets
        return self.fieldsets if obj else self.fieldsets_of_new

    def save_model(self, request: HttpRequest, obj: AccessToken, form: Any, change: bool) -> None:
        if not change:
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
        return self.lead_to_secret(request, obj, getattr(request, _ISSUED))

    def secret_context(self, request: HttpRequest, row: AccessToken) -> dict[str, Any]:
        return {
            "title": f"Access token {row.name}",
            "reach": words_of_reach(row),
            "bonds": words_of_bonds(row),
            "rights": words_of_further_rights(row),
            "example_url": self._example_url(request, row),
        }

    def _example_url(self, request: HttpRequest, token: AccessToken) -> str:
        chosen = Endpoint.objects.all() if token.every_endpoint else token.endpoints.all()
        endpoint = chosen.first()
        if endpoint is None:
            return ""
        address = request.build_absolute_uri(reverse("query", args=[endpoint.name]))
        query = urlencode(_needed_arguments(endpoint, token), doseq=True)
        return f"{address}?{query}" if query else address


def _needed_arguments(endpoint: Endpoint, token: AccessToken) -> dict[str, Any]:
    """Return an example of each argument that a call with this access token must send."""
    parameters = endpoint.parameters_of_version
    needed = {one.name for one in parameters if one.required and one.default is None} - token.bound_arguments.keys()
    examples = example_arguments(parameters, now=timezone.now())
    return {name: value for name, value in examples.items() if name in needed}
