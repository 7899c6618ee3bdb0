"""The addresses of the log explorer, below ``/admin/logs/``; as URL names ``log_explorer_<word>``."""

from __future__ import annotations

from typing import Final

from django.contrib import admin
from django.urls import URLPattern, path

from endpoints.admin import explorer, explorer_counts
from endpoints.admin.explorer_downloads import download_view
from endpoints.admin.explorer_tail import tail_view
from endpoints.admin.json_views import Handler, json_view

_POSTED: Final[dict[str, Handler]] = {
    "rows": explorer.rows,
    "histogram": explorer.histogram,
    "filter": explorer.filter_query,
    "cancel": explorer.cancel,
    "values": explorer_counts.top_values,
    "severities": explorer_counts.severities,
    "notes": explorer_counts.notes,
}


def explorer_urls() -> list[URLPattern]:
    """Return the page, and what its script asks for."""
    return [
        path("", admin.site.admin_view(explorer.explorer_page), name="log_explorer"),
        path("fields/", json_view("GET", explorer.for_operators(explorer.fields)), name="log_explorer_fields"),
        path("tail/", tail_view, name="log_explorer_tail"),
        path("download/", download_view, name="log_explorer_download"),
        *(
            path(f"{word}/", json_view("POST", explorer.for_operators(handler)), name=f"log_explorer_{word}")
            for word, handler in _POSTED.items()
        ),
    ]
