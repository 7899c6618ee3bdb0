from __future__ import annotations

from contextlib import suppress
from typing import Any

import psycopg
from django.apps import AppConfig
from django.conf import settings
from django.db import connections
from django.db.models.signals import post_migrate


class LogSourcesConfig(AppConfig):
    name = "logsources"
    verbose_name = "Log sources"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Importing registers the system checks.
        from logsources import databases  # noqa: F401

        post_migrate.connect(_tell_what_is_left_for_a_superuser, sender=self)


def _tell_what_is_left_for_a_superuser(*, using: str, verbosity: int, stdout: Any, **_: object) -> None:
    """Say at the end of `migrate --database logs` if sandbox queries need rights that migrations cannot give.

    An upgrade that brings an allowed function needs one for it.
    """
    from logsources.databases import LOGS_ALIAS, owner_connection
    from logsources.hardening import HardeningError, LogRoles, remaining_steps
    from logsources.topology import read_topology

    if using != LOGS_ALIAS or verbosity < 1 or settings.ENDPOINTS_SANDBOX_LEVEL == "row_security":
        return
    roles = LogRoles(str(connections[using].settings_dict["USER"]), str(settings.LOGS_GATE.get("user", "")))
    # Without the roles, or a server that answers, the migration itself has said so.
    with suppress(HardeningError, psycopg.Error), owner_connection() as connection:
        command = "distribute_logs" if read_topology(connection).is_distributed else "harden_logs"
        if remaining_steps(connection, roles):
            stdout.write(
                f"Sandbox queries need rights that only a superuser can give: run manage.py {command} "
                "(docs/production.md, First start and upgrades)."
            )
