"""Every address of the service: the API and its documents, health, the admin."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from endpoints.admin.explorer import explorer_urls

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index"), name="home"),
    path("admin/logs/", include(explorer_urls())),
    path("admin/", admin.site.urls),
    path("", include("endpoints.api.urls")),
]

handler400 = "endpoints.api.replies.bad_request"
handler404 = "endpoints.api.replies.not_found"
handler500 = "endpoints.api.replies.server_error"
