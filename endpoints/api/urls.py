"""The API's routes; each takes both forms, with and without a trailing slash, and redirects neither."""

from __future__ import annotations

from django.urls import re_path

from endpoints.api import logs, monitoring, views
from endpoints.api.monitoring import metrics
from endpoints.api.openapi import SchemaView, SwaggerView
from endpoints.api.views import CacheView

urlpatterns = [
    re_path(r"^api/endpoints/query/(?P<reference>[^/]+)/?$", views.QueryView.as_view(), name="query"),
    re_path(r"^api/endpoints/cache/(?P<reference>[^/]+)/?$", CacheView.as_view(), name="cache"),
    re_path(r"^api/logs/?$", logs.LoadView.as_view(), name="logs"),
    re_path(r"^api/openapi\.json/?$", SchemaView.as_view(), name="openapi"),
    re_path(r"^api/docs/?$", SwaggerView.as_view(url_name="openapi"), name="api-docs"),
    re_path(r"^api(?:/(?P<rest>.*))?$", views.unknown_route),
    re_path(r"^metrics/?$", metrics, name="metrics"),
    re_path(r"^livez/?$", monitoring.livez, name="livez"),
    re_path(r"^health/?$", monitoring.livez, name="health"),  # the address that log shippers check
    re_path(r"^readyz/?$", monitoring.readyz, name="readyz"),
]
