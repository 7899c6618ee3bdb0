"""Make alerts, send test messages, replace secrets; a secret is shown once, on the page that follows its making."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from unfold.decorators import action, display
from unfold.widgets import UnfoldAdminTextareaWidget

from endpoints.access.sealing import SealBroken
from endpoints.admin import figures
from endpoints.admin.edit_conflicts import ConflictAdmin, ConflictForm
from endpoints.admin.shown_once import SecretPageAdmin
from endpoints.alerting.messages import give_secret, move_secret, send_test
from endpoints.alerting.webhooks import WebhookRefused, check_host, read_target
from endpoints.models import Alert, AlertCondition, AlertMessage

_COLOURS: Final = {"firing": "danger", "quiet": "success", "not checked": "warning", "off": ""}
_SECRET: Final = "alert_secret"  # noqa: S105  # name of a request attribute
_MESSAGES_SHOWN: Final = 20
_UNITS: Final = {
    AlertCondition.FAILED_SHARE: "% of calls failed",
    AlertCondition.FAILED_COUNT: "calls failed",
    AlertCondition.REFUSED_COUNT: "calls refused",
}


def state_of(alert: Alert) -> str:
    """Return off, not checked (it could not be, or has not been yet), firing or quiet."""
    if not alert.enabled:
        return "off"
    if alert.problem or alert.evaluated_at is None:
        return "not checked"
    return "firing" if alert.is_firing else "quiet"


class AlertForm(ConflictForm):
    class Meta:
        model = Alert
        fields = (
            "name", "enabled", "endpoint", "condition", "threshold", "minutes", "minimum_calls", "column",
            "fires_below", "arguments", "webhook_url", "remind_minutes",
        )  # fmt: skip
        widgets = {"arguments": UnfoldAdminTextareaWidget(attrs={"rows": 3})}

    def clean_webhook_url(self) -> str:
        url: str = self.cleaned_data["webhook_url"]
        try:
            check_host(read_target(url))
        except WebhookRefused as error:
            raise ValidationError(str(error)) from error
        return url


@admin.register(Alert)
class AlertAdmin(ConflictAdmin, SecretPageAdmin):
    form = AlertForm
    shown_once_template = "endpoints/alert_secret.html"
    list_display = ("name", "state", "condition_in_words", "of_endpoint", "value", "changed_at")
    list_filter = ("enabled", "is_firing")
    list_select_related = ("endpoint",)
    search_fields = ("name",)
    actions_detail = ("test_this", "new_secret")
    readonly_fields = ("state_in_words", "value", "changed_at", "evaluated_at", "sent")
    fieldsets = (
        (None, {"fields": (("name", "enabled"), "endpoint", "condition", "threshold")}),
        ("Over calls", {"fields": (("minutes", "minimum_calls"),)}),
        ("Over a value in the result", {"fields": (("column", "fires_below"), "arguments")}),
        ("Message", {"fields": ("webhook_url", "remind_minutes")}),
    )
    state_fieldset = (
        "State",
        {"fields": ("state_in_words", ("value", "changed_at", "evaluated_at"), "sent")},
    )

    def get_fieldsets(self, request: HttpRequest, obj: Alert | None = None) -> Any:
        return (*self.fieldsets, self.state_fieldset) if obj else self.fieldsets

    @display(description="state", label=_COLOURS)  # type: ignore[untyped-decorator]
    def state(self, alert: Alert) -> str:
        return state_of(alert)

    @admin.display(description="state")
    def state_in_words(self, alert: Alert) -> str:
        state = state_of(alert)
        if not alert.enabled:
            return "off: it is not checked"
        if alert.evaluated_at is None:
            return "not checked yet: the worker and beat check it within a minute"
        return f"{state}: {alert.problem}" if alert.problem else state

    @admin.display(description="fires when")
    def condition_in_words(self, alert: Alert) -> str:
        if alert.condition == AlertCondition.VALUE:
            return f"{alert.column} is {'below' if alert.fires_below else 'above'} {alert.threshold:g}"
        unit = _UNITS[AlertCondition(alert.condition)]
        return f"more than {alert.threshold:g} {unit} in {alert.minutes} min"

    @admin.display(description="endpoint")
    def of_endpoint(self, alert: Alert) -> str:
        return alert.endpoint.name if alert.endpoint else "every endpoint"

    @admin.display(description="last value", empty_value=figures.UNKNOWN)
    def value(self, alert: Alert) -> str | None:
        return None if alert.last_value is None else f"{alert.last_value:g}"

    @admin.display(description="messages", empty_value="none yet")
    def sent(self, alert: Alert) -> SafeString | None:
        last = alert.messages.all()[:_MESSAGES_SHOWN]
        lines = ((f"{figures.moment(each.created_at)} UTC, {each.kind}: {_outcome(each)}",) for each in last)
        return format_html_join("", "<div>{}</div>", lines) or None

    def save_model(self, request: HttpRequest, obj: Alert, form: Any, change: bool) -> None:
        if not change:
            setattr(request, _SECRET, give_secret(obj))
            super().save_model(request, obj, form, change)
            return
        try:
            move_secret(obj, Alert.objects.get(pk=obj.pk))
        except SealBroken:
            self.message_user(request, "Its secret cannot be read any more: make a new one.", messages.WARNING)
        # Its state is written by the worker, perhaps at this moment.
        obj.save(update_fields=[*form.fields, "sealed_secret"])

    def response_add(self, request: HttpRequest, obj: Alert, post_url_continue: str | None = None) -> HttpResponse:
        return self.lead_to_secret(request, obj, getattr(request, _SECRET))

    def may_see_secret(self, request: HttpRequest) -> bool:
        return bool(self.has_change_permission(request))

    def secret_context(self, request: HttpRequest, row: Alert) -> dict[str, Any]:
        return {"title": f"Secret of the alert {row.name}"}

    # --- Test messages and new secrets --------------------------------------------------------------------------------
    @action(description="Send a test message", url_path="test", permissions=["change"], icon="send")  # type: ignore[untyped-decorator]
    def test_this(self, request: HttpRequest, object_id: str) -> HttpResponse:
        alert = self._alert(request, object_id)
        if request.method != "POST":
            return self._ask(request, alert, verb="Send a test message")
        message = send_test(alert)
        self.log_change(request, alert, "Sent a test message.")
        if message.delivered_at:
            self.message_user(request, "The webhook took the test message.", messages.SUCCESS)
        else:
            self.message_user(request, f"The test message was not delivered: {message.problem}.", messages.ERROR)
        return HttpResponseRedirect(_page(alert))

    @action(description="New secret", url_path="new-secret", permissions=["change"], icon="key")  # type: ignore[untyped-decorator]
    def new_secret(self, request: HttpRequest, object_id: str) -> HttpResponse:
        alert = self._alert(request, object_id)
        if request.method != "POST":
            return self._ask(request, alert, verb="Make a new secret")
        secret = give_secret(alert)
        alert.save(update_fields=["sealed_secret"])
        self.log_change(request, alert, "Made a new secret.")
        return self.lead_to_secret(request, alert, secret)

    def _alert(self, request: HttpRequest, object_id: str) -> Alert:
        alert: Alert | None = self.get_object(request, object_id)
        if alert is None:
            raise Http404("There is no such alert.")
        return alert

    def _ask(self, request: HttpRequest, alert: Alert, *, verb: str) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": verb,
            "opts": self.opts,
            "alert": alert,
            "verb": verb,
            "back": _page(alert),
        }
        return TemplateResponse(request, "endpoints/alert_question.html", context)


def _outcome(message: AlertMessage) -> str:
    attempts = f"{message.attempts} attempt{'' if message.attempts == 1 else 's'}"
    if message.delivered_at:
        return "delivered" if message.attempts == 1 else f"delivered after {attempts}"
    if message.due_at is None:
        return f"given up after {attempts}: {message.problem}"
    return f"not delivered yet, {attempts}: {message.problem}" if message.attempts else "waits"


def _page(alert: Alert) -> str:
    return reverse("admin:endpoints_alert_change", args=[alert.pk])
