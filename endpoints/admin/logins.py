"""Logins to the admin under limits, the pages of refused logins, and the failed logins for those who may lift them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import ceil
from typing import Any

import structlog
from axes.models import AccessAttempt
from axes.utils import reset
from django.conf import settings
from django.contrib import admin, messages
from django.core.validators import MaxLengthValidator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from django.template.loader import render_to_string
from django.utils import timezone
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.forms import AuthenticationForm

from endpoints.access.logins import (
    PASSWORD_TURNS,
    PasswordsBusy,
    client_address,
    locked_out_until,
    seconds_until_login,
)
from endpoints.admin.draft_json import Json
from endpoints.admin.json_views import Refusal
from endpoints.admin.middleware import LOGIN

logger = structlog.get_logger(__name__)


class LoginForm(AuthenticationForm):  # type: ignore[misc]  # unfold ships no types
    """Unfold's, for names that can be looked up."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Django limits the name only in the browser; a longer one would be looked up, and fail where it is counted.
        name = self.fields["username"]
        name.validators.append(MaxLengthValidator(name.max_length))

    @property
    def single_sign_on(self) -> dict[str, Any] | None:
        """What the page needs for "Log in with …"; None without a provider."""
        return {"name": settings.OIDC_NAME, "only": settings.OIDC_ONLY} if settings.OIDC_ISSUER else None


# Not by unfold's setting, which imports the form, and with it every page of the admin, before there is a site.
admin.site.login_form = LoginForm
admin.site.login_template = "endpoints/login.html"
admin.site.logout_template = "endpoints/logged_out.html"


def own_session(request: HttpRequest) -> Json:
    """Return who is logged in: an open page asks for it, so that no form is sent when its session is over."""
    if not admin.site.has_permission(request):
        raise Refusal(401, "not_logged_in", "Your session is over. Log in again in another tab.")
    return {"username": request.user.get_username()}


class PasswordsBusyMiddleware:
    """Answers 429 to an address with too many logins, 503 if a password could not be checked at a login or was not set.

    A login is checked in a turn of the process, its page included: logins that come at once all count, a flood of
    them is refused before anything is done for it, and callers wait for one page at most.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method != "POST" or request.path_info != LOGIN:
            return self._get_response(request)
        if seconds := seconds_until_login(request):
            return _refusal("endpoints/locked_out.html", 429, seconds, of_address=True)
        with suppress(UnreadablePostError):  # Django answers it
            request.POST.keys()  # reads the body: a turn waits for no client
        try:
            with PASSWORD_TURNS.turn():
                return self._get_response(request)
        except PasswordsBusy:
            return _busy()

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        return _busy() if isinstance(exception, PasswordsBusy) else None


def _busy() -> HttpResponse:
    logger.warning("passwords_busy")
    return _refusal("endpoints/passwords_busy.html", 503, PasswordsBusy.retry_after_seconds)


def locked_out_page(
    request: HttpRequest, _original: HttpResponse | None, credentials: dict[str, Any] | None
) -> HttpResponse:
    """Return the page of a login that is locked out (AXES_LOCKOUT_CALLABLE): until when, and who may lift it."""
    until = locked_out_until(str((credentials or {}).get("username")), client_address(request))
    seconds = ceil((until - timezone.now()).total_seconds()) if until else 0  # 0: it has just ended
    logger.warning("login_locked_out")  # without the name, which may be a password in the wrong field
    return _refusal("endpoints/locked_out.html", 429, max(1, seconds), of_address=False)


def _refusal(template: str, status: int, retry_after_seconds: int, **words: Any) -> HttpResponse:
    """Return a page made without the request, and so without its session and the database."""
    context = {"minutes": -(-retry_after_seconds // 60), "seconds": retry_after_seconds, **words}
    response = HttpResponse(render_to_string(template, context), status=status)
    response["Retry-After"] = str(retry_after_seconds)
    response["Cache-Control"] = "no-store"
    return response


_COLOURS = {"locked out": "danger", "counted": "info", "forgotten soon": "success"}


@admin.register(AccessAttempt)
class FailedLoginAdmin(ModelAdmin):  # type: ignore[misc]  # unfold ships no types
    """Who has failed to log in, from where, and whether it is locked out; lifting it is deleting the count."""

    list_display = ("user_name", "address", "failures", "last_failure", "state")
    list_display_links = None
    search_fields = ("username", "ip_address")
    ordering = ("-attempt_time",)
    actions = ("lift",)
    fields = ("user_name", "address", "failures", "last_failure", "state")
    readonly_fields = fields
    list_per_page = 50  # the state of each is looked up

    @admin.display(description="user name", ordering="username")
    def user_name(self, attempt: AccessAttempt) -> str:
        return str(attempt.username)

    @admin.display(description="from", ordering="ip_address")
    def address(self, attempt: AccessAttempt) -> str:
        return f"{attempt.ip_address}/64" if ":" in attempt.ip_address else str(attempt.ip_address)

    @admin.display(description="failures", ordering="failures_since_start")
    def failures(self, attempt: AccessAttempt) -> int:
        return int(attempt.failures_since_start)

    @admin.display(description="last failure", ordering="attempt_time")
    def last_failure(self, attempt: AccessAttempt) -> Any:
        return attempt.attempt_time

    @display(description="state", label=_COLOURS)  # type: ignore[untyped-decorator]
    def state(self, attempt: AccessAttempt) -> tuple[str, str]:
        if until := locked_out_until(attempt.username, attempt.ip_address):
            return "locked out", f"locked out, until {until:%H:%M:%S} UTC"
        is_old = timezone.now() - attempt.attempt_time > settings.AXES_COOLOFF_TIME
        return ("forgotten soon", "no longer counts") if is_old else ("counted", "counted")

    @admin.action(description="Lift the lock-out and clear the failures", permissions=["delete"])
    def lift(self, request: HttpRequest, queryset: QuerySet[AccessAttempt]) -> None:
        rows = sum(reset(ip=attempt.ip_address, username=attempt.username) for attempt in queryset)
        self.message_user(request, f"{rows} cleared; failures count from zero again.", messages.SUCCESS)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        actions: dict[str, Any] = super().get_actions(request)
        actions.pop("delete_selected", None)  # it does the same, with a less clear name
        return actions

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        context = {"title": "Failed logins", **(extra_context or {})}
        response: HttpResponse = super().changelist_view(request, context)
        return response

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
