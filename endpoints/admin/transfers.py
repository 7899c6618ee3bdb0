"""Endpoints as files in the admin: downloaded one by one or together, uploaded with a preview of the changes."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from typing import Final

from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import SuspiciousOperation, ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from unfold.admin import ModelAdmin
from unfold.decorators import action

from endpoints.defining.differences import compare_lines
from endpoints.defining.transfers import ImportOutcome, ImportResult, exported_file, import_endpoint_files
from endpoints.models import Endpoint

# What was uploaded comes back with the confirmation as a form field, which Django takes up to its own limit.
MAX_IMPORT_BYTES: Final = settings.DATA_UPLOAD_MAX_MEMORY_SIZE // 2


class TransferAdmin(ModelAdmin):  # type: ignore[misc]
    """Exports with permission to change endpoints, imports with permission to add them as well."""

    actions_list = ("import_files",)
    actions_detail = ("export_file",)

    @action(description="Export", url_path="export", permissions=["change"], icon="download")  # type: ignore[untyped-decorator]
    def export_file(self, request: HttpRequest, object_id: str) -> HttpResponse:
        endpoint = self.get_object(request, object_id)
        if endpoint is None:
            raise Http404("There is no such endpoint.")
        name, text = exported_file(endpoint)
        return _download(name, text.encode(), "application/sql; charset=utf-8")

    @admin.action(description="Export the chosen endpoints as files", permissions=["change"])
    def export_chosen(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> HttpResponse:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for endpoint in queryset.prefetch_related("parameters"):
                archive.writestr(*exported_file(endpoint))
        return _download("endpoints.zip", buffer.getvalue(), "application/zip")

    @action(description="Import", url_path="import", permissions=["add", "change"], icon="upload")  # type: ignore[untyped-decorator]
    def import_files(self, request: HttpRequest) -> HttpResponse:
        """Take files, show what they would change, and import them once confirmed."""
        if request.method != "POST":
            return self._import_page(request)
        if "contents" in request.POST:
            return self._import_confirmed(request, _confirmed_contents(request))
        try:
            contents = _uploaded_contents(request.FILES.getlist("files"))
        except ValidationError as error:
            return self._import_page(request, problems=error.messages)
        return self._import_page(request, contents=contents, results=import_endpoint_files(contents, dry_run=True))

    def _import_confirmed(self, request: HttpRequest, contents: Mapping[str, bytes]) -> HttpResponse:
        checked = import_endpoint_files(contents, dry_run=True)
        if _digest(checked) != request.POST.get("shown"):
            changed = ["Endpoints have been changed since: this is what the files would change now."]
            return self._import_page(request, contents=contents, results=checked, problems=changed)
        results = import_endpoint_files(contents, dry_run=False)
        if any(result.outcome is ImportOutcome.REFUSED for result in results):
            return self._import_page(request, contents=contents, results=results)
        for result in results:
            if result.version is not None:
                message = f"Imported from {result.file} as version {result.version}."
                self.log_change(request, Endpoint.objects.get(name=result.name), message)
        self.message_user(request, f"Imported: {_counted(results)}.", messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:endpoints_endpoint_changelist"))

    def _import_page(
        self,
        request: HttpRequest,
        *,
        contents: Mapping[str, bytes] | None = None,
        results: Sequence[ImportResult] = (),
        problems: Sequence[str] = (),
    ) -> HttpResponse:
        refused = any(result.outcome is ImportOutcome.REFUSED for result in results)
        changing = any(result.outcome in (ImportOutcome.CREATED, ImportOutcome.CHANGED) for result in results)
        context = {
            **self.admin_site.each_context(request),
            "title": "Import endpoints",
            "opts": self.opts,
            "problems": problems,
            "refused": refused,
            "previews": [(result, compare_lines(result.before, result.after)) for result in results],
            "contents": _as_field(contents) if contents and changing and not refused else "",
            "shown": _digest(results),
        }
        return TemplateResponse(request, "endpoints/import.html", context, status=400 if problems or refused else 200)


def _download(name: str, body: bytes, content_type: str) -> HttpResponse:
    # Endpoint names contain nothing that needs quoting.
    disposition = f'attachment; filename="{name}"'
    return HttpResponse(body, content_type=content_type, headers={"Content-Disposition": disposition})


def _uploaded_contents(files: Sequence[UploadedFile[bytes]]) -> dict[str, bytes]:
    """Return the uploaded files by name. Raises ValidationError."""
    if not files:
        raise ValidationError("Choose at least one .sql file.")
    if sum(file.size or 0 for file in files) > MAX_IMPORT_BYTES:
        raise ValidationError(f"The files are too large: they may have at most {MAX_IMPORT_BYTES} bytes together.")
    contents: dict[str, bytes] = {}
    for file in files:
        name = str(file.name)
        if name in contents:
            raise ValidationError(f"Two files have the name {name}.")
        contents[name] = file.read()
    return contents


def _as_field(contents: Mapping[str, bytes]) -> str:
    return json.dumps({name: content.decode() for name, content in contents.items()}, ensure_ascii=False)


def _confirmed_contents(request: HttpRequest) -> dict[str, bytes]:
    try:
        contents = json.loads(request.POST["contents"])
        return {str(name): content.encode() for name, content in contents.items()}
    except (ValueError, AttributeError) as error:
        raise SuspiciousOperation("The confirmation of an import was not sent by its page.") from error


def _digest(results: Sequence[ImportResult]) -> str:
    """Return a digest of the confirmed page: the same change of the same state has the same digest."""
    told = [(result.file, result.outcome.value, result.before, result.after) for result in results]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _counted(results: Sequence[ImportResult]) -> str:
    outcomes = [result.outcome for result in results]
    return ", ".join(f"{outcomes.count(one)} {one}" for one in dict.fromkeys(outcomes))
