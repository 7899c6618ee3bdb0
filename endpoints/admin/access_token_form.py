"""The form of an access token: what is safe is chosen already, and what is not has to be."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone
from unfold.widgets import UnfoldAdminRadioSelectWidget

from endpoints.access.secrets import OwnLimits
from endpoints.access.token_limits import limits_in_force
from endpoints.access.token_rules import check_expiry, check_reach
from endpoints.admin.edit_conflicts import ConflictForm
from endpoints.admin.fields import AssignmentsField, CheckboxList, LimitField, LinesField
from endpoints.models import AccessToken, Endpoint
from logsources.models import LogSource

_KEEP: Final = "keep"
_DATE: Final = "date"
_NEVER: Final = "never"
_DAYS: Final = ("7", "30", "90")
# Long enough for a program that somebody looks after each quarter, and not for one that is forgotten.
_DEFAULT: Final = "90"
_CHOICES: Final = (*((days, f"in {days} days") for days in _DAYS), (_DATE, "at a date"), (_NEVER, "never"))
# A change to one of them is checked against the others; other edits of an old access token are not held up.
_REACH: Final = frozenset({"every_endpoint", "endpoints", "bound_arguments", "may_load"})


class AccessTokenForm(ConflictForm):
    """Starts with no endpoint and an end in 90 days; every endpoint and no end are choices of their own."""

    endpoints = forms.ModelMultipleChoiceField(
        queryset=Endpoint.objects.all(),
        required=False,
        widget=CheckboxList,
        help_text="The endpoints that it may call, if it may not call all of them.",
    )
    expires = forms.ChoiceField(
        label="Expires",
        required=False,  # scripts may send the date alone, or leave both out
        widget=UnfoldAdminRadioSelectWidget,
        help_text="Days count from the moment you save.",
    )
    bound_arguments = AssignmentsField(
        help_text="One NAME=VALUE per line, such as project=acme: a call with another value is refused, a call without "
        "it gets this one, and endpoints without this parameter cannot be called.",
    )
    allowed_origins = LinesField(
        help_text="One origin per line, such as https://app.example.org: the pages that may call with the browser "
        "tokens that it issues. None: no page of another origin.",
    )
    load_sources = forms.MultipleChoiceField(
        label="Log sources",
        required=False,
        widget=CheckboxList(columns=True),
        help_text="The only log sources that it may load rows into. None chosen: every log source.",
    )
    calls_a_minute = LimitField(help_text="Calls of every kind, cached ones too. A number, or none; blank = default.")
    calls_at_once = LimitField(
        label="Calls at the same time", help_text="Only calls that the cache cannot answer. A number, or none."
    )
    sandbox_queries_at_once = LimitField(
        label="Sandbox queries at the same time", help_text="Only calls with sql or lql. A number, or none."
    )

    class Media:
        css = {"all": ["endpoints/access-token.css"]}

    class Meta:
        model = AccessToken
        fields = (
            "name", "every_endpoint", "endpoints", "bound_arguments", "may_purge", "may_issue",
            "allowed_origins", "may_load", "load_sources", "default_project", "calls_a_minute", "calls_at_once",
            "sandbox_queries_at_once", "expires_at",
        )  # fmt: skip
        labels = {"expires_at": "Expires at"}
        help_texts = {
            "every_endpoint": "May call every endpoint, also those created later; otherwise only those chosen below.",
            "expires_at": "UTC. It counts if “at a date” is chosen.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        instance = kwargs.get("instance")
        self._is_new = instance is None or instance._state.adding
        if self._is_new:
            kwargs["initial"] = {"every_endpoint": False, "expires": _DEFAULT, **(kwargs.get("initial") or {})}
        super().__init__(*args, **kwargs)
        self._offer_ends()
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

        sources = self.fields.get("load_sources")
        if isinstance(sources, forms.MultipleChoiceField):
            # Also those that were deleted since: to drop the last name unseen would allow every log source.
            names = sorted({*LogSource.objects.values_list("name", flat=True), *(self.instance.load_sources or ())})
            sources.choices = [(name, name) for name in names]

    def _offer_ends(self) -> None:
        field = self.fields.get("expires")
        if not isinstance(field, forms.ChoiceField):
            return
        if self._is_new:
            field.choices = list(_CHOICES)
        else:
            end = self.instance.expires_at
            kept = f"as it is: {f'{timezone.localtime(end):%Y-%m-%d %H:%M} UTC' if end else 'never'}"
            field.choices, self.initial["expires"] = [(_KEEP, kept), *_CHOICES], _KEEP

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean() or {}
        if cleaned.get("every_endpoint") and cleaned.get("endpoints"):
            self.add_error("every_endpoint", "Clear this to limit the access token to the endpoints chosen below.")
        if "expires" in self.fields and not {"expires", "expires_at"} & self.errors.keys():
            try:
                cleaned["expires_at"] = self._end(cleaned.get("expires") or "", cleaned.get("expires_at"))
            except ValidationError as error:
                self.add_error(None, error)
        return cleaned

    def _end(self, chosen: str, date: datetime | None) -> datetime | None:
        """Return the chosen expiry; without a choice the date, else what the form starts with.

        Raises ValidationError if a date is chosen and missing or past, or if a date is sent that would not count.
        """
        is_date_new = "expires_at" in self.changed_data
        if not chosen:
            chosen = _DATE if date and is_date_new else _DEFAULT if self._is_new else _KEEP
        if chosen == _DATE:
            if date is None:
                raise ValidationError({"expires_at": "Enter the date and the time, or choose another end."})
            if self._is_new or is_date_new:
                check_expiry(date, now=timezone.now())
            return date
        if date and is_date_new:
            raise ValidationError({"expires": "Choose “at a date”, or clear the date: it would not count."})
        if chosen == _KEEP:
            kept: datetime | None = self.instance.expires_at
            return kept
        if chosen == _NEVER:
            return None
        return timezone.now() + timedelta(days=int(chosen))

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]  # the stubs leave it out
        # After the rules of each field: an argument that cannot be read has no place to be looked for.
        if self.errors or not (self._is_new or _REACH.intersection(self.changed_data)):
            return
        cleaned = self.cleaned_data
        try:
            check_reach(
                every_endpoint=cleaned["every_endpoint"],
                endpoints=list(cleaned["endpoints"]),
                bound_arguments=cleaned["bound_arguments"],
                may_load=cleaned["may_load"],
            )
        except ValidationError as error:
            self.add_error(None, error)
