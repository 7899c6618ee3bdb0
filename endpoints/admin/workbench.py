"""What the endpoint's page needs beyond its form: where drafts are checked and tried, for whom that is allowed."""

from __future__ import annotations

from typing import Any, Final

from django.contrib.admin.options import ModelAdmin
from django.http import HttpRequest
from django.urls import reverse

from endpoints.admin.draft_views import PERMISSION
from endpoints.admin.formatting_view import FORMAT_URL_NAME
from endpoints.definition import SETTINGS_IN_DRAFTS
from endpoints.models import Endpoint

_ADDRESSES: Final = ("check", "run", "explain", "cancel", "catalogue")


def workbench_context(
    admin: ModelAdmin[Endpoint], request: HttpRequest, endpoint: Endpoint | None
) -> dict[str, Any] | None:
    """Return what the page's scripts are started with, or None for whom the page is only to be read."""
    saved = endpoint is not None and bool(endpoint.version)
    permitted = admin.has_change_permission(request, endpoint) if saved else admin.has_add_permission(request)
    if not permitted:
        return None
    may_try = request.user.has_perm(PERMISSION)
    addresses = {word: reverse(f"admin:endpoints_endpoint_draft_{word}") for word in _ADDRESSES} if may_try else {}
    return {
        "id": str(endpoint.pk) if saved and endpoint is not None else None,
        "may_try": may_try,
        "settings": list(SETTINGS_IN_DRAFTS),
        "addresses": {**addresses, "format": reverse(f"admin:{FORMAT_URL_NAME}")},
    }
