"""The logins of the log database that commands work with: its superuser, where one is needed, its owner and gate."""

from __future__ import annotations

import os

from django.conf import settings
from django.core.management.base import CommandError
from django.db import connections

from config import embedded
from logsources.databases import LOGS_ALIAS
from logsources.hardening import LogRoles


def log_roles() -> LogRoles:
    """Return the logins of this installation, in the database that the alias `logs` names at this moment."""
    owner = str(connections[LOGS_ALIAS].settings_dict["USER"])
    return LogRoles(owner, gate=str(settings.LOGS_GATE.get("user", "")))


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
