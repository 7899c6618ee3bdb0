"""The addresses of an installation with OIDC_ISSUER, which the settings of the test run do not have."""

from __future__ import annotations

from django.urls import include, path

from config import urls
from endpoints.admin.single_sign_on import sso_urls

handler400, handler404, handler500 = urls.handler400, urls.handler404, urls.handler500
urlpatterns = [path("admin/sso/", include(sso_urls())), *urls.urlpatterns]
