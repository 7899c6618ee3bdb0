"""The superuser of the log database, for the commands that need one."""

from __future__ import annotations

import os

from django.conf import settings
from django.core.management.base import CommandError

from config import embedded


def find_superuser_url(option: str | None) -> str:
    """Return the URL of the option, or LOGS_SUPERUSER_URL, or the embedded server's.

    Raises CommandError if there is none.
    """
    url = option or os.environ.get("LOGS_SUPERUSER_URL")
    if url:
        return url
    known = embedded.known_urls(settings.LOCAL_DIR)
    # The embedded superuser is of no use if the log database is on another server.
    if known is not None and known.superuser_url and known.logs_database_url == settings.LOGS_DATABASE_URL:
        return known.superuser_url
    raise CommandError("No superuser is known: use --superuser-url or set LOGS_SUPERUSER_URL.")
