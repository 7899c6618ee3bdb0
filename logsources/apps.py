from __future__ import annotations

from django.apps import AppConfig


class LogSourcesConfig(AppConfig):
    name = "logsources"
    verbose_name = "Log sources"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Importing registers the system checks.
        from logsources import databases  # noqa: F401
