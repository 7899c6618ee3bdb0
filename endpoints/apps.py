from __future__ import annotations

from axes.apps import AppConfig as AxesConfig
from django.apps import AppConfig


class EndpointsConfig(AppConfig):
    default = True  # this module has another one: that of axes, which is imported
    name = "endpoints"
    verbose_name = "Endpoints"

    def ready(self) -> None:
        """Note how loads by commands end, which know nothing of endpoints."""
        from endpoints.cache.usage.load_ends import flush, note_load_end
        from logsources.loading import LoadOutcome, watch_loads

        def note(outcome: LoadOutcome) -> None:
            note_load_end(outcome.source, rows=outcome.rows, failure=outcome.failure)
            flush()  # the command may end before the thread that writes notes has its turn

        watch_loads(note)


class LoginsConfig(AxesConfig):  # type: ignore[misc]  # django-axes ships no types
    """django-axes by the name that operators read in the admin."""

    default = False
    verbose_name = "Logins"
