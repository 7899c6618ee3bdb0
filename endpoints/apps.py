from __future__ import annotations

from axes.apps import AppConfig as AxesConfig
from django.apps import AppConfig


class EndpointsConfig(AppConfig):
    name = "endpoints"
    verbose_name = "Endpoints"


class LoginsConfig(AxesConfig):  # type: ignore[misc]  # django-axes ships no types
    """django-axes by the name that operators read in the admin."""

    default = False
    verbose_name = "Logins"
