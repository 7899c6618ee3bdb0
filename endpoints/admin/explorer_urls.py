"""The addresses of the log explorer, below ``/admin/logs/``; as URL names ``log_explorer_<word>``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.contrib import admin
from django.http import HttpRequest, HttpResponseBase
from django.urls import URLPattern, path

from endpoints.admin import explorer, explorer_counts, explorer_searches
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

    def answered(method: str, handler: Handler) -> Callable[[HttpRequest], HttpResponseBase]:
        return json_view(method, explorer.for_operators(handler))

    return [
        path("", admin.site.admin_view(explorer.explorer_page), name="log_explorer"),
        path("fields/", answered("GET", explorer.fields), name="log_explorer_fields"),
        path("tail/", tail_view, name="log_explorer_tail"),
        path("download/", download_view, name="log_explorer_download"),
        path("searches/", answered("GET", explorer_searches.searches), name="log_explorer_searches"),
        path("searches/save/", answered("POST", explorer_searches.save), name="log_explorer_save_search"),
        path("searches/delete/", answered("POST", explorer_searches.delete), name="log_explorer_delete_search"),
        *(
            path(f"{word}/", answered("POST", handler), name=f"log_explorer_{word}")
            for word, handler in _POSTED.items()
        ),
    ]
