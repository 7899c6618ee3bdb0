"""Make, rotate and revoke the keys that sign browser tokens. No page ever shows a secret: only the service uses it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import action, display
from unfold.enums import ActionVariant

from endpoints.access.browser_tokens import LONGEST_SECONDS
from endpoints.access.change_marker import changing
from endpoints.access.signing_keys import give_secret, revoke_signing_keys, rotate_signing_key
from endpoints.admin.edit_conflicts import ConflictAdmin, ConflictForm
from endpoints.admin.fields import LinesField
from endpoints.admin.history import ReadableHistoryAdmin
from endpoints.models import SigningKey

_COLOURS = {"current": "success", "retiring": "warning", "retired": "", "revoked": "danger"}
_LONGEST = timedelta(seconds=LONGEST_SECONDS)


def state_of(key: SigningKey) -> str:
    """Return current, retiring (what it has signed may still be valid), retired or revoked."""
    if key.revoked_at is not None:
        return "revoked"
    if key.retired_at is None:
        return "current"
    return "retiring" if timezone.now() < key.retired_at + _LONGEST else "retired"


class SigningKeyForm(ConflictForm):
    allowed_origins = LinesField(
        help_text="One origin per line, such as https://app.example.org: the pages that may call with tokens of this "
        "key. None: no page of another origin."
    )

    class Meta:
        model = SigningKey
        fields = ("name", "algorithm", "allowed_origins")


@admin.register(SigningKey)
class SigningKeyAdmin(ConflictAdmin, ReadableHistoryAdmin):
    form = SigningKeyForm
    list_display = ("name", "kid", "state", "algorithm", "origins", "created_at")
    search_fields = ("name", "kid")
    readonly_fields = ("kid", "state_in_words", "public_part", "created_at", "retired_at", "revoked_at")
    actions_detail = ("rotate_this", "revoke_this")
    history_fields = {
        "allowed_origins": "allowed origins",
        "retired_at": "rotation",
        "revoked_at": "revocation",
    }
    fieldsets = (
        (None, {"fields": ("name", "state_in_words", "allowed_origins")}),
        ("Key", {"fields": (("kid", "algorithm"), "public_part")}),
        ("Life", {"fields": (("created_at", "retired_at", "revoked_at"),)}),
    )
    history_fieldsets = ((None, {"fields": ("name", "kid", "algorithm", "origins", "retired_at", "revoked_at")}),)

    class Media:
        css = {"all": ["endpoints/access-token.css"]}

    @display(description="state", label=_COLOURS)  # type: ignore[untyped-decorator]
    def state(self, key: SigningKey) -> str:
        return state_of(key)

    @admin.display(description="state")
    def state_in_words(self, key: SigningKey) -> str:
        state = state_of(key)
        if state != "retiring" or key.retired_at is None:
            return state
        return f"retiring: signs nothing more; its last tokens end by {key.retired_at + _LONGEST:%Y-%m-%d %H:%M} UTC"

    @admin.display(description="allowed origins", empty_value="none")
    def origins(self, key: SigningKey) -> str | None:
        return ", ".join(key.allowed_origins) or None

    @admin.display(description="public key")
    def public_part(self, key: SigningKey) -> SafeString | str:
        if not key.public_key:
            return "none: HS256 has only a secret"
        return format_html('<div class="shown-once"><pre>{}</pre></div>', key.public_key.strip())

    def get_fieldsets(self, request: HttpRequest, obj: SigningKey | None = None) -> Any:
        if self.shows_history(request):
            return self.history_fieldsets
        return self.fieldsets if obj else ((None, {"fields": ("name", "algorithm", "allowed_origins")}),)

    def get_readonly_fields(self, request: HttpRequest, obj: SigningKey | None = None) -> tuple[str, ...]:
        if self.shows_history(request):
            return (*super().get_readonly_fields(request, obj), "origins")
        # Issuers call a key by its name, and its secret was made for its algorithm.
        return (*self.readonly_fields, "name", "algorithm") if obj else self.readonly_fields

    def has_delete_permission(self, request: HttpRequest, obj: SigningKey | None = None) -> bool:
        """Keep every key: a revoked one does the same, and its history stays readable."""
        return False

    def save_model(self, request: HttpRequest, obj: SigningKey, form: Any, change: bool) -> None:
        if not change:
            give_secret(obj)
        with changing():  # until the end of the admin's transaction
            super().save_model(request, obj, form, change)

    # --- Rotating and revoking ----------------------------------------------------------------------------------------
    @action(description="Rotate", url_path="rotate", permissions=["change"], icon="sync")  # type: ignore[untyped-decorator]
    def rotate_this(self, request: HttpRequest, object_id: str) -> HttpResponse:
        key = self._key(request, object_id)
        if request.method != "POST":
            return self._ask(request, key, verb="Rotate")
        try:
            new = rotate_signing_key(key)
        except ValidationError as error:
            self.message_user(request, " ".join(error.messages), messages.ERROR)
            return HttpResponseRedirect(_page(key))
        self.log_change(request, key, f"Rotated; {new.kid} signs from now on.")
        self.message_user(request, f"{new.name} has a new key, {new.kid}, which signs from now on.", messages.SUCCESS)
        return HttpResponseRedirect(_page(new))

    @action(  # type: ignore[untyped-decorator]
        description="Revoke", url_path="revoke", permissions=["change"], icon="block", variant=ActionVariant.DANGER
    )
    def revoke_this(self, request: HttpRequest, object_id: str) -> HttpResponse:
        key = self._key(request, object_id)
        if request.method != "POST":
            return self._ask(request, key, verb="Revoke")
        if revoke_signing_keys(SigningKey.objects.filter(pk=key.pk)):
            self.log_change(request, key, "Revoked.")
        self.message_user(request, "Revoked; calls with its tokens are refused from now on.", messages.SUCCESS)
        return HttpResponseRedirect(_page(key))

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """Leave out the buttons that would do nothing."""
        buttons: list[Any] = super().get_actions_detail(request, object_id)
        key = self.get_object(request, str(object_id))
        state = "revoked" if key is None else state_of(key)
        useful = {"current": ("rotate_this", "revoke_this"), "revoked": ()}.get(state, ("revoke_this",))
        return [button for button in buttons if button.action_name.endswith(useful)]

    def _key(self, request: HttpRequest, object_id: str) -> SigningKey:
        key: SigningKey | None = self.get_object(request, object_id)
        if key is None:
            raise Http404("There is no such signing key.")
        return key

    def _ask(self, request: HttpRequest, key: SigningKey, *, verb: str) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": f"{verb} a signing key",
            "opts": self.opts,
            "key": key,
            "state": state_of(key),
            "verb": verb,
            "back": _page(key),
        }
        return TemplateResponse(request, "endpoints/signing_key_question.html", context)


def _page(key: SigningKey) -> str:
    return reverse("admin:endpoints_signingkey_change", args=[key.pk])
