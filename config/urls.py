"""Every address of the service: the API and its documents, health, metrics, the admin.

Routes of the API take both forms, with and without a trailing slash, and redirect neither.
"""

from __future__ import annotations

from django.conf import settings
from django.contrib import admin
from django.urls import include, path, re_path
from django.views.generic import RedirectView

from endpoints.admin.explorer_urls import explorer_urls
from endpoints.admin.json_views import json_view
from endpoints.admin.logins import own_session
from endpoints.admin.schedules import schedules_page
from endpoints.admin.usage_overview import usage_urls
from endpoints.api import logs, monitoring, otlp, tokens, views
from endpoints.api.docs_page import docs_page
from endpoints.api.mcp.views import MCPView
from endpoints.api.openapi import SchemaView

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index"), name="home"),
    path("admin/logs/", include(explorer_urls())),
    path("admin/session/", json_view("GET", own_session), name="session"),
    path("admin/schedules/", admin.site.admin_view(schedules_page), name="schedules"),
    path("admin/usage/", include(usage_urls())),
    path("admin/", admin.site.urls),
    re_path(r"^api/endpoints/query/(?P<reference>[^/]+)/?$", views.QueryView.as_view(), name="query"),
    # The addresses that clients of other services know.
    re_path(r"^api/endpoints/query/name/(?P<reference>[^/]+)/?$", views.QueryView.as_view()),
    re_path(r"^endpoints/query/(?P<reference>[^/]+)/?$", views.QueryView.as_view()),
    re_path(r"^api/endpoints/cache/(?P<reference>[^/]+)/?$", views.CacheView.as_view(), name="cache"),
    re_path(r"^api/calls/(?P<request_id>.+?)/?$", views.CallView.as_view(), name="call"),
    re_path(r"^api/logs/?$", logs.LoadView.as_view(), name="logs"),
    # As clients written for another service have it: they put /logs behind whatever base address they are given.
    re_path(r"^(?:api/logs/json|logs(?:/json)?)/?$", logs.LoadView.as_view()),
    re_path(r"^v1/logs/?$", otlp.OTLPView.as_view(), name="otlp-logs"),
    re_path(r"^mcp/?$", MCPView.as_view(), name="mcp"),
    re_path(r"^api/tokens/?$", tokens.TokensView.as_view(), name="tokens"),
    re_path(r"^api/openapi\.json/?$", SchemaView.as_view(), name="openapi"),
    re_path(r"^api/docs/?$", docs_page, name="api-docs"),
    re_path(r"^api(?:/(?P<rest>.*))?$", views.unknown_route),
    re_path(r"^metrics/?$", monitoring.metrics, name="metrics"),
    re_path(r"^livez/?$", monitoring.livez, name="livez"),
    re_path(r"^health/?$", monitoring.livez, name="health"),  # the address that log shippers check
    re_path(r"^readyz/?$", monitoring.readyz, name="readyz"),
]

if settings.OIDC_ISSUER:
    from endpoints.admin.single_sign_on import sso_urls  # it needs the extra `sso`

    urlpatterns.insert(0, path("admin/sso/", include(sso_urls())))

handler400 = "endpoints.api.replies.bad_request"
handler404 = "endpoints.api.replies.not_found"
handler500 = "endpoints.api.replies.server_error"
