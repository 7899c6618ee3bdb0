"""Django's `migrate`, which changes no database of another version, and says what it cannot do in the log database."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psycopg
from django.conf import settings
from django.core.management.base import CommandError
from django.core.management.commands import migrate

from logsources.databases import LOGS_ALIAS, owner_connection
from logsources.hardening import HardeningError, remaining_steps
from logsources.management.own_command import OwnCommand
from logsources.management.superuser import log_roles
from logsources.schema_numbers import told_of_another_version
from logsources.topology import read_topology


class Command(OwnCommand, migrate.Command):
    examples = ("python manage.py migrate", "python manage.py migrate --database logs")

    def handle(self, *args: Any, database: str, verbosity: int, **options: Any) -> None:
        if told := told_of_another_version(database):
            raise CommandError(told)
        super().handle(*args, database=database, verbosity=verbosity, **options)
        if database == LOGS_ALIAS and verbosity and settings.ENDPOINTS_SANDBOX_LEVEL != "row_security":
            self._tell_what_is_left_for_a_superuser()

    def _tell_what_is_left_for_a_superuser(self) -> None:
        """Sandbox queries need rights that only one gives, for each allowed function that an upgrade brings too."""
        # Without the roles, or a server that answers, the migration itself has said so.
        with suppress(HardeningError, psycopg.Error), owner_connection() as connection:
            command = "distribute_logs" if read_topology(connection).is_distributed else "harden_logs"
            if remaining_steps(connection, log_roles()):
                self.stdout.write(
                    f"Sandbox queries need rights that only a superuser can give: run manage.py {command} "
                    "(docs/production.md, First start and upgrades)."
                )
