"""The admin of models with a history: every earlier state can be read, none can be changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import formats, timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from simple_history.admin import SimpleHistoryAdmin
from unfold.admin import ModelAdmin

from endpoints.defining.saving import compare_versions, lines_of, restore_version
from endpoints.models import Endpoint

_HEADERS: Final = ("Entry", "What", "When", "By", "Changed")
_KINDS: Mapping[str, str] = {"+": "created", "~": "changed", "-": "deleted"}


class ReadableHistoryAdmin(SimpleHistoryAdmin, ModelAdmin):  # type: ignore[misc]
    """Lists earlier states and shows one as text. Restoring one is a new save, checked like any other."""

    object_history_template = "endpoints/history.html"
    object_history_form_template = "endpoints/history_entry.html"
    # Fields whose change is listed, by the name that people know.
    history_fields: Mapping[str, str] = {}

    def history_title(self, record: Any) -> str:
        """Return the name of an entry in the list."""
        return str(record.history_object)

    def render_history_view(
        self, request: HttpRequest, template: str, context: dict[str, Any], **kwargs: Any
    ) -> HttpResponse:
        if "page_obj" in context:
            context["table"] = self.history_table(list(context["page_obj"]))
        else:
            context["recorded_at"] = context["original"]._history.history_date
        response: HttpResponse = super().render_history_view(request, template, context, **kwargs)
        return response

    def history_table(self, records: Sequence[Any]) -> dict[str, list[Any]]:
        """Return the headers and rows of the list."""
        return {"headers": list(_HEADERS), "rows": [self._history_row(record) for record in records]}

    def _history_row(self, record: Any) -> list[str | SafeString]:
        options = self.model._meta
        # Not the key of `history_object`: of a deleted row it would be gone.
        key = getattr(record, options.pk.attname)
        address = reverse(f"admin:{options.app_label}_{options.model_name}_simple_history", args=[key, record.pk])
        return [
            format_html(
                '<a class="text-primary-600 underline dark:text-primary-500" href="{}">{}</a>',
                address,
                self.history_title(record),
            ),
            ", ".join(filter(None, (_KINDS[record.history_type], record.history_change_reason))),
            formats.date_format(timezone.localtime(record.history_date), "Y-m-d H:i:s"),
            str(record.history_user or "—"),
            self._changes(record),
        ]

    def _changes(self, record: Any) -> str:
        previous = record.prev_record
        if previous is None:
            return ""
        changed = set(record.diff_against(previous).changed_fields)
        # Fields that no form edits are left out there: result columns, for example.
        own = {field.name for field in record._meta.concrete_fields}.intersection(self.history_fields)
        changed |= {name for name in own if getattr(record, name) != getattr(previous, name)}
        labels = (label for name, label in self.history_fields.items() if name in changed)
        return ", ".join(dict.fromkeys(labels))

    def revert_disabled(self, request: HttpRequest, obj: Any = None) -> bool:
        return True

    def history_form_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method == "POST":
            raise PermissionDenied
        response: HttpResponse = super().history_form_view(request, *args, **kwargs)
        return response

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        if not self.shows_history(request):
            return tuple(self.readonly_fields)
        return (*self.readonly_fields, *self.form.Meta.fields)

    def shows_history(self, request: HttpRequest) -> bool:
        """Return whether the page shows an earlier state."""
        match = request.resolver_match
        return bool(match and match.url_name and match.url_name.endswith("_simple_history"))


# --- Versions ---------------------------------------------------------------------------------------------------------
RESTORE_URL_NAME: Final = "endpoints_endpoint_restore"
COMPARE_URL_NAME: Final = "endpoints_endpoint_compare"
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
FROM, TO = "from", "to"  # the two versions that are compared, in the address by their numbers


@dataclass(frozen=True, slots=True)
class SavedVersion:
    """One of the versions that can be chosen."""

    number: int
    saved_at: datetime
    author: str


def _versions_among(records: Iterable[Any]) -> list[int]:
    """Return the numbers of the versions, in the order of the records; a deletion saves none."""
    return list(dict.fromkeys(record.version for record in records if record.history_type != "-"))


def _choices_of_row(version: int, chosen: Mapping[str, int]) -> SafeString:
    return format_html_join(
        " ",
        '<label><input type="radio" name="{}" value="{}"{}> {}<span class="sr-only"> version {}</span></label>',
        [
            (name, version, SafeString(" checked") if chosen[name] == version else "", name, version)
            for name in (FROM, TO)
        ],
    )


def _chosen(request: HttpRequest, name: str, versions: Mapping[int, SavedVersion], otherwise: int) -> int:
    """Return the number that the address gives. Raises Http404 for one that no version has."""
    text = request.GET.get(name, "")
    if not text:
        return otherwise
    number = int(text) if _NUMBER.fullmatch(text) else 0
    if number not in versions:
        raise Http404(f"{name} must be the number of a version.")
    return number


class VersionedAdmin(ReadableHistoryAdmin):
    """Shows a version beside the one before it or the newest (`?with=newest`), and any two beside each other."""

    object_history_form_template = "endpoints/version.html"

    def history_title(self, record: Any) -> str:
        return f"version {record.version}"

    def get_urls(self) -> list[Any]:
        restore = path(
            "<uuid:object_id>/history/<int:history_id>/restore/",
            self.admin_site.admin_view(self.restore_view),
            name=RESTORE_URL_NAME,
        )
        compare = path(
            "<uuid:object_id>/history/compare/", self.admin_site.admin_view(self.compare_view), name=COMPARE_URL_NAME
        )
        return [restore, compare, *super().get_urls()]

    def render_history_view(
        self, request: HttpRequest, template: str, context: dict[str, Any], **kwargs: Any
    ) -> HttpResponse:
        if "page_obj" not in context:
            context |= self._version_context(request, context["original"]._history)
        elif len(_versions_among(context["page_obj"])) > 1:
            context["compare_url"] = reverse(f"admin:{COMPARE_URL_NAME}", args=[context["object"].pk])
        response: HttpResponse = super().render_history_view(request, template, context, **kwargs)
        return response

    def history_table(self, records: Sequence[Any]) -> dict[str, list[Any]]:
        """Return the list with two versions to choose in it, at first the newest ones."""
        table = super().history_table(records)
        versions = _versions_among(records)
        if len(versions) < 2:
            return table
        chosen = {FROM: versions[1], TO: versions[0]}
        cells = [_choices_of_row(record.version, chosen) if record.history_type != "-" else "" for record in records]
        rows = [[first, choices, *others] for (first, *others), choices in zip(table["rows"], cells, strict=True)]
        return {"headers": [table["headers"][0], "Compare", *table["headers"][1:]], "rows": rows}

    def _version_context(self, request: HttpRequest, record: Any) -> dict[str, Any]:
        newest = Endpoint.objects.filter(pk=record.id).first()
        is_older = newest is not None and record.version != newest.version
        beside_newest = is_older and request.GET.get("with") == "newest"
        previous = record.prev_record
        difference, heading = None, f"The SQL of version {record.version}"
        if newest is not None and beside_newest:
            difference = compare_versions(record, newest)
            heading = f"From version {record.version} to version {newest.version}, the latest"
        elif previous is not None:
            difference = compare_versions(previous, record)
            heading = f"From version {previous.version} to version {record.version}"
        may_restore = is_older and self.has_change_permission(request, newest)
        return {
            "record": record,
            "heading": heading,
            "difference": difference,
            "whole_sql": lines_of(record.sql),
            "is_older": is_older,
            "beside_newest": beside_newest,
            "has_previous": previous is not None,
            "newest_version": newest.version if newest else None,
            "restore_url": reverse(f"admin:{RESTORE_URL_NAME}", args=[record.id, record.pk]) if may_restore else "",
        }

    def compare_view(self, request: HttpRequest, object_id: UUID) -> HttpResponse:
        """Show what differs between two versions: `?from=2&to=5`; without these, between the newest two."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        saved = Endpoint.history.filter(id=object_id).exclude(history_type="-")
        rows = saved.order_by("version", "history_id").values_list("version", "history_date", "history_user__username")
        versions = {number: SavedVersion(number, date, author or "") for number, date, author in rows}
        if not versions:
            raise Http404("This endpoint has no versions.")
        numbers = sorted(versions, reverse=True)
        older = _chosen(request, FROM, versions, numbers[min(1, len(numbers) - 1)])
        newer = _chosen(request, TO, versions, numbers[0])
        records = [saved.filter(version=number).latest("history_id") for number in (older, newer)]
        endpoint = Endpoint.objects.filter(pk=object_id).first()
        context = {
            **self.admin_site.each_context(request),
            "opts": self.model._meta,
            "title": f"Compare versions: {records[1].name}",
            "original": endpoint,
            "versions": [versions[number] for number in numbers],
            "choices": [(FROM, "From version", older), (TO, "To version", newer)],
            "heading": f"From version {older} to version {newer}",
            "difference": compare_versions(*records),
            "history_url": reverse("admin:endpoints_endpoint_history", args=[object_id]),
            "change_url": reverse("admin:endpoints_endpoint_change", args=[object_id]) if endpoint else "",
        }
        return TemplateResponse(request, "endpoints/compare.html", context)

    def restore_view(self, request: HttpRequest, object_id: UUID, history_id: int) -> HttpResponse:
        """Save an earlier version as the newest, or report why it no longer passes the checks."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_change_permission(request):
            raise PermissionDenied
        endpoint = self.get_object(request, str(object_id))
        if endpoint is None:
            raise Http404("There is no such endpoint.")
        record = get_object_or_404(Endpoint.history, history_id=history_id, id=endpoint.pk)
        try:
            saved = restore_version(endpoint, record)
        except ValidationError as error:
            reasons = " ".join(error.messages)
            self.message_user(request, f"Version {record.version} was not restored. {reasons}", messages.ERROR)
            address = reverse("admin:endpoints_endpoint_simple_history", args=[object_id, history_id])
            return HttpResponseRedirect(address)
        self.log_change(request, saved, f"Restored version {record.version} as version {saved.version}.")
        message = f"Version {record.version} restored as version {saved.version}."
        self.message_user(request, message, messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:endpoints_endpoint_change", args=[object_id]))
