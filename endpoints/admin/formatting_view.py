"""POST …/draft/format/: the draft's SQL laid out anew, for the button above the editor. Nothing is run or saved.

The body is ``{"sql": text}``; the answer ``{"sql": text}``, or a failure as `json_views` tells it: 422
``not_formattable``, 400 where the body is something else, 401 and 403 for whom the admin would not let edit.
"""

from __future__ import annotations

from typing import Any

from django.contrib.admin.options import ModelAdmin
from django.http import HttpRequest
from django.urls import path

from endpoints.admin.draft_json import Json
from endpoints.admin.json_views import Refusal, json_view, read_body
from endpoints.models import Endpoint
from endpoints.sql.formatting import NotFormattable, format_sql

FORMAT_URL_NAME = "endpoints_endpoint_draft_format"


def format_url(admin: ModelAdmin[Endpoint]) -> Any:
    """Return the address of the format button, for the admin of endpoints."""

    def formatted(request: HttpRequest) -> Json:
        if not admin.admin_site.has_permission(request):
            raise Refusal(401, "not_logged_in", "Your session is over. Log in again in another tab.")
        if not (admin.has_change_permission(request) or admin.has_add_permission(request)):
            raise Refusal(403, "not_permitted", "Your role may not edit endpoints.")
        sql = read_body(request).get("sql")
        if not isinstance(sql, str):
            raise Refusal(400, "invalid_request", 'Send {"sql": text}.')
        try:
            return {"sql": format_sql(sql)}
        except NotFormattable as error:
            raise Refusal(422, "not_formattable", str(error)) from error

    return path("draft/format/", json_view("POST", formatted), name=FORMAT_URL_NAME)
